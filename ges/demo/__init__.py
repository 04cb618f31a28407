"""What ``chordal demo`` does: the main job end to end, on real processes, step by step.

``steps`` (what is done), ``events`` (published and received), ``wanted`` (who sees events that few
want), ``clusters`` (the same between clusters), ``processes`` (the commands that run), ``findings``
(what each step measures), ``progress`` (telling it as it goes).
"""
