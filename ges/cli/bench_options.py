"""Options that the measurements of ``chordal bench`` share, and how figures are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ges.cli.options import client_options, json_option, token_option
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.ids import LinkClass

if TYPE_CHECKING:
    from ges.bench.figures import Percentiles

Command = TypeVar("Command", bound=Callable[..., Any])


def several(kind: type[int] | type[LinkClass]) -> Callable[[str], list[Any]]:
    """Return the type of values with commas between them."""

    def parse(text: str) -> list[Any]:
        try:
            return [kind(part.strip()) for part in text.split(",")]
        except ValueError:
            known = ", ".join(LinkClass) if kind is LinkClass else "whole numbers"
            raise click.BadParameter(f"{text!r}: write {known}, with commas between them") from None

    return parse


def sizes_of(text: str) -> list[int]:
    """Return sizes of payloads that are given with commas between them; the type of an option."""
    sizes = several(int)(text)
    for size in sizes:
        if not 0 <= size <= MAX_PAYLOAD_BYTES:
            raise click.BadParameter(f"{size}: a payload has 0 to {MAX_PAYLOAD_BYTES} bytes")
    return sizes


size_option = click.option(
    "--size",
    "sizes",
    type=sizes_of,
    default="256",
    show_default=True,
    metavar="BYTES[,BYTES...]",
    help="Of a payload; each size is measured in turn.",
)


def common_options(command: Command) -> Command:
    """Add what every measurement takes."""
    for option in (
        click.option(
            "--class",
            "classes",
            type=several(LinkClass),
            default="normal",
            show_default=True,
            metavar="CLASS[,CLASS...]",
            help="Each class is measured in turn.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(1, 256),
            default=1,
            show_default=True,
            help="For each end: those that publish, say, and as many for those that subscribe.",
        ),
        json_option,
        token_option,
    ):
        command = option(command)
    return client_options(command)


def times_of(prefix: str, each: list[Percentiles | None]) -> dict[str, list[str | None]]:
    """Return columns with percentiles, a row for each measurement; ``prefix`` is in each name."""
    names = {"p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "p99.9": "p99_9_ms"}
    return {
        f"{prefix}{title}": [shown(getattr(p, name)) if p is not None else None for p in each]
        for title, name in (names | {"max": "max_ms"}).items()
    }


def number(value: float | None) -> str | None:
    """Return a whole number as it is shown."""
    return None if value is None else f"{value:,.0f}"


def shown(value: float | None) -> str | None:
    """Return a time or a rate as it is shown."""
    return None if value is None else f"{value:.3f}"
