"""What the commands of ``chordal identity`` share."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ges.cli.durations import MAX_DAYS, long_duration

if TYPE_CHECKING:
    from overlay.security.identity import Identity

Command = TypeVar("Command", bound=Callable[..., Any])

AUTHORITY_DAYS = 3650
IDENTITY_DAYS = 30

days_type = click.IntRange(1, MAX_DAYS)
folder = click.Path(path_type=Path)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


def lifetime_options(command: Command) -> Command:
    """Add the two ways to say for how long an identity is good."""
    for option in (
        click.option(
            "--for",
            "seconds",
            type=long_duration,
            metavar="TIME",
            help="The same in 90s, 15m, 12h or 30d; instead of --days.",
        ),
        click.option(
            "--days",
            type=days_type,
            default=IDENTITY_DAYS,
            show_default=True,
            help="Days until it expires; it never outlives the authority.",
        ),
    ):
        command = option(command)
    return command


def lifetime_of(days: int, seconds: float | None) -> timedelta:
    """Return what the two options say; both of them is one too many."""
    given = click.get_current_context().get_parameter_source("days")
    if seconds is not None and given is ParameterSource.COMMANDLINE:
        raise click.UsageError("say how long with --for or with --days, not with both")
    return timedelta(days=days) if seconds is None else timedelta(seconds=seconds)


def print_json(**values: object) -> None:
    """Print one JSON object on one line."""
    click.echo(json.dumps(values))


def print_identity(made: Identity, directory: Path, as_json: bool) -> None:
    """Print whose identity was written, where, and until when it counts."""
    if as_json:
        print_json(
            directory=str(directory),
            role=made.role,
            uid=made.uid,
            not_after=made.not_after.isoformat(),
        )
    else:
        click.echo(f"{made.role} {made.uid} in {directory}, expires {when(made.not_after)}")


def when(moment: datetime) -> str:
    """Return a time as people read it: to the second only where that matters."""
    seconds = abs((moment - datetime.now(moment.tzinfo)).total_seconds())
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if seconds < 86400 else f"{moment:%Y-%m-%d %H:%M} UTC"
