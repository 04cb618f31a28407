"""Whether an event matches what somebody asked for. Pure.

``topics`` (filters with wildcards), ``containment`` (whether one filter covers another).
"""
