"""One connection: sockets, TLS bytes, and who is served first. Runs on trio.

``transport`` (listens and calls), ``tls_stream`` (TLS over a socket), ``connection`` (its queues,
reading and writing), ``turn`` (at its end all is written), ``holding_back`` (who waits for crowded
queues), ``precedence`` (who is served first),
``slices`` (of long work), ``alarm`` (waits for deadlines),
``process_memory`` (what the process takes), ``free_ports`` (for brokers that a command starts).

Of no event loop are ``tls_bytes`` (TLS between buffers), ``call_failures`` (in words) and
``round_trip`` (as the kernel has seen it): a client under asyncio has them, too.
"""
