"""Connections between units, the graph of them, and the next hop to each destination. Pure.

Links
    ``link_state`` (what each member says of its links, and which edges follow), ``own_links`` (what
    this broker says of its own), ``lasting`` (which links count), ``gates`` (those to other units),
    ``costs`` (the papers' matrix, and what a measured link costs in buckets).
Paths
    ``graph`` (nodes and edges as masks), ``paths`` (cheapest paths that all members agree on),
    ``next_hops`` (the cached decision for a destination mask).
Names
    ``naming`` (what destinations are called, and what has become of those of before), ``doubt``
    (how long no name was sure).
Losses
    ``connections`` (the links between units, as those at both ends have told), ``losses`` (how bad
    it is that one is lost), ``losses_part`` (watches for them).
``gateways_part`` is the part of a broker's machine that joins them; ``cluster`` is what routing
sees of it.
"""
