"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# A machine that is busy makes examples slow, not wrong.
settings.register_profile("chordal", deadline=None)
settings.load_profile("chordal")
