"""The way of an event through a broker. Pure, but for the connections that it is handed.

To whom
    ``router``, ``arc_plan`` (the tree over the ring), ``catch_up`` (who joined meanwhile),
    ``delivery`` (to clients here).
Over which links
    ``forwarding``, ``holding`` (while a link is down), ``rerouting`` (another way).
Kept for clients that lose their broker
    ``kept`` (what has passed of late), ``replay`` (what one client has missed), ``replays``.
Once, in order, in time
    ``ordering``, ``express``.
"""
