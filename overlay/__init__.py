"""overlay: identities, frames, links of several classes, transports, and the words of machines.

The lowest package. It knows nothing of rings or events; see ``docs/architecture.md``.

Words of all packages
    ``machine`` (inputs, effects, facts), ``ids``, ``address``, ``errors``, ``limits``,
    ``shares`` (whose it is, where there is only so much), ``rng``,
    ``trace_schema`` (the columns of runs and incidents, and the phases of a repair),
    ``quantiles`` (of times, some of which are not over), ``wording``, ``release`` (which version
    this is), ``circular`` (numbers without an end).
The door
    ``driver`` runs a machine on trio.
Rooms, from the top
    ``links`` (from a call to a good-bye), ``net`` (one connection), ``queues`` (what waits to be
    sent), ``multigraph`` (links as measured), ``authority`` (what only its owner runs),
    ``security`` (who an end is), ``wire`` (frames, and what two ends can say).
"""
