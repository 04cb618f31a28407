"""The page of all commands, made of the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from making.markdown import NOTE, cell, paragraphs


def page() -> str:
    """Return the page."""
    from ges.cli.main import cli

    with click.Context(cli, info_name="chordal") as context:
        parts = "\n".join(_command(context, ()))
    return f"# Commands\n\n{NOTE}\n{parts}"


def _command(context: click.Context, path: tuple[str, ...]) -> Iterator[str]:
    command = context.command
    name = " ".join(("chordal", *path))
    yield f"{'#' * min(4, len(path) + 2)} `{name}`\n" if path else f"## `{name}`\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"    {name} {pieces}\n"
    yield paragraphs(command.help or "")
    rows = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None
    ]
    if rows:
        yield "| option | what it does |\n|---|---|"
        yield from (f"| `{cell(option)}` | {cell(text)} |" for option, text in rows)
        yield ""
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            with click.Context(found, info_name=child, parent=context) as inner:
                yield from _command(inner, (*path, child))
