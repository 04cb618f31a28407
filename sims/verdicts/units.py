"""What must hold of the units of an overlay at rest, reckoned from where its brokers stand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from ges.telling.arcs import WHOLE, Arc
from ges.units.table import arc_of
from ges.units.unit_rows import unit_arcs, unit_at
from ges.units.units_part import UnitsPart
from ges.wire.unit_messages import UnitTable
from ring.wire.messages import Member


def unit_findings(brokers: Iterable[tuple[Member | None, UnitsPart]], limit: int) -> list[str]:
    """Return all that is wrong with the tables and addresses of these brokers: all that live."""
    standing = [(member, units) for member, units in brokers if member is not None]
    found: list[str] = []
    _judge(standing, 3, WHOLE, limit, found, "")
    addresses = Counter(str(units.address) for _, units in standing)
    found += [f"{n} brokers at {at}" for at, n in addresses.items() if n > 1 and at != "None"]
    if addresses["None"]:
        found.append(f"{addresses['None']} brokers without an address")
    return found


def empty(table: UnitTable, places: Iterable[int]) -> list[int]:
    """Return the numbers of units in a table in whose arcs nobody stands."""
    standing = [*places]
    return [
        row.number
        for row, arc in unit_arcs(table)
        if not any(arc.holds(place) for place in standing)
    ]


def _judge(
    standing: list[tuple[Member, UnitsPart]],
    level: int,
    arc: Arc,
    limit: int,
    found: list[str],
    path: str,
) -> None:
    """Judge the units of a level in one context, and what is in them."""
    first, head = min(standing, key=lambda each: arc.at(each[0].ring_id))
    if level == 0:
        _judge_cluster(standing, arc, limit, found, path)
        return
    tables = {units.tables.get(level) for _, units in standing}
    if len(tables) > 1 or None in tables:
        found.append(f"context {path or 'all'}: {len(tables)} tables of level {level}")
        return
    table = head.tables[level]
    if arc_of(table) != arc:
        found.append(f"context {path}: the table of level {level} is about {arc_of(table)}")
        return
    if table.steward != first.uid or not head.is_steward_of(level + 1):
        found.append(f"context {path}: the steward of level {level} is not the first")
    if len(table.rows) > limit:
        found.append(f"context {path}: {len(table.rows)} units of level {level}")
    parts: defaultdict[tuple[int, Arc], list[tuple[Member, UnitsPart]]] = defaultdict(list)
    for member, units in standing:
        at = unit_at(table, member.ring_id)
        assert at is not None
        parts[at[0].number, at[1]].append((member, units))
        row = units.unit_of(member.ring_id, level)
        if row != at[0] or (units.address and units.address.at(level) != row.number):
            found.append(f"{member.uid[:8]} is not in the unit in whose arc it stands")
    for (number, inner), inside in parts.items():
        _judge(inside, level - 1, inner, limit, found, f"{path}.{number}")


def _judge_cluster(
    standing: list[tuple[Member, UnitsPart]], arc: Arc, limit: int, found: list[str], path: str
) -> None:
    digests = {units.digest for _, units in standing}
    if len(digests) > 1 or 0 in digests:
        found.append(f"cluster {path}: {len(digests)} tables of members")
        return
    first, head = min(standing, key=lambda each: arc.at(each[0].ring_id))
    if head.arc != arc or head.steward != first.uid:
        found.append(f"cluster {path}: the steward is not the first, or it is about another arc")
    if len(standing) > limit:
        found.append(f"cluster {path}: {len(standing)} members")
    here = {member.uid: member for member, _ in standing}
    known = {uid: row.member for uid, row in head.members.items()}
    if known != here:
        found.append(f"cluster {path}: the table has others than those that stand there")
