"""What campaigns and tests put brokers into, and do to their connections.

Real processes
    ``processes`` (brokers and commands), ``proxy`` (keeps every byte), ``flaky`` (a proxy that
    harms), ``greetings`` (what a client says first), ``waiting`` (look again until something has
    happened).
In this process
    ``in_process`` (a command), ``brokers`` (whole ones), ``virtual`` (their network in memory, in
    virtual time), ``mesh`` (surveys and relay paths alone, in virtual time).
"""
