"""How many examples Hypothesis tries: a quarter by default, and all with ``make soak``."""

from __future__ import annotations

from hypothesis import settings

PROFILES = {"chordal": 25, "soak": 100}  #: examples of a test that does not say how many


def examples(count: int) -> int:
    """Return how many of ``count`` examples a test tries now."""
    return count * settings().max_examples // PROFILES["soak"]
