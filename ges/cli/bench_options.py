"""Options that the measurements of ``chordal bench`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ges.cli.options import client_options, json_option, token_option
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.ids import LinkClass

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
