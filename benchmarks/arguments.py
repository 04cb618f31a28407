"""What the commands take. Values with which nothing is measured are refused: it would look like a
bar that is met.

The functions return types for :mod:`argparse`, but for :func:`fraction`, which is one itself, and
:func:`add_parts`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of a whole number of ``least`` or more."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too few: at least {least}")
        return number

    return parse


def above(bound: float) -> Callable[[str], float]:
    """Return the type of a finite number above ``bound``."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        if not (math.isfinite(number) and number > bound):
            raise argparse.ArgumentTypeError(f"{text} is not a number above {bound:g}")
        return number

    return parse


def fraction(text: str) -> float:
    """Return a number from 0 to below 1."""
    number = above(-1)(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to below 1")
    return number


def one_of(known: Iterable[str]) -> Callable[[str], str]:
    """Return the type of a name among ``known``."""
    names = list(known)

    def parse(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no {text!r}; there are {', '.join(names)}")
        return text

    return parse


def listed(each: Callable[[str], Value]) -> Callable[[str], list[Value]]:
    """Return the type of several values with commas between them."""

    def parse(text: str) -> list[Value]:
        return [each(part.strip()) for part in text.split(",")]

    return parse


def add_parts(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Take the names of some parts of a benchmark, as ``what``: all of them if none is given."""
    parser.add_argument(
        "what",
        nargs="*",
        type=one_of(names),
        default=names,
        metavar="WHAT",
        help=f"{', '.join(names)}; all if none is named",
    )
