"""Throughput and latency of links beside the limits of the machine.

The command
    ``__main__``, ``measure`` (one flow through one system), ``processes``, ``roles`` (one process
    of a measurement), ``ends`` (what publishers and subscribers have in common), ``shape`` (the
    event that all carry).
The systems
    ``bare`` (the limit), ``chordal`` (links alone), ``broker`` (the whole broker), ``nats``.
Express
    ``express``, ``express_ends``.
"""
