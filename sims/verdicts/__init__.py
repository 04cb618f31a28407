"""Judges a run by what only the simulated world knows, and no broker can. Pure.

``ledger`` (knows who died when, who is right about it, and whether the ring is whole),
``deliveries`` (what became of each event at each subscriber, and why; its words: ``judged``),
``units`` (whether tables and addresses are in order), ``unit_repairs`` (when the units that a death
concerns are so again), ``survivors`` (what clients owe to get that live on in one part of the
network).
"""
