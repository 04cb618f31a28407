"""The number that each event carries, and the clock that all processes share."""

from __future__ import annotations

import struct
import time

STAMP = struct.Struct("!Q")


def now() -> int:
    """Return nanoseconds by a clock that all processes of a machine share."""
    return time.monotonic_ns()
