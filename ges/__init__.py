"""ges: the event service on top of the ring; brokers, the client library and the command.

The client library's door is :func:`ges.client.connect`, the command's is ``cli``. ``demo`` shows
the main job, ``bench`` measures a ring, and ``drills`` breaks one on purpose. ``errors``, ``node``
(a broker's machine: control, no events), ``following`` (which of its parts follows which) and
``stack`` (that machine and the way of events, composed without I/O) stand here.

Rooms, from the top
    ``mqtt`` (clients of MQTT at a broker); ``settings`` (what a broker can be set to, and whence
    it came), ``http`` (a broker's admin server); ``broker`` (one process), ``operations`` (a
    whole overlay from outside); ``sessions`` (the broker's side of its clients), ``client``
    (theirs), ``discovery`` (where brokers are); ``routing``
    (the way of an event through a broker), ``delivery`` (to its clients), ``order`` (once, and in
    order); ``directory`` (where named clients are); ``statements``
    (what other units want, and their links);
    ``profiles`` (what clients want, told to all members of a cluster), ``retained`` (the last value
    of each topic); ``gateways`` (paths and next hops); ``units`` (who is in which cluster, and
    where); ``topology`` (links as measured and told), ``access`` (who may do what); ``telling``
    (what many brokers are to know); ``matching`` (does it match); ``wire`` (bytes).

Where to look first
    *What may a subscription ask for?* :mod:`ges.wire.asked` declares its properties.
    *Which flags may a client set on an event?* The table of :mod:`ges.wire.event_flags` says so.
    *Which brokers and clients want an event?* :class:`ges.node.BrokerNode` answers for brokers and
    units (``mask_of``), from :mod:`ges.profiles.index` and :mod:`ges.statements.held`;
    :mod:`ges.delivery.audience` answers for the clients of one broker.
    *What happens while units change?* :mod:`ges.units.contexts` holds their tables,
    :mod:`ges.gateways.naming` says when events can name their destinations again, and
    :mod:`ges.routing.plans` what they do until then.
    *Which table is told how?* :mod:`ges.telling.spread` tells all of a unit, and neighbours compare
    what they hold by :mod:`ges.telling.comparison`. Each room says what its rows mean: ``units``
    (members, units), ``gateways`` (links), ``profiles``, ``statements``, ``retained``,
    ``directory``.
    *Which part of a broker's machine follows which?* The table of :mod:`ges.following` says so.
    *How does an event wait for a dead link?* In :mod:`ges.routing.holding`, until
    :mod:`ges.routing.rerouting` decides; in :mod:`ges.routing.stuck`, where there is no way.
"""
