"""ges: the event service on top of the ring; brokers, the client library and the command.

The client library's door is :func:`ges.client.connect`, the command's is ``cli``,
and ``demo`` shows the main job.

Clients
    ``client``, ``attachment``, ``search``, ``patience`` and ``watermarks`` (their side),
    ``attendance``, ``intake``, ``subscriptions``, ``session`` and ``relief`` (the broker's),
    ``packing``, ``messages``, ``errors``.
Brokers
    ``broker`` composes one, ``node`` is its machine, ``link_codec`` its language, ``home`` what it
    keeps, ``recorder`` and ``live_run`` its trace; ``story``, ``own_status``, ``link_status``,
    ``exposition`` and ``software`` are what it says of itself.
Events
    ``events`` and ``runs`` (frames), ``router`` (the way through a broker), ``tree``,
    ``linkstate`` and ``hearsay`` (to whom next), ``latecomers`` (and to whom later),
    ``forwarding``, ``roundabout``, ``holding`` and ``rerouting`` (over which links), ``sequence``
    and ``expiry`` (each once, in order), ``express``, ``parking`` and ``parked``, ``delivery`` and
    ``topics`` (to whom here).
Ways
    ``companions`` (express and secure links), ``survey`` and ``horizon`` (links as measured and
    told), ``rate_limit`` (how often), ``ways`` (relay or direct).
Who may do what
    ``gate``, ``access``, ``containment``, ``tokens``, ``token_file``, ``guard``; ``warden``,
    ``vouching`` and ``notices`` for certificates.
Views of a whole overlay
    ``walk``, ``connectivity``, ``graph``, ``backups``.
"""
