"""How measured weights are printed."""

from __future__ import annotations


def milliseconds(value: float | None) -> str:
    """Return a time in milliseconds; ``-`` if it is not known."""
    return "-" if value is None else f"{value:.2f}"


def byte_rate(value: int) -> str:
    """Return bytes per second with a decimal prefix; ``-`` for none."""
    if not value:
        return "-"
    number = float(value)
    for prefix in ("", "k", "M", "G"):
        if number < 1000 or prefix == "G":
            break
        number /= 1000
    return f"{number:.3g} {prefix}B/s"


def resets(value: float) -> str:
    """Return a decayed count; ``-`` for none."""
    return "-" if value < 0.01 else f"{value:.2f}"
