"""sims: the protocol code of production in a deterministic world of virtual time.

``errors``, ``unfinished`` (files that are not whole yet), ``dataset`` (rows on disk), ``recording``
(rows that are written while a scenario is played) and ``cli`` (``chordal sim``) stand here.

Rooms
    ``world`` (virtual time, hosts, links, faults), ``workloads`` (clients of whole brokers:
    publishers and subscribers), ``verdicts`` (what the world knows and no broker can),
    ``experiments`` (simulated brokers, and the verbs that break them), ``explore`` (all orders in
    which things may happen), ``stories`` (what is done to a ring, with a verdict), ``scenarios``
    (the same, written down in files), ``campaign`` (many seeds), ``twin`` (a drill of a live ring,
    played again), ``plots`` (curves).
"""
