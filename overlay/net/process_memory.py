"""What memory this process takes, where the system says so."""

from __future__ import annotations

import os
from pathlib import Path

_STATM = Path("/proc/self/statm")


def process_bytes() -> int | None:
    """Return the bytes of memory that this process has in use; None: the system does not say."""
    try:
        resident = int(_STATM.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return resident * os.sysconf("SC_PAGESIZE")
