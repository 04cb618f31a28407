"""What ``chordal demo`` does: the main job end to end, on real processes, step by step.

``steps`` (the commands, and a sentence on what each has printed), ``progress`` (telling it as it
goes).
"""
