"""``chordal units join``: let a whole unit join another one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import click

from ges.cli.connection import Connection, tell_waiting
from ges.cli.durations import NumberRange
from ges.cli.options import (
    client_options,
    json_option,
    run_async,
    tell,
    token_option,
)
from ges.units.unit_names import LEVEL_NAMES
from overlay.wording import counted


@click.command()
@click.argument("unit", metavar="UNIT")
@click.option(
    "--into",
    required=True,
    metavar="CONTEXT",
    help="The unit that it is to be in: a super-cluster for a cluster, and so on.",
)
@click.option(
    "--wait",
    type=NumberRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time until all of it is there.",
)
@json_option
@token_option
@client_options
def join(
    unit: str,
    into: str,
    wait: float,
    as_json: bool,
    connection: Connection,
) -> None:
    """Let a whole UNIT, a cluster or a super-cluster, join another CONTEXT of this overlay.

    Both are given by address or name, as 'chordal units' shows them: chordal units join eu/fra
    --into us, or 0.1 --into 1. Its brokers move one after the other to another part of the ring.
    Only the number of the unit itself is new in their addresses: what is in it, its slots and names
    stay. Clients stay attached, and events come on. Exit code 0 says that all of it is there, and
    that the units are in order. Who may: on a ring with access rules those with operate =
    ["units"] in a rule of the unit's steward.
    """
    from ges.operations import unit_joining

    once = replace(connection, on_waiting=lru_cache(tell_waiting))
    joined = run_async(unit_joining.join, once.operator, unit, into, wait)
    before, after = joined.before, joined.after
    if as_json:
        made = {
            "level": after.level,
            "before": {"path": before.name, "name": before.given_name},
            "after": {"path": after.name, "name": after.given_name},
            "brokers": len(after.brokers),
            "seconds": round(joined.seconds, 1),
        }
        click.echo(json.dumps(made))
        return
    tell(
        f"{LEVEL_NAMES[after.level]} {unit_joining.described(before)} is "
        f"{unit_joining.described(after)} now, with {counted(len(after.brokers), 'broker')}"
    )
