"""The units of a context: whose arc is where, and what becomes of them in a split or a fold.

For example, the rows ``0 at 0, 1 at 500, 2 at 800`` in a context from 0 to 1000 say that the arc of
unit 1 is from 500 to 800, and that of unit 2 from 800 to 1000. So every place of a context lies in
one unit of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ges.telling.arcs import Arc
from ges.units.table import arc_of
from ges.wire.unit_messages import UnitRow, UnitTable
from ring.geometry import clockwise

Rows = tuple[UnitRow, ...]


def is_sound(table: UnitTable) -> bool:
    """Say whether rows stand in order from the beginning of the context, each number once."""
    arc, rows = arc_of(table), table.rows
    if rows[0].lo != table.lo or len({row.number for row in rows}) != len(rows):
        return False
    return all(
        arc.holds(right.lo) and arc.at(left.lo) < arc.at(right.lo) for left, right in pairwise(rows)
    )


def unit_arcs(table: UnitTable) -> list[tuple[UnitRow, Arc]]:
    """Return the units of a context with their arcs, from the left."""
    ends = [*(row.lo for row in table.rows), table.hi][1:]
    return [(row, Arc(row.lo, hi)) for row, hi in zip(table.rows, ends, strict=True)]


def unit_at(table: UnitTable, place: int) -> tuple[UnitRow, Arc] | None:
    """Return the unit in which a place lies; None: it lies in another context."""
    if not arc_of(table).holds(place):
        return None
    # Rows stand in order from the beginning of the context: it is the last that begins before.
    far = clockwise(table.lo, place)
    hi = table.hi
    for row in reversed(table.rows):
        if clockwise(table.lo, row.lo) <= far:
            return row, Arc(row.lo, hi)
        hi = row.lo
    raise AssertionError("the first unit begins where the context does")


def within(rows: Sequence[UnitRow], arc: Arc) -> Rows:
    """Return the units of which a part lies in an arc, the first one begun where the arc begins.

    ``rows`` stand in order. An arc in which none begins gets the one before, or else the first.
    """
    inside = sorted((row for row in rows if arc.holds(row.lo)), key=lambda row: arc.at(row.lo))
    if inside and inside[0].lo == arc.lo:
        return tuple(inside)
    numbers = {row.number for row in inside}
    before = [row for row in rows if row.number not in numbers]
    if before:  # the one that is begun nearest on the left
        first = min(before, key=lambda row: (arc.lo - row.lo) % 2**32)
        return (replace(first, lo=arc.lo), *inside)
    if inside:
        return (replace(inside[0], lo=arc.lo), *inside[1:])
    return (UnitRow(0, arc.lo),)


def split(rows: Rows, lo: int, at: int, limit: int) -> Rows | None:
    """Let the unit that begins at ``lo`` end at ``at``, where a new one begins; None: no room."""
    number = free_number(rows, limit)
    if number is None:
        return None
    index = next(i for i, row in enumerate(rows) if row.lo == lo)
    return (*rows[: index + 1], UnitRow(number, at), *rows[index + 1 :])


def folded(rows: Rows, lo: int) -> Rows:
    """Let the unit that begins at ``lo`` become a part of the one on its left; the first: right."""
    index = next(i for i, row in enumerate(rows) if row.lo == lo)
    if index:
        return (*rows[:index], *rows[index + 1 :])
    return (replace(rows[1], lo=lo), *rows[2:])


def joined(rows: Rows, part: Rows, arc: Arc, context: Arc, limit: int) -> Rows:
    """Put the units of a part, whose arc lies in the context, in place of what was known of it.

    Units keep their numbers where these are free, and are part of the one on the left where no
    number is.
    """
    kept = [row for row in rows if row.lo == context.lo or not arc.holds(row.lo)]
    if arc.lo == context.lo:
        kept = [row for row in kept if row.lo != context.lo]
    numbers = {row.number for row in kept}
    kept += [row for row in part if row.number not in numbers]
    for row in part:
        if row.number in numbers and (free := free_number(kept, limit)) is not None:
            kept.append(replace(row, number=free))
    return within(kept, context)


def tidied(rows: Rows, *, may_have_names: bool) -> Rows:
    """Return the units with each name once: the first one keeps it."""
    seen: set[str] = set()
    found: list[UnitRow] = []
    for row in rows:
        is_right = not row.name or (may_have_names and row.name not in seen)
        seen.add(row.name)
        found.append(row if is_right else replace(row, name=""))
    return tuple(found)


def free_number(rows: Iterable[UnitRow], limit: int) -> int | None:
    """Return the lowest number that no unit has, or None."""
    taken = {row.number for row in rows}
    if len(taken) >= limit:
        return None
    return next((number for number in range(limit) if number not in taken), None)
