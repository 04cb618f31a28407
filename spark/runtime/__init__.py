"""A Spark session, a Java for it, and chordal for its executors.

``session``, ``java``, ``package``.
"""
