"""The weighted multigraph: links as measured, and what they cost. Pure.

``weights`` (what is known of a link), ``probes`` and ``quick_probes`` (measuring it), ``cost`` (of
a link), ``express_range`` (who is near enough for express links), ``graph`` (all links, for
people).
"""
