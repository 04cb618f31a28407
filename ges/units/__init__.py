"""The units of the overlay: who is in which cluster, under which address. Pure.

Names
    ``address`` (addresses, slots and sets of slots), ``table`` (the members of the cluster),
    ``unit_names`` (names that operators give).
Members
    ``office`` (who may change a table), ``steward`` (who grants slots, and to whom), ``membership``
    (what one broker asks of it).
Units above the cluster
    ``unit_rows`` (whose arc is where), ``planner`` (when units are split and folded),
    ``units_held`` (the table of one level), ``contexts`` (the tables that one broker holds, and
    which of two counts), ``whole_tables`` (what others get of them that ask), ``nodes`` (how one
    broker names them).
Newcomers
    ``placement`` (in which unit one is to stand), ``entry_rules`` (whom a broker lets in).
Whole units that join another context
    ``room`` (its steward asks for room there), ``relocating`` (its brokers move, one after the
    other), ``relocated`` (where each comes to stand).
``units_part`` is the part of a broker's machine that joins them; ``view`` is what they see of the
ring, ``facts`` are what they say.
"""
