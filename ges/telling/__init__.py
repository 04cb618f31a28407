"""Knowledge that brokers share: they tell it to all, compare it, and ask for it. Pure.

To all
    ``arcs`` (a tree over arcs of the ring), ``spread`` (something is told to all members, and they
    say that they have it), ``comparison`` (ring neighbours compare what they hold), ``shared`` (a
    table that many hold: what they ask each other for, and which row counts).
To one
    ``post`` (a message for one member, linked or not), ``mailbox`` (what members say to the way of
    events here).
``part`` is what the parts of a broker's machine have in common, and ``changes`` how they learn what
others have changed.
"""
