"""Retained events: every broker keeps the last one of each topic, for those who subscribe later.

For example, ``home/door`` is published with ``retain=True`` and the payload ``open``. A day later
somebody subscribes to ``home/#`` at another broker, and gets ``open`` first, marked as retained.

``values`` has what one broker keeps, and which of two events counts; ``topic_tree`` finds what a
filter matches; ``exchange`` says what members tell each other when they keep different values;
``retained_part`` joins that to the cluster. Values go from broker to broker as events.
"""
