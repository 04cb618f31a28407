"""Whether an event matches what somebody asked for. Pure.

``filter_tree`` (who holds a filter that matches a topic), ``containment`` (whether one filter
covers another).
"""
