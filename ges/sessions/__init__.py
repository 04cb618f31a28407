"""The broker's side of its clients. Runs on trio, but for ``parking``.

``session`` (one client), ``clients`` (all), ``intake`` (what they send), ``subscriptions``,
``parking`` and ``parked_events`` (secure events that wait for a path).
"""
