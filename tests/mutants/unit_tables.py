"""Broken rules of the tables of units: how units form, are split and folded, and are told."""

from __future__ import annotations

from typing import Any

from ges.units import planner, table, unit_rows, units_held
from ges.units.contexts import Contexts
from ges.units.membership import Membership
from ges.units.office import Office
from ges.units.placement import Placement
from ges.units.planner import Planner
from ges.units.steward import Steward
from ges.units.table import ClusterTable
from overlay.ids import Nanos
from ring.joining.guide import ANYWHERE
from tests.mutants.mutant import Chapter, Method, around

UNIT_TABLES = Chapter(first="unit")


def _none(self: object, *args: object, **more: object) -> list[Any]:
    return []


def _all_rows(self: ClusterTable) -> None:
    rows = self.table.rows if self.table is not None else ()
    self._rows = {row.uid: row for row in rows}
    self._granted = {uid: row for uid, row in self._rows.items() if not row.resting}


UNIT_TABLES.add(
    "split-keeps-both-halves",
    "after a split the members of the other half are members still",
    (ClusterTable, "_take_rows", _all_rows),
    (table, "_merged", lambda rows, new, arc: _put_together(rows, new)),
)


def _put_together(rows: Any, new: Any) -> Any:  # noqa: ANN401
    uids = {row.uid for row in new}
    by_slot = {row.slot: row for row in rows if row.uid not in uids}
    by_slot |= {row.slot: row for row in new}
    return tuple(by_slot[slot] for slot in sorted(by_slot))


def _begun_anew(original: Method) -> Method:
    def take(self: Steward, before: str, now: Nanos, *, is_handover: bool) -> Any:  # noqa: ANN401
        if self._table.fits or self._table.table is None:
            return original(self, before, now, is_handover=is_handover)
        return self.found(now)

    return take


UNIT_TABLES.add(
    "split-forgets-slots",
    "the steward of a new cluster does not know who had which slot before the split",
    around(Steward, "take", _begun_anew),
)
UNIT_TABLES.add(
    "fold-without-handover",
    "the steward of a cluster that is folded hands its table to nobody",
    (Office, "_hand_over", _none),
)
UNIT_TABLES.add(
    "later-table-loses",
    "of two tables the one with the earlier epoch counts",
    *(
        (
            module,
            "counts",
            lambda one, other: (one.epoch, one.steward) < (other.epoch, other.steward),
        )
        for module in (table, units_held)
    ),
)
UNIT_TABLES.add(
    "tables-by-steward",
    "of two tables that of the smaller steward counts, whatever the epochs are",
    *(
        (
            module,
            "counts",
            lambda one, other: (one.steward, -one.epoch) < (other.steward, -other.epoch),
        )
        for module in (table, units_held)
    ),
)
UNIT_TABLES.add(
    "names-not-honoured",
    "newcomers stand anywhere, and stay where they are, whatever unit they were given",
    (Placement, "lead", lambda self, newcomer, wish, now: ANYWHERE),
    (Placement, "_moves_at", lambda self: None),
)


def _without_limit(original: Method) -> Method:
    def free_slot(self: ClusterTable, *args: Any) -> Any:  # noqa: ANN401
        limit, self.limit = self.limit, 64
        try:
            return original(self, *args)
        finally:
            self.limit = limit

    return free_slot


UNIT_TABLES.add(
    "limit-not-honoured",
    "a cluster that is full grants one more slot",
    around(ClusterTable, "free_slot", _without_limit),
)
UNIT_TABLES.add(
    "never-split",
    "a cluster that is to be split is left as it is",
    (Planner, "_split", _none),
)
UNIT_TABLES.add(
    "never-folded",
    "small neighbours are left as they are",
    (Planner, "_fold", _none),
)
UNIT_TABLES.add(
    "empty-units-stay",
    "a unit in whose arc nobody stands is not reported",
    (Contexts, "_report_empty", _none),
)
UNIT_TABLES.add(
    "numbers-twice",
    "a new unit gets the number of another one",
    (unit_rows, "free_number", lambda rows, limit: 0),
    (unit_rows, "is_sound", lambda table: True),
    (planner, "is_sound", lambda table: True),
)
UNIT_TABLES.add(
    "missing-not-reported",
    "nobody tells the steward that a member is gone",
    (Membership, "_report", _none),
)
