"""A Spark session, a Java for it, and chordal for its executors.

``session``, ``surroundings`` (variables that others have set), ``java``, ``package``.
"""
