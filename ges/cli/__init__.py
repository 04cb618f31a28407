"""The ``chordal`` command. Each sub-command has a module; heavy imports happen inside them.

The root
    ``main`` finds sub-commands, and turns errors into messages.
Sub-commands
    ``serve``, ``pub``, ``sub``, ``ring``, ``status``, ``metrics``, ``graph``, ``identity`` (and
    ``identity_life``: renew, rotate, revoke), ``token``, ``access``, ``demo``; ``ping``, ``bench``,
    ``clients`` (and kick), ``drain``, ``top``, ``completion``.
What they share
    ``options``, ``durations`` (numbers and times), ``identity_options``, ``logs``, ``weights``
    (as they are printed).
"""
