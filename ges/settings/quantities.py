"""Times and sizes as people write them: ``5ms``, ``1.5s``, ``64MiB``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
SHORT = ("us", "ms", "s", "m", "h")  #: units of times in which things happen
LONG = ("s", "m", "h", "d")  #: units of times for which things are good
#: How people write units, in the plural or not.
_WORDS = {
    "microsecond": "us",
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_BYTES = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SHORT = {unit[0]: size for unit, size in _BYTES.items()}  #: as people write them, too


def seconds_of(text: str, units: Collection[str] = SHORT) -> float | None:
    """Return the seconds that a number and one of ``units`` say; None if they say nothing.

    0 needs no unit.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, unit = float(found[1]), found[2]
    unit = _WORDS.get(unit.lower().removesuffix("s"), unit)
    seconds = number * SECONDS.get(unit, 1.0)
    return seconds if math.isfinite(seconds) and (unit in units or not number) else None


def time_text(seconds: float) -> str:
    """Return a time as :func:`seconds_of` reads it: ``5ms``, ``1.5s``, ``2m``, ``90s``."""
    if not seconds:
        return "0"
    for unit in ("h", "m"):
        number = seconds / SECONDS[unit]
        if number >= 1 and number == round(number):
            return f"{round(number)}{unit}"
    unit = next((unit for unit in ("s", "ms") if seconds >= SECONDS[unit]), "us")
    return f"{seconds / SECONDS[unit]:.12g}{unit}"


def bytes_of(text: str) -> int | None:
    """Return the bytes that ``64MiB`` or ``4096`` say; None if they say nothing."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, unit = found[1], found[2]
    if unit in ("", "B"):
        return int(number) if number.isdigit() else None
    one = _BYTES.get(unit) or _SHORT.get(unit)
    if one is None or not math.isfinite(size := float(number) * one):
        return None
    return round(size)


def bytes_text(size: int) -> str:
    """Return a size as :func:`bytes_of` reads it, in the largest unit that makes it whole."""
    for unit, one in reversed(_BYTES.items()):
        if size and size % one == 0:
            return f"{size // one}{unit}"
    return str(size)
