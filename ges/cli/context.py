"""``chordal context``: connections of clients by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.options import console, json_option, tell
from overlay.errors import ConfigError

if TYPE_CHECKING:
    from ges.settings.contexts import Context

_path = click.Path(path_type=Path)


@click.group()
def context() -> None:
    """Name connections, and use them by name: chordal status --context prod.

    A context says which broker, which identity or token, and which overlay. CHORDAL_CONTEXT names
    the one to use, and 'context use' the one where none is named. Contexts hold paths and no
    secrets, and stand in chordal/contexts.json under XDG_CONFIG_HOME (~/.config).
    """


@context.command()
@click.argument("name")
@click.option("--broker", metavar="URL[,URL...]", required=True, help="Broker to attach to.")
@click.option("--identity", type=_path, metavar="DIR", help="Identity for chordals:// URLs.")
@click.option("--token-file", type=_path, metavar="PATH", help="Holds a token.")
@click.option("--overlay", metavar="NAME", help="Name of the overlay.")
@click.option("--description", default="", metavar="TEXT", help="What it is, for people.")
@click.option("--replace", is_flag=True, help="There may be one of that name already.")
@click.option("--use", "is_used", is_flag=True, help="Use it where none is named.")
def add(
    name: str,
    broker: str,
    identity: Path | None,
    token_file: Path | None,
    overlay: str | None,
    description: str,
    replace: bool,
    is_used: bool,
) -> None:
    """Add a connection called NAME."""
    from ges.settings.contexts import Context, changing, contexts_path, save_contexts
    from overlay.address import parse_urls
    from overlay.wire.greetings import check_overlay

    urls = parse_urls([broker])
    if not urls:
        raise ConfigError("--broker names no broker; write chordal://HOST:PORT")
    if identity is not None and not identity.is_dir():
        raise ConfigError(f"--identity {identity} is no folder; 'chordal identity issue' makes one")
    if token_file is not None and not token_file.is_file():
        raise ConfigError(f"--token-file {token_file} is no file; see 'chordal token issue'")
    made = Context(
        broker=",".join(url.url for url in urls),
        identity=_absolute(identity),
        token_file=_absolute(token_file),
        overlay=check_overlay(overlay) if overlay is not None else None,
        description=description,
    )
    path = contexts_path(os.environ)
    with changing(path) as contexts:
        contexts = contexts.with_context(name, made, replace=replace)
        save_contexts(path, contexts.selecting(name) if is_used else contexts)
    click.echo(f"context {name!r} added{', and used from now on' if is_used else ''}")


@context.command("list")
@json_option
def list_contexts(as_json: bool) -> None:
    """List the connections; * marks the one that is used where none is named."""
    from rich.table import Column, Table

    from ges.settings.contexts import contexts_path, load_contexts

    found = load_contexts(contexts_path(os.environ))
    if as_json:
        rows = {name: _as_json(each) for name, each in sorted(found.contexts.items())}
        click.echo(json.dumps({"selected": found.selected, "contexts": rows}))
        return
    if not found.contexts:
        click.echo("there are no contexts; 'chordal context add' makes one")
        return
    broker = Column("broker", overflow="fold")  # not cut off, however many there are
    table = Table("", "context", broker, "description", box=None)
    for name, each in sorted(found.contexts.items()):
        mark = "*" if name == found.selected else ""
        table.add_row(mark, name, each.broker or "-", each.description)
    console().print(table)


@context.command()
@click.argument("name", required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """Show the connection called NAME, or the one that is used where none is named."""
    from ges.settings.contexts import contexts_path, load_contexts

    found = load_contexts(contexts_path(os.environ))
    name = name or os.environ.get("CHORDAL_CONTEXT") or found.selected
    if name is None:
        raise ConfigError("no context is used; name one, or 'chordal context use' one")
    rows = _as_json(found.get(name))
    if as_json:
        click.echo(json.dumps({"name": name, **rows}))
        return
    tell(f"context {name}")
    for key, value in rows.items():
        tell(f"  {key}: {value or '-'}")


@context.command()
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="Use none from now on.")
def use(name: str | None, is_none: bool) -> None:
    """Use the connection called NAME where none is named, and no broker either."""
    from ges.settings.contexts import changing, contexts_path, save_contexts

    if (name is None) is not is_none:
        raise click.UsageError("give NAME, or --none")
    path = contexts_path(os.environ)
    with changing(path) as contexts:
        save_contexts(path, contexts.selecting(name))
    tell(f"context {name!r} is used from now on" if name else "no context is used from now on")


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the connection called NAME; the files it names stay."""
    from ges.settings.contexts import changing, contexts_path, save_contexts

    path = contexts_path(os.environ)
    with changing(path) as contexts:
        save_contexts(path, contexts.without(name))
    tell(f"context {name!r} removed")


def _as_json(context: Context) -> dict[str, str | None]:
    return {name: getattr(context, name) for name in context.__struct_fields__}


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path is not None else None
