"""Links as measured and told; which brokers secure events can reach. Pure.

Links
    ``parallel_links`` (express and secure ones), ``survey`` (their measurements), ``horizon`` (what
    is told of them, and how far), ``rate_limit`` (how often), ``relay_paths`` (relay or direct).
Secure links
    ``secure_graph``, ``secure_graph_repair`` (what one has missed of it), ``revocation_lists``.
"""
