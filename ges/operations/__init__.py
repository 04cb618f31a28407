"""Looking at a live overlay from outside. Runs on trio.

``walk`` (from broker to broker), ``resilience`` (how many failures it survives), ``overlay_graph``
(all links), ``backup_check`` (copies on ring neighbours).
"""
