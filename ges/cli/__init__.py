"""The ``chordal`` command. Each sub-command has a module; heavy imports happen inside them.

The root
    ``main`` finds sub-commands, and turns errors into messages.
Sub-commands
    ``serve``, ``pub``, ``sub``, ``request``, ``reply`` (and ``answering``), ``ring``, ``units``
    (and ``units_join``: one joins another), ``status``, ``metrics``, ``graph``, ``why`` (and
    ``why_queues``; ``why_event``: of one event), ``identity`` (and ``identity_life``: renew,
    rotate, revoke), ``token``, ``access``, ``config``, ``context``, ``demo``; ``ping``,
    ``bench`` (and ``bench_request``, ``bench_ges22``), ``clients`` (and kick), ``drain``,
    ``drill``, ``top``, ``completion``.
What they share
    ``options``, ``connection`` (how a command attaches), ``bench_options`` and ``bench_report``,
    ``walking`` (the ring, to check it),
    ``context_option`` (a connection by name), ``setting_options`` (one for each setting of a
    broker), ``reloading`` (of a broker that runs), ``durations`` (numbers and times),
    ``identity_options``, ``logs``, ``lean_logging`` (for brokers), ``names`` (of brokers),
    ``weights`` (as they are printed).
"""
