"""Numbers and times on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

import click


class NumberRange(click.FloatRange):
    """A number between bounds; ``nan`` lies between none, which click's own range lets pass.

    Whatever is no number is called that: click says that it is no "float range".
    """

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number.

        Raises:
            click.BadParameter: it is none, or not between the bounds.
        """
        try:
            is_number = not math.isnan(float(value))
        except ValueError:
            is_number = False
        if not is_number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        number: float = super().convert(value, param, ctx)
        return number


_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
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
_SHORT = ("us", "ms", "s", "m", "h")
_LONG = ("s", "m", "h", "d")
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
MAX_DAYS = 36_500  #: of what is good for some time


def duration(text: str) -> float:
    """Return a time as ``5ms``, ``1.5s`` or ``0`` in seconds; the type of an option.

    Raises:
        click.BadParameter: it is no time.
    """
    seconds = _seconds(text.strip().lower(), _SHORT)
    if seconds is None:
        units = ", ".join(_SHORT)
        raise click.BadParameter(
            f"{text!r} is no time: give a number and one of {units}, as in 5ms"
        )
    return seconds


def long_duration(text: str) -> float:
    """Return a time of more than nothing, as ``90s`` or ``30d``, in seconds; an option's type.

    Raises:
        click.BadParameter: it is no such time, is 0, or is longer than :data:`MAX_DAYS`.
    """
    seconds = _seconds(text, _LONG)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is no duration; write 90s, 15m, 12h or 30d")
    if not 0 < seconds <= MAX_DAYS * _SECONDS["d"]:
        raise click.BadParameter(f"{text!r} is not between 0 and {MAX_DAYS}d")
    return seconds


def lifetime(text: str) -> float | None:
    """Return a time of at least a second, as ``90s`` or ``30d``, in seconds; None for ``never``.

    It is the type of an option.

    Raises:
        click.BadParameter: it is no such time, or is longer than :data:`MAX_DAYS`.
    """
    if text == "never":
        return None
    seconds = _seconds(text, _LONG)
    if seconds is None or not 1 <= seconds <= MAX_DAYS * _SECONDS["d"]:
        raise click.BadParameter(
            f"{text!r} is no lifetime; write one such as 90s, 15m, 12h, 30d or never"
        )
    return seconds


def _seconds(text: str, units: Collection[str]) -> float | None:
    """Return the seconds that a number and one of ``units`` say; None if they say nothing.

    0 needs no unit.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, unit = float(found[1]), found[2]
    unit = _WORDS.get(unit.lower().removesuffix("s"), unit)
    seconds = number * _SECONDS.get(unit, 1.0)
    return seconds if math.isfinite(seconds) and (unit in units or not number) else None
