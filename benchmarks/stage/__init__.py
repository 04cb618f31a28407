"""What campaigns and tests put brokers into, and do to their connections.

Real processes
    ``processes`` (brokers and commands), ``forked`` (the same without the start of Python),
    ``greetings`` (what a client says first), ``waiting`` (looks again until something has
    happened).
Proxies in front of brokers
    ``loopback`` (what all have in common), ``proxy`` (keeps every byte), ``flaky`` (harms).
In this process
    ``in_process`` (a command), ``brokers`` (whole ones), ``memory_streams`` (they stand in for
    sockets), ``virtual`` (a network of these, in virtual time).
"""
