"""The broker's side of its clients. Trio is in ``clients``, ``reader``,
``on_ring`` and ``backpressure`` alone.

Clients
    ``session`` (one), ``clients`` (all), ``reader`` (reads what they send).
What they send
    ``intake``, ``subscriptions``, ``parking`` and ``parked_events`` (secure events that wait for a
    path), ``replies``.
When they have to wait
    ``on_ring`` (until the broker has joined), ``backpressure`` (while queues are crowded).
"""
