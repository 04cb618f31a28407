"""One connection: sockets, TLS bytes, and who is served first. Runs on trio.

``transport`` (listens and calls), ``tls_stream`` (TLS over a socket), ``connection`` (its queues,
reading and writing), ``turn`` (at its end all is written), ``precedence`` (who is served first),
``slices`` (of long work), ``alarm`` (waits for deadlines), ``memory`` (stands in for sockets),
``process_memory`` (what the process takes).
"""
