"""Links as measured; which brokers secure events can reach. Pure.

Parts of a broker's machine
    ``parallel_links`` (express and secure links beside normal ones), ``survey_part``
    (measurements), ``secure_part`` (the graph of secure links), ``revocation_lists`` (who counts no
    more), ``declared_links`` (which links carry events). ``uid_in_use`` (another process uses this
    broker's uid) is heard before the ring.
Links
    ``survey`` (what is measured).
Secure links
    ``secure_graph``, ``secure_graph_repair`` (what one has missed of it, or what is false).
"""
