"""The analysis: frames of rows go in, and verdicts come out.

``recovery`` (how long incidents took), ``growth`` (the fit over the size of rings), ``results``
(what came out), ``analyse`` (all of it).
"""
