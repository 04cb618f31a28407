"""Which chordal this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache  # it is read from files, and a status is asked for often
def software_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("chordal")
    except PackageNotFoundError:
        return "unknown"
