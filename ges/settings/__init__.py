"""What a broker can be set to, and where each setting came from.

What there is
    ``schema`` (the structs: a new setting is one field there) and ``limits`` (one of its tables),
    ``setting`` (one setting, and how a struct is taken apart), ``forms`` and ``quantities`` (how
    values are written), ``values`` (from what is written to a value, and back).
Where values come from
    ``files`` (``chordal.toml``), ``gathering`` (file, environment and flags, the stronger over
    the weaker), ``reloading`` (what may change while a broker runs).
What is done with them
    ``brokers`` (the settings as a :class:`~ges.broker.config.BrokerConfig`), ``reference`` (the
    page and the example that are written from the structs).
For clients
    ``contexts``: connections by name.
"""
