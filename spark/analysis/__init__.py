"""From rows to verdicts: frame to frame.

``recovery`` (how long incidents took), ``growth`` (the fit over the size of rings), ``results``
(what came out), ``analyse`` (all of it).
"""
