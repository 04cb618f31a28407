"""Measurements: how fast, how good against the bars, and how the whole bears harm.

``arguments`` and ``report`` (command lines, and lines of results) stand here.

Rooms
    ``speed`` (events a second, simulated seconds a second), ``bars`` (the ring against its bars),
    ``campaigns`` (minutes of harm to whole brokers), ``spark`` (the analysis: time, memory, and
    laws that are planted), ``stage`` (what these and the tests put brokers into: processes,
    proxies, networks in memory).
"""
