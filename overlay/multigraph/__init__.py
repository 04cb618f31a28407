"""The weighted multigraph: links as measured, their costs, the cheapest paths. Pure.

``weights`` (what is known of a link), ``probes`` and ``quick_probes`` (measuring it), ``cost`` (of
a link), ``express_range`` (who is near enough for express links), ``graph`` (all links), ``paths``
(cheapest ones), ``relay_gain`` (what a relay path must save), ``path_choice`` (when a better path
is worth a change).
"""
