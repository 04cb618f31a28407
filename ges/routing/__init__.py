"""The way of an event through a broker. Pure.

The way itself
    ``parts`` (what it consists of), ``router`` (once, onward, out), ``passing`` (on to other
    brokers), ``delivery`` (to clients here), ``audience`` (which of them want a topic),
    ``holdings`` (what one is interested in), ``express``, ``reach`` (whether an event may set out).
To whom
    ``plan`` (what a plan is), ``arc_plan`` (the tree over the ring), ``flood_plan`` (everybody),
    ``plans`` (which of them), ``catch_up`` (who joined meanwhile).
Over which links
    ``outlets`` and ``subscriber`` (what is needed of links and clients), ``paths`` (relay paths,
    detours), ``forwarding``, ``holding`` (while a link is down), ``rerouting`` (another way).
Kept for clients that lose their broker
    ``kept`` (what has passed of late), ``replay`` (what one client has missed), ``replays``.
Once and in order
    ``recent`` (what has come before), ``ordering``, ``losses`` (what is missing for good). What
    takes their place where a broker sees only what it asked for: ``via`` (the way an event has
    come), ``flow_order`` (order with gaps), ``recall`` (the log of a source).
"""
