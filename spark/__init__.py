"""spark: sweeps of experiments over Spark executors, and the analysis of how fast rings recover.

The topmost package. It reads and writes data sets (``docs/traces.md``) and knows nothing of
sockets. What the numbers mean is in ``docs/recovery.md``.
"""
