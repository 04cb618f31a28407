"""Retained events: each broker keeps the last one of each topic, for later subscribers. Pure.

For example, ``home/door`` is published with ``retain=True`` and the payload ``open``. A day later
somebody subscribes to ``home/#`` at another broker, and gets ``open`` first, marked as retained.

``values`` has what one broker keeps, and which of two events counts; ``topic_tree`` finds what a
filter matches; ``retained_part`` finds out where members keep different values.
Values go from broker to broker as events.
"""
