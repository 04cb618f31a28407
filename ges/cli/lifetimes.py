"""How long a certificate is good, as people write it: ``90s``, ``15m``, ``12h``, ``30d``."""

from __future__ import annotations

import re
from datetime import timedelta

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
MAX_DAYS = 36_500


class Duration(click.ParamType[timedelta]):
    """A number and its unit; becomes a :class:`~datetime.timedelta` of more than nothing."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the time that is written.

        Raises:
            click.BadParameter: it is no such time, not above 0, or too long.
        """
        if isinstance(value, timedelta):
            return value
        match = _FORM.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no duration; write 90s, 15m, 12h or 30d", param, ctx)
        seconds = float(match[1]) * _SECONDS[match[2]]
        if not 0 < seconds <= MAX_DAYS * 86400:
            self.fail(f"{value!r} is not between 0 and {MAX_DAYS}d", param, ctx)
        return timedelta(seconds=seconds)
