"""Each event once, and in the order of its publisher. Pure.

``via`` (the way that an event has come), ``flow_order`` (order with gaps), ``recall`` (the log of a
source), ``recalls`` (questions and answers), ``recent`` (what has come before), ``flow_tables``
(the memory of all these).
"""
