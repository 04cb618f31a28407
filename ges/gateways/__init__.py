"""Connections between units, the graph of them, and the next hop to each destination. Pure.

For now there is one level: the brokers of one cluster, by their slots (0 to 63).

``costs`` (the papers' matrix, and what a measured link costs in buckets), ``link_state`` (what each
member says of its links, and which edges follow), ``graph`` (nodes and edges as masks), ``paths``
(cheapest paths that all members agree on), ``next_hops`` (the cached decision for a destination
mask). ``gateways_part`` is the part of a broker's machine that joins them.
"""
