"""Throughput and latency of links beside the limits of the machine.

The command
    ``__main__``, ``table`` and ``rows`` (the whole broker, with its bars), ``measure`` (one flow
    through one system), ``processes``, ``ringed`` (rings of brokers), ``roles`` (one process of a
    measurement), ``ends`` (what publishers and subscribers have in common), ``pacing``, ``shape``
    (the event that all carry), ``stamps``.
The systems
    ``bare`` (the limit), ``chordal`` (links alone), ``broker`` (the whole broker), ``nats`` and
    ``nats_ends``.
Express
    ``express``, ``express_ends``.
"""
