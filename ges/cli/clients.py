"""``chordal clients`` and ``chordal kick``: who is attached where; cutting one off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import (
    client_options,
    console,
    json_option,
    run_async,
    tell,
    token_option,
)
from overlay.ids import short
from overlay.wording import counted, lasting

if TYPE_CHECKING:
    from ges.operations.attached import Attached


@click.command()
@click.option("--one", "is_one", is_flag=True, help="Only those of the broker given.")
@click.option(
    "--over",
    type=duration,
    default="1s",
    show_default=True,
    metavar="TIME",
    help="Time over which rates are measured; 0: no rates.",
)
@json_option
@token_option
@client_options
def clients(
    is_one: bool,
    over: float,
    as_json: bool,
    connection: Connection,
) -> None:
    """List the clients of all brokers of the ring: where they are, rates, queues and drops.

    Who may: on a ring with access rules those with operate = ["clients"] in a rule; without rules
    whoever is on the broker's machine, or shows a broker's identity. Exit code 1 says that a broker
    could not be asked.
    """
    from ges.operations.attached import list_clients

    found, problems = run_async(list_clients, connection.operator, over, is_one=is_one)
    if as_json:
        click.echo(json.dumps({"clients": [_as_json(e) for e in found], "problems": problems}))
    else:
        _print(found, has_rates=bool(over))
    for problem in problems:
        tell(f"chordal: warning: {problem}", err=True)
    if problems:
        click.get_current_context().exit(1)


@click.command()
@click.argument("uid")
@json_option
@token_option
@client_options
def kick(
    uid: str,
    as_json: bool,
    connection: Connection,
) -> None:
    """Cut off the client of that UID, or the one whose uid begins so, wherever it is attached.

    Clients that show one certificate have one uid, and all of them are cut off. A client gets what
    is queued for it first, and may come back: to keep it out, revoke its token ('chordal token
    revoke') or its certificate ('chordal identity revoke'), or change the rules.
    Who may: on a ring with access rules those with operate = ["kick"] in a rule.
    """
    from ges.operations import attached

    places = run_async(attached.kick, connection.operator, uid)
    if as_json:
        click.echo(json.dumps({"kicked": uid, "brokers": [each.url for each in places]}))
    else:
        tell(f"cut off at {attached.where(places)}")


def _print(found: list[Attached], *, has_rates: bool) -> None:
    from rich.table import Table

    from ges.cli.weights import byte_rate

    rates = ("in/s", "out/s", "to it") if has_rates else ()
    drops = ("dropped",) if any(_dropped(each) for each in found) else ()
    table = Table(
        *("client", "name", "host", "broker", "for", "subs"), *rates, "queued", *drops, box=None
    )
    for each in found:
        client = each.client
        row = [
            client.uid,
            client.name if not client.name.startswith("uid:") else "certificate",
            (client.host or "-") + (", TLS" if client.secure else ""),
            short(each.broker.uid),
            lasting(client.age_s),
            str(client.subscriptions),
        ]
        if has_rates:
            row += [_rate(each.published_per_s), _rate(each.delivered_per_s)]
            row.append("-" if each.bytes_per_s is None else byte_rate(round(each.bytes_per_s)))
        row.append(str(client.queued_bytes))
        table.add_row(*row, *(str(_dropped(each)) for _ in drops))
    console().print(table)
    brokers = len({each.broker.uid for each in found})
    click.echo(f"{counted(len(found), 'client')} at {counted(brokers, 'broker')}")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _dropped(each: Attached) -> int:
    return each.client.dropped + each.client.express_dropped


def _as_json(each: Attached) -> dict[str, object]:
    client = each.client
    row: dict[str, object] = {name: getattr(client, name) for name in client.__struct_fields__}
    return row | {
        "broker": each.broker.uid,
        "broker_url": each.broker.url,
        "published_per_s": each.published_per_s,
        "delivered_per_s": each.delivered_per_s,
        "bytes_per_s": each.bytes_per_s,
    }
