"""``chordal token``: issue, revoke and list tokens, with which clients say who they are."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from ges.cli.durations import lifetime
from ges.cli.options import json_option
from overlay.wording import counted

_file = click.Path(path_type=Path)


@click.group()
def token() -> None:
    """Issue, revoke and list tokens of clients.

    A broker started with --tokens FILE reads the file as it changes: no restart is needed.
    """


@token.command()
@click.argument("file", type=_file)
@click.argument("name")
@click.option(
    "--lifetime",
    "seconds",
    type=lifetime,
    default="30d",
    show_default=True,
    help="How long it is good: 90s, 15m, 12h, 30d or never.",
)
@click.option(
    "--out", type=_file, metavar="PATH", help="Write the token there, with mode 0600, unprinted."
)
@json_option
def issue(file: Path, name: str, seconds: float | None, out: Path | None, as_json: bool) -> None:
    """Issue a token called NAME, note its hash in FILE, and print the token.

    It is shown this once: FILE does not hold it.
    """
    from ges.access.token_file import issue_token, revoke_token, write_token

    made = issue_token(file, name, int(time.time()), seconds)
    if out is not None:
        try:
            write_token(out, made)
        except BaseException:  # an interrupt as well: nobody has the token, so none may be good
            revoke_token(file, name)
            raise
    if as_json:
        shown = {"token": made} if out is None else {"path": str(out)}
        click.echo(json.dumps({"name": name, **shown}))
    else:
        click.echo(made if out is None else f"token {name!r} in {out}")


@token.command()
@click.argument("file", type=_file)
@click.argument("name")
def revoke(file: Path, name: str) -> None:
    """Take the token called NAME out of FILE; its holders are cut off within seconds."""
    from ges.access.token_file import revoke_token

    revoke_token(file, name)
    click.echo(f"token {name!r} revoked")


@token.command("list")
@click.argument("file", type=_file)
@json_option
def list_tokens(file: Path, as_json: bool) -> None:
    """List the tokens in FILE: names and when they end, never the tokens."""
    from ges.access.token_file import load_book

    now = time.time()
    rows = [
        {
            "name": record.name,
            "issued": _when(record.issued_unix_s),
            "expires": None if record.expires_unix_s is None else _when(record.expires_unix_s),
            "expired": record.is_expired(now),
        }
        for record in load_book(file).records
    ]
    if as_json:
        click.echo(json.dumps({"tokens": rows}))
        return
    for row in rows:
        end = "never expires" if row["expires"] is None else f"expires {row['expires']}"
        click.echo(f"{row['name']:<24} {'EXPIRED' if row['expired'] else end}")
    click.echo(f"{counted(len(rows), 'token')} in {file}")


def _when(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat()
