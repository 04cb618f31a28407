"""For machines that watch brokers.

``metrics`` (a broker's counters as Prometheus reads them), ``status_names`` (its status as JSON).
"""
