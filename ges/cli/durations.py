"""Numbers and times on the command line."""

from __future__ import annotations

import math
import re
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


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")


def duration(text: str) -> float:
    """Return a time as ``5ms``, ``1.5s`` or ``0`` in seconds; the type of an option.

    Raises:
        click.BadParameter: it is no time.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    number = float(found[1]) if found else math.inf
    if found is None or not math.isfinite(number) or (number and found[2] not in _UNITS):
        units = ", ".join(_UNITS)
        raise click.BadParameter(
            f"{text!r} is no time: give a number and one of {units}, as in 5ms"
        )
    return number * _UNITS.get(found[2], 1.0)
