"""spark: sweeps of experiments over Spark executors, and the analysis of how fast rings recover.

The topmost package. It reads and writes data sets (``docs/traces.md``) and knows nothing of
sockets. ``docs/recovery-numbers.md`` says what the numbers mean.

``errors``, ``progress`` and ``cli`` (``chordal recovery``) stand here.

Rooms, from the top
    ``report`` (for people), ``sweep`` (a grid of scenarios, over executors), ``watch`` (what
    running brokers write, held to a promise), ``analysis`` (frame to frame, then verdicts),
    ``dataset`` (rows, checked), ``runtime`` (a session, a Java for it, and chordal for its
    executors).
"""
