"""What ``chordal recovery watch`` does with news: prints them, and acts on a broken promise."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import click
import msgspec

from spark.errors import PromiseBroken, PromiseError
from spark.watch.follow import Kept, News, shown

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_CALL_TIMEOUT_S = 60


def read_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``15m``, ``1h`` or ``7d``.

    Raises:
        PromiseError: It is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip())
    if found is None or float(found[1]) <= 0:
        raise PromiseError(f"{text!r} is no time such as 90s, 15m, 1h or 7d")
    return float(found[1]) * _UNITS[found[2]]


@dataclass(slots=True)
class Teller:
    """Takes the news; without a command to call, a broken promise ends the watch."""

    as_json: bool
    command: str | None
    call: Callable[[str, Kept], None] | None = None
    _broken: frozenset[str] = frozenset()

    def __call__(self, news: News) -> bool:
        """Print the news, call the command for what is newly broken; tell whether to go on."""
        click.echo(msgspec.json.encode(news).decode() if self.as_json else news.words)
        broken = frozenset(kept.promise for kept in news.broken)
        if self.command is not None:
            for kept in news.broken:
                if kept.promise not in self._broken:
                    (self.call or _call)(self.command, kept)
        self._broken = broken
        return self.command is not None or not broken


def failure(news: News) -> PromiseBroken:
    """Return the error that the command ends with where a promise does not hold."""
    told = [f"{kept.promise} is broken: it is {shown(kept.value)}" for kept in news.broken]
    return PromiseBroken("; ".join(told))


def _call(command: str, kept: Kept) -> None:
    told = {"CHORDAL_PROMISE": kept.promise, "CHORDAL_VALUE": f"{kept.value}"}
    try:
        ran = subprocess.run(
            shlex.split(command), env={**os.environ, **told}, timeout=_CALL_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        click.echo(f"{command!r} cannot be called: {error}", err=True)
        return
    if ran.returncode:
        click.echo(f"{command!r} ended with exit code {ran.returncode}", err=True)
