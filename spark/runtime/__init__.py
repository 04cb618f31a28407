"""A Spark session, and a Java for it.

``session``, ``java``.
"""
