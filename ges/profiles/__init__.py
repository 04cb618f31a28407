"""Who wants what: the asks of each broker's clients, and what all know of them. Pure.

One broker
    ``covering`` (a set of asks that knows what covers what), ``merging`` (what is too large),
    ``profile`` (a broker's own, with versions).
The cluster
    ``taken`` (when to tell of changes, and who has taken them), ``held`` (the profiles of the
    others), ``exchange`` (all of it at one broker), ``activity`` (when a subscription is active),
    ``index`` (which members want a topic), ``group_index`` (which queue groups do, and their
    members). ``profiles_part`` is the part of a broker's machine that joins them.
"""
