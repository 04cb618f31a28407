"""What the sub-commands share: an option, and how they list names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Callback = TypeVar("Callback", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def seeds_option(default: str) -> Callable[[Callback], Callback]:
    """Return the option ``--seeds``, which is written alike in all commands."""
    return click.option(
        "--seeds",
        default=default,
        show_default=True,
        metavar="N|N,N,...|N-M",
        help="One number: that many seeds. A list, or from and to: these seeds.",
    )


def print_list(scenarios: Mapping[str, str], *, as_json: bool) -> None:
    """Print names, each with what it is."""
    import msgspec

    if as_json:
        click.echo(msgspec.json.encode(scenarios))
        return
    for name, what in scenarios.items():
        click.echo(f"{name}: {what}")
