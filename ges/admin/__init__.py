"""For machines that watch brokers.

``metrics`` (a broker's counters as Prometheus reads them).
"""
