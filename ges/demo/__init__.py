"""What ``chordal demo`` does: the main job end to end, on real processes, step by step."""
