"""Whether an event matches what somebody asked for. Pure.

What matches
    ``engine`` (what every engine does), ``exact_topics`` and ``filter_tree`` (filters without and
    with wildcards), ``topic_filters`` (both behind one face), ``containment`` (whether one filter
    covers another, and which of many are enough), ``asks`` (the same of all that one may ask for).
What has matched before
    ``changes`` (which filters have changed of late), ``topic_cache`` (what was found for a topic,
    until a change concerns it), ``mask_index`` (which of up to 64 members want a topic).
"""
