"""``chordal units``: the tree of units of a live overlay."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.durations import NumberRange
from ges.cli.options import (
    client_options,
    console,
    json_option,
    run_async,
    tell,
    tell_waiting,
    warn_of_partial,
)
from overlay.ids import short
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.unit_tree import Unit
    from ges.operations.walk import Walk


@click.command()
@click.option("--check", is_flag=True, help="Fail unless addresses and tables are right.")
@click.option(
    "--wait",
    type=NumberRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="With --check: go on checking for so long until all is right.",
)
@click.option(
    "--expect",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --check: fail unless there are N brokers.",
)
@json_option
@client_options
def units(
    check: bool,
    wait: float,
    expect: int | None,
    as_json: bool,
    broker: str,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> None:
    """Show the units of the overlay: clusters, super-clusters and so on.

    Asks all brokers, from the one given to the right. Each unit is an arc of the ring, with the
    brokers whose ring ids lie in it; the first of these is its steward. With --check the tables of
    all brokers are compared with where the brokers stand: addresses are unique, no unit is above
    the limit, each broker is in the unit in whose arc it stands, and all of a context hold one
    table. Exit code 1 says that something is wrong, and what.
    """
    from ges.errors import UnitsBroken

    if (wait or expect) and not check:
        raise click.UsageError("--wait and --expect go with --check")
    walk, tree, found = run_async(_ask, broker, wait, expect, identity, overlay, timeout)
    if as_json:
        click.echo(json.dumps(_as_json(walk, tree, found)))
    else:
        _print(tree)
    warn_of_partial(walk)
    if not check:
        return
    if found:
        if not as_json and len(found) > 1:
            for finding in found:
                tell(f"chordal: warning: {finding}", err=True)
        raise UnitsBroken(tuple(found))
    if not as_json:
        clusters = sum(unit.level == 1 for top in tree for unit in top.walk())
        click.echo(
            f"the units are in order: {counted(len(walk.brokers), 'broker')} in "
            f"{counted(clusters, 'cluster')}, each with an address of its own"
        )


async def _ask(
    broker: str,
    wait: float,
    expect: int | None,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> tuple[Walk, list[Unit], list[str]]:
    import trio

    from ges.errors import ConnectionLost
    from ges.operations.unit_tree import unit_tree
    from ges.operations.walk import walk_ring

    deadline = trio.current_time() + wait
    once = lru_cache(tell_waiting)
    while True:
        is_over = trio.current_time() >= deadline
        try:
            walk = await walk_ring(
                broker, identity=identity, overlay=overlay, timeout_s=timeout, on_waiting=once
            )
        except ConnectionLost:
            if is_over:
                raise
            await trio.sleep(0.1)
            continue
        tree, found = unit_tree(walk.brokers)
        if walk.is_partial:
            found = [*walk.silent, *([walk.ends_early] if walk.ends_early else []), *found]
        elif expect is not None and len(walk.brokers) != expect:
            found = [f"there are {counted(len(walk.brokers), 'broker')}, {expect} are expected"]
        if not found or is_over:
            return walk, tree, found
        await trio.sleep(0.2)


def _print(tree: list[Unit]) -> None:
    from rich.table import Table

    from ges.operations.unit_tree import LEVEL_NAMES

    table = Table("unit", "is a", "members", "steward", "from", "to", box=None)
    for top in tree:
        for unit in top.walk():
            inside = len(unit.brokers)
            table.add_row(
                unit.name,
                LEVEL_NAMES[unit.level],
                counted(inside, "broker")
                if unit.level == 1
                else f"{counted(len(unit.units), LEVEL_NAMES[unit.level - 1])}, {inside} brokers",
                unit.steward.name or short(unit.steward.uid),
                str(unit.arc.lo),
                str(unit.arc.hi),
            )
    console().print(table)


def _as_json(walk: Walk, tree: list[Unit], found: list[str]) -> dict[str, object]:
    return {
        "limit": min((s.unit_limit for s in walk.brokers if s.contexts), default=None),
        "findings": found,
        "units": [_unit_as_json(unit) for unit in tree],
    }


def _unit_as_json(unit: Unit) -> dict[str, object]:
    made: dict[str, object] = {
        "path": unit.name,
        "level": unit.level,
        "lo": unit.arc.lo,
        "hi": unit.arc.hi,
        "steward": unit.steward.uid,
        "members": len(unit.brokers),
    }
    if unit.level > 1:
        made["units"] = [_unit_as_json(inner) for inner in unit.units]
    else:
        made["brokers"] = [
            {
                "uid": status.uid,
                "name": status.name,
                "url": status.url,
                "address": status.address,
                "ring_id": status.member.ring_id if status.member else None,
            }
            for status in unit.brokers
        ]
    return made
