"""What campaigns and tests put brokers into, and do to their connections.

``processes`` (real brokers and commands), ``proxy`` (keeps every byte), ``flaky`` (a proxy that
harms), ``greetings`` (what a client says first), ``mesh`` (surveys and relay paths alone, in
virtual time), ``waiting`` (look again until something has happened).
"""
