"""Who stands where on the ring, and how to get there (paper 004, section 3.2). Pure.

Links and pointers
    ``links``, ``damping`` (no link made and dropped again and again), ``neighbourhood`` (left,
    right, left-left, right-right).
Chords and routes
    ``chords``, ``drawn_chords`` (drawn by lot), ``greedy`` (the next hop), ``searches``.
"""
