"""ring: the degree-4 chordal reliability ring (paper 004, section 3).

``RingNode`` (``node``) is one broker's part in it. It knows nothing of events or clients. The whole
package is pure.

The door, and what all rooms share
    ``node``; ``core``, ``config``, ``facts``, ``verdicts``, ``errors``, ``geometry``.
Rooms, from the top
    ``coordination`` (what concerns several parts at once); ``joining``, ``detection``, ``repair``
    and ``records``, which do not know each other; ``circle`` (where everybody stands, and how to
    get there); ``wire`` (messages).
What must hold
    ``invariants``.
"""
