"""ring: the degree-4 chordal reliability ring (paper 004, section 3), sans-IO.

``RingNode`` is one broker's part in it. It knows nothing of events or clients.
"""
