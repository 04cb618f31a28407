"""Options that several commands share, and how they run under trio."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from ges.cli.connection import Connection
from ges.cli.context_option import ConnectionOption, context_option, says_token
from ges.cli.durations import NumberRange
from ges.wire.realms import REALMS
from overlay.ids import LinkClass
from overlay.wording import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ges.operations.walk import Walk

Command = TypeVar("Command", bound=Callable[..., Any])

PIPE_COLUMNS = 200

DEFAULT_URL = "chordal://127.0.0.1:9470"

#: Classes an event may ask for.
CLASSES = click.Choice([each.value for each in LinkClass])
DIRECTORY = click.Path(path_type=Path)


def client_options(
    command: Command, timeout: float = 10.0, timeout_for: str = "For finding a broker"
) -> Command:
    """Add what every command that attaches to a broker takes; it is handed a ``connection``.

    ``timeout``: seconds to find one, by default; infinite: for ever. ``timeout_for``: what that is.
    """

    @wraps(command)
    def connected(
        *,
        broker: str,
        identity: Path | None,
        overlay: str,
        timeout: float,
        token: str | None = None,
        **options: Any,  # noqa: ANN401 - as click hands them in
    ) -> Any:  # noqa: ANN401 - whatever the command returns
        connection = Connection(broker, identity, overlay, timeout, token)
        return command(connection=connection, **options)

    found: Any = connected
    for option in (
        context_option,
        click.option(
            "--broker",
            "broker",
            cls=ConnectionOption,
            default=DEFAULT_URL,
            envvar="CHORDAL_URL",
            show_default=True,
            metavar="URL[,URL...]",
            help="Broker to attach to.  [env: CHORDAL_URL]",
        ),
        click.option(
            "--identity",
            cls=ConnectionOption,
            type=DIRECTORY,
            envvar="CHORDAL_IDENTITY",
            metavar="DIR",
            help="Identity for chordals:// URLs.  [env: CHORDAL_IDENTITY]",
        ),
        overlay_option,
        click.option(
            "--timeout",
            type=NumberRange(min=0, min_open=True),
            default=timeout,
            show_default="for ever" if timeout == math.inf else True,
            metavar="SECONDS",
            help=f"{timeout_for}; inf: for ever.",
        ),
    ):
        found = option(found)
    return cast("Command", found)


def long_lived_client_options(command: Command) -> Command:
    """Add the same to a command that waits for its broker for ever, unless told otherwise."""
    return client_options(command, math.inf)


queue_option = click.option(
    "--queue",
    metavar="NAME",
    help="Queue group: of its members on this filter, wherever they are, one gets each event.",
)


def realm_option(what: str) -> Callable[[Command], Command]:
    """Return the option for a realm; ``what``: its help."""
    choice = click.Choice([*REALMS])
    return click.option("--realm", type=choice, default="all", show_default=True, help=what)


event_realm_option = realm_option("How far the event goes: into no other unit of that kind.")


def is_default(option: str) -> bool:
    """Say whether an option of the command that runs was not given."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.DEFAULT


def _read_token(ctx: click.Context, _: click.Parameter, path: Path | None) -> str | None:
    """Return the token in the file named, or in the environment; arguments are seen by others."""
    from ges.access.token_file import load_token
    from ges.access.tokens import check_token

    text = os.environ.get("CHORDAL_TOKEN", "").strip()
    is_given = ctx.get_parameter_source("token") is not ParameterSource.DEFAULT_MAP
    if path is not None and (is_given or says_token(ctx) or not text):
        return load_token(path)
    return check_token(text, "CHORDAL_TOKEN") if text else None


token_option = click.option(
    "--token-file",
    "token",
    cls=ConnectionOption,
    type=click.Path(path_type=Path),
    envvar="CHORDAL_TOKEN_FILE",
    callback=_read_token,
    metavar="PATH",
    help="Holds a token that says who this is; else the token is in CHORDAL_TOKEN.  "
    "[env: CHORDAL_TOKEN_FILE]",
)

overlay_option = click.option(
    "--overlay",
    cls=ConnectionOption,
    default="chordal",
    envvar="CHORDAL_OVERLAY",
    show_default=True,
    metavar="NAME",
    help="Name of the overlay.  [env: CHORDAL_OVERLAY]",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


def console() -> Console:
    """Return where tables are printed: as wide as the terminal, or as needed in a pipe.

    What others have told is no markup there, and what of it does not show is escaped.
    """
    from rich.console import Console

    class Escaping(Console):
        def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as rich has it
            return super().render_str(printable(text), **options)

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Escaping(highlight=False, markup=False, emoji=False, width=width)


def tell(text: str, *, err: bool = False) -> None:
    """Print a line in which others may have a word: what does not show is escaped."""
    click.echo(printable(text), err=err)


def warn_of_partial(walk: Walk) -> None:
    """Say on stderr that a walk round the ring has not met everybody, if so."""
    for words in (*walk.passed_over, *walk.silent):
        tell(f"chordal: warning: {words}", err=True)
    if walk.ends_early:
        tell(f"chordal: warning: {walk.ends_early}; what lies beyond is not shown", err=True)


def run_async(function: Callable[..., Awaitable[Any]], *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - whatever the function returns
    """Run ``function`` under trio."""
    import trio

    return trio.run(partial(function, *args, **kwargs))
