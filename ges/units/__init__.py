"""The units of the overlay: who is in the cluster, under which address. Pure.

Names
    ``address`` (addresses, slots and sets of slots), ``table`` (the members of the cluster).
Members
    ``steward`` (who grants slots, and to whom), ``membership`` (what one broker asks of it).
Telling
    ``arcs`` (a tree over arcs of the ring), ``spread`` (something is told to all members, and they
    say that they have it), ``held`` (ring neighbours compare what they hold), ``post`` (a message
    for one member, linked or not), ``mailbox`` (what members say to the way of events here).
``units_part`` is the part of a broker's machine that joins them; ``facts`` are what it says.
"""
