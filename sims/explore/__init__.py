"""All orders in which things may happen to a small ring, explored to the end. Pure.

What is asked
    ``scopes`` (small rings and what befalls them), ``checks`` (what must hold), ``report``.
Stepping
    ``search`` (goes through all states), ``explorer`` (the states of a ring), ``steps`` (takes a
    step), ``world`` (it has no time), ``state`` (of that world), ``granularity`` (how much is one
    step).
States
    ``canonical`` (messages that come to the same), ``snapshots`` (of a broker, to go back to),
    ``packed_states`` (a state as a number), ``local_states`` (of one broker, numbered).
Units
    ``unit_scopes`` (a few brokers and what befalls them), ``unit_explorer`` (their
    states), ``unit_world`` (its steps), ``unit_machine`` (one broker, over a ring at rest).
Fewer orders
    ``partial_order`` (one order stands for many), ``persistent_sets`` (deliveries that suffice),
    ``commutation`` (which steps may change places).
"""
