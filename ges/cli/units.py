"""``chordal units``: the tree of units of a live overlay."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.options import (
    console,
    run_async,
    tell,
    warn_of_partial,
)
from ges.cli.units_join import join
from ges.cli.walking import check_together, checking_options, walk_until
from overlay.ids import short
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.unit_tree import Unit
    from ges.operations.walk import Walk


@click.group(invoke_without_command=True)
@checking_options("addresses and tables are right", "all is right")
def units(
    check: bool,
    wait: float,
    expect: int | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """Show the units of the overlay: clusters, super-clusters and so on.

    Asks all brokers, from the one given to the right. Each unit is an arc of the ring, with the
    brokers whose ring ids lie in it; the first of these is its steward. Its gatekeepers are the
    brokers in it with links to other units of its context. Its secure part is none (nobody in it
    holds an identity), whole, or broken: then secure events that are wanted in there are refused,
    or parked, where they are published. With --check the tables of
    all brokers are compared with where the brokers stand: addresses are unique, no unit is above
    the limit, each broker is in the unit in whose arc it stands, and all of a context hold one
    table. Exit code 1 says that something is wrong, and what.
    """
    from ges.errors import UnitsBroken

    if click.get_current_context().invoked_subcommand is not None:
        return
    check_together(check, wait, expect)
    walk, tree, found = run_async(walk_until, connection, wait, partial(_judge, expect))
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


units.add_command(join)


def _judge(
    expect: int | None, walk: Walk, is_last: bool
) -> tuple[Walk, list[Unit], list[str]] | None:
    """Return the units, and what is wrong with them; None where that may be put right in time."""
    from ges.operations.unit_tree import unit_tree

    tree, found = unit_tree(walk.brokers)
    if walk.is_partial:
        found = [*walk.silent, *([walk.ends_early] if walk.ends_early else []), *found]
    elif expect is not None and len(walk.brokers) != expect:
        found = [f"there are {counted(len(walk.brokers), 'broker')}, {expect} are expected"]
    return (walk, tree, found) if not found or is_last else None


def _print(tree: list[Unit]) -> None:
    from rich.table import Table

    from ges.units.unit_names import LEVEL_NAMES

    units = [unit for top in tree for unit in top.walk()]
    named = ("name",) if any(unit.given_name for unit in units) else ()
    columns = ("is a", "members", "steward", "from", "to", "gatekeepers", "secure part")
    table = Table("unit", *named, *columns, box=None)
    for top in tree:
        for unit in top.walk():
            inside = len(unit.brokers)
            table.add_row(
                unit.name,
                *((unit.given_name or "-",) if named else ()),
                LEVEL_NAMES[unit.level],
                counted(inside, "broker")
                if unit.level == 1
                else f"{counted(len(unit.units), LEVEL_NAMES[unit.level - 1])}, "
                f"{counted(inside, 'broker')}",
                unit.steward.name or short(unit.steward.uid),
                str(unit.arc.lo),
                str(unit.arc.hi),
                str(len(unit.gatekeepers)),
                unit.secure or "-",
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
        "name": unit.given_name,
        "level": unit.level,
        "lo": unit.arc.lo,
        "hi": unit.arc.hi,
        "steward": unit.steward.uid,
        "members": len(unit.brokers),
        "gatekeepers": [status.uid for status in unit.gatekeepers],
        "secure": unit.secure or None,
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
