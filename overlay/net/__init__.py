"""One connection: sockets, TLS bytes, and who is served first. Runs on trio.

``transport`` (listen, call), ``tls_stream`` (TLS over a socket), ``connection`` (reader and
writer), ``turn`` (when is written), ``precedence`` (who is served first), ``slices`` (long work in
parts), ``alarm`` (who waits for a deadline), ``memory`` (stands in for sockets in tests).
"""
