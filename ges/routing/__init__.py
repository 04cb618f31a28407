"""The way of an event through a broker. Pure.

The way itself
    ``parts`` (what it consists of), ``router`` (in, onward, out), ``passing`` (on to other
    brokers), ``delivery`` (to clients here), ``audience`` (which of them want a topic),
    ``holdings`` (what one is interested in), ``named`` (clients by name), ``named_sending`` (to
    those elsewhere), ``strays`` (what came to the wrong broker), ``express``, ``reach`` (whether an
    event may set out).
To whom
    ``known`` (what the control machine knows), ``interests`` (what it is told of clients here),
    ``plan`` (what a plan is), ``plans`` (which one an event follows), ``mask_plan`` (to those that
    want it), ``coming_in`` and ``entering`` (whom it is for where it comes into a unit),
    ``realms`` (how far it goes). While units change:
    ``arc_plan`` (the tree over the ring),
    ``flood_plan`` (everybody), ``catch_up`` (who joined meanwhile), ``recent`` (what has come
    before).
To one of many
    ``choosing`` (which broker serves a queue group), ``queue_members`` (which member there),
    ``sharing`` (what each gets, and what nobody here gets any more).
Over which links
    ``outlets`` and ``subscriber`` (what is needed of links and clients), ``paths`` (relay paths,
    detours), ``forwarding``, ``holding`` (while a link is down), ``rerouting`` (another way),
    ``stuck`` (while there is no way).
Once and in order
    ``via`` (the way an event has come), ``flow_order`` (order with gaps), ``recall`` (the log of a
    source), ``recalls`` (questions and answers), ``flow_tables`` (the memory of all these).
Kept for who subscribes later
    ``retaining`` (stamps, ends, and values as they come), ``first_values`` (to new subscribers).
Kept for clients that lose their broker
    ``past`` (fetched from where it was published), ``kept`` (what has passed of late), ``replay``
    (what one client has missed), ``replays``.
"""
