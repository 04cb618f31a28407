"""Which chordal this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def software_version() -> str:
    """Return the version of the installed distribution."""
    try:
        return version("chordal")
    except PackageNotFoundError:
        return "unknown"
