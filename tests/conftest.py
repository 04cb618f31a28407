"""Settings for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# Started in the background of a script, we would hand an ignored SIGINT down to those we interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy makes examples slow, not wrong.
settings.register_profile("chordal", deadline=None)
settings.load_profile("chordal")
