"""Numbers and times on the command line."""

from __future__ import annotations

import math
from typing import Any

import click

from ges.settings.quantities import LONG, SECONDS, SHORT, seconds_of


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


MAX_DAYS = 36_500  #: of what is good for some time


def duration(text: str) -> float:
    """Return a time as ``5ms``, ``1.5s`` or ``0`` in seconds; the type of an option.

    Raises:
        click.BadParameter: it is no time.
    """
    seconds = seconds_of(text.strip().lower())
    if seconds is None:
        units = ", ".join(SHORT)
        raise click.BadParameter(
            f"{text!r} is no time: give a number and one of {units}, as in 5ms"
        )
    return seconds


def long_duration(text: str) -> float:
    """Return a time of more than nothing, as ``90s`` or ``30d``, in seconds; an option's type.

    Raises:
        click.BadParameter: it is no such time, is 0, or is longer than :data:`MAX_DAYS`.
    """
    seconds = seconds_of(text, LONG)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is no duration; write 90s, 15m, 12h or 30d")
    if not 0 < seconds <= MAX_DAYS * SECONDS["d"]:
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
    seconds = seconds_of(text, LONG)
    if seconds is None or not 1 <= seconds <= MAX_DAYS * SECONDS["d"]:
        raise click.BadParameter(
            f"{text!r} is no lifetime; write one such as 90s, 15m, 12h, 30d or never"
        )
    return seconds
