"""The analysis: frames of rows go in, and verdicts come out.

``recovery`` (how long incidents took), ``growth`` (the fits over the size of rings, and
what they say), ``results``
(what came out), ``analyse`` (all of it).
"""
