"""All orders in which things may happen to a small ring, explored to the end.

What is asked
    ``scopes`` (small rings and what befalls them), ``checks`` (what must hold), ``report``.
Stepping
    ``explorer``, ``steps``, ``world`` (one without time), ``state``, ``granularity`` (what is one
    step).
States
    ``canonical`` (equal ones are one), ``snapshots``, ``packed_states``, ``local_states``.
Fewer orders
    ``partial_order``, ``persistent_sets``, ``commutation`` (which steps do not mind their order).
"""
