"""Measurements of the ring against its bars.

Whether it holds together
    ``invariants``, ``joins``, ``gaps`` (in events while links fail), ``merge``, ``runs`` (of
    neighbours that die at once), ``backups`` (records that are lost), ``detection`` (a room of its
    own); ``link-cuts.toml``, a scenario with promises.
How good it is
    ``hops``, ``resilience`` (routes while many are dead), ``traffic``,
    ``far_death`` (what one death costs a quiet ring, and how far it is heard of), ``growth`` (what
    units cost, from 8 brokers to 1,000), ``unsure`` (how long no mask is sure meanwhile).
What they measure in
    ``rings`` (large rings in virtual time), ``tables`` (rings as tables of ids and links),
    ``watched_rings`` (small ones, asked for Zave's invariants all the time), ``deaths`` (one join,
    in which one of those concerned dies), ``one_death`` (a quiet ring, with and without it).
"""
