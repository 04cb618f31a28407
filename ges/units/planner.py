"""The steward of a context: which units there are in it, and when one is split or folded.

For example, the steward of a cluster reports that it has 56 members, and that the cluster is to be
split at place 700. The steward of the context, the broker that stands first in it, puts a row for a
new cluster from 700 on into the table of clusters, and tells all of the context. Everybody sees by
the table which cluster its own place lies in now. The first broker in the new cluster becomes its
steward, as always (:mod:`ges.units.office`).

The same rules serve clusters in a super-cluster, super-clusters in a super-super-cluster, and these
in the overlay. Where a context is full, it is split itself before a unit in it is.

* Two neighbours are *folded* where they have 5/8 or less together of the sub-units that one may
  have, or where nobody stands in the arc of one.
* Between two changes of one unit there are at least 30 s; but a unit that is full, and where one
  more waits, is split after a second, as nobody could join meanwhile.
* With a limit below 8, as long as there is room for all in the context, a unit that is full gives
  one to the nearest one with room, over those between, rather than be split.
* A unit to which operators have given a name is not split, is folded only where nobody stands in
  its arc, and gives and gets nothing. It begins in the gap to the right of the last broker of
  another unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from msgspec.structs import replace

from ges.telling.arcs import WHOLE, Arc
from ges.telling.spread import Done, Spread
from ges.units.address import UNIT_LIMIT
from ges.units.entry_rules import EVERYBODY, EntryRules
from ges.units.facts import UnitsChanged
from ges.units.office import AnyTable, Office, OnArc
from ges.units.steward import SMALL_LIMIT
from ges.units.table import TAKEOVER_EPOCHS, advanced, arc_of
from ges.units.unit_names import UnitNames
from ges.units.unit_rows import (
    Rows,
    folded,
    free_number,
    is_sound,
    joined,
    split,
    unit_arcs,
    unit_at,
    within,
)
from ges.units.units_held import UnitsHeld
from ges.wire.telling_messages import Kind
from ges.wire.unit_messages import UnitHandover, UnitReport, UnitRow, UnitsTaken, UnitTable
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Notify
from ring.geometry import RING_SIZE, gap

PAUSE_NS = nanos(30.0)  #: between two changes of one unit
URGENT_NS = nanos(1.0)  #: the same, where a broker waits
FRESH_NS = nanos(25.0)  #: what a unit has reported counts for so long
CUT_NS = nanos(5.0)  #: a newcomer in the middle of a gap is there, or comes no more
#: Places of the narrowest gap in which a unit is begun: a broker that wishes one knocks until then.
MIN_ROOM = 2**10
HEARD_NS = nanos(4.0)  #: from a change until units that have not reported count as full


@dataclass(frozen=True, slots=True)
class UnitsConfig:
    """What all brokers of an overlay should have alike."""

    limit: int = UNIT_LIMIT  #: of sub-units of a unit, and of members of a cluster
    pause_ns: Nanos = PAUSE_NS  #: between two changes of one unit
    names: UnitNames = ()  #: of the unit that this broker wishes to be in, from the top
    entry: EntryRules = EVERYBODY  #: for newcomers; each broker may have its own


class Planner:
    """What one broker does as steward of the context of units of one level, and to become it."""

    def __init__(
        self,
        around: OnArc,
        held: UnitsHeld,
        spread: Spread,
        config: UnitsConfig,
        name: Callable[[], str] = str,
    ) -> None:
        """``name``: what the unit of this broker is to be called, if it is the first one."""
        self._name = name
        self.held = held
        self.office = Office(around, held, self)
        self._around = around
        self._spread = spread
        self._config = config
        self._reports: dict[int, tuple[UnitReport, Nanos]] = {}  #: by the place of the unit
        self._changed: dict[int, Nanos] = {}  #: by the place of the unit
        #: By the place of a unit to the right of which one was begun: the middle of the gap there,
        #: and when.
        self._cut: dict[int, tuple[int, Nanos]] = {}
        self._put_at: Nanos = 0  #: when this broker made a table last
        self._split_wanted: Nanos | None = None  #: a unit is to be split for which is no number

    @property
    def limit(self) -> int:
        """How many units the context may have."""
        return self.held.table.limit if self.held.table is not None else self._config.limit

    def wants_split(self, now: Nanos) -> bool:
        """Say whether the context is full, and a unit in it is to be split."""
        return self._split_wanted is not None and now < self._split_wanted + FRESH_NS

    def on_report(self, report: UnitReport, now: Nanos) -> list[Effect]:
        """Change the table if what a unit reports makes that needed; only for one in office."""
        table = self.held.table
        if table is None or not self.office.is_in_office:
            return []
        arcs = {row.lo: arc for row, arc in unit_arcs(table)}
        if arcs.get(report.lo) != Arc(report.lo, report.hi):
            return []  # of before a change; it is reported again
        self._forget(arcs)
        if not report.size:
            may = report.urgent or self._may(report.lo, now, self._config.pause_ns)
            if len(arcs) > 1 and may:
                return self._change(folded(table.rows, report.lo), now, report.lo)
            return []
        self._reports[report.lo] = report, now
        if report.split_at is not None:
            return self._split(table, report, arcs[report.lo], now)
        return self._fold(table, now) or self._note_size(table, report, now)

    def add(self, name: str, now: Nanos) -> tuple[Arc, list[Effect]] | None:
        """Begin a new unit of a name, and return its arc; None: no gap for it is known.

        Only for one in office, where there is a number left.
        """
        arc = self.room(now)
        return None if arc is None else (arc, self.begin(name, arc, now))

    def room(self, now: Nanos) -> Arc | None:
        """Return the arc that a new unit is to have; None: no gap for it is known.

        The unit begins in the widest gap between the last broker of a unit and the end of that
        unit's arc: at 5/8 of it on level 1, at 6/8 on level 2, at 7/8 on level 3. So a newcomer
        that is being put into the middle of that gap is not cut off, and nor is the beginning of a
        unit of a lower level.
        """
        table = self.held.table
        if table is None:
            return None
        gaps = (
            (gap(end, arc.hi), end, arc)
            for row, arc in unit_arcs(table)
            if (end := self._end_of(row.lo, arc, now)) is not None
        )
        width, end, arc = max(gaps, key=lambda each: each[0], default=(0, 0, WHOLE))
        if width < MIN_ROOM:
            return None
        return Arc((end + width * (4 + self.held.level) // 8) % RING_SIZE, arc.hi)

    def begin(self, name: str, arc: Arc, now: Nanos, done: Done | None = None) -> list[Effect]:
        """Begin a new unit, whose arc is that of :meth:`room`; only where there is a number left.

        ``done`` hears when all of the context know of it.
        """
        table = self.held.table
        number = free_number(table.rows, table.limit) if table is not None else None
        found = unit_at(table, arc.lo) if table is not None else None
        if table is None or number is None or found is None:
            return []
        left = found[0].lo
        end = self._end_of(left, found[1], now)
        row = UnitRow(number, arc.lo, 0, name)
        rows = tuple(sorted((*table.rows, row), key=lambda each: self.held.arc.at(each.lo)))
        report = self._reports.get(left)
        effects = self._change(rows, now, arc.lo, done=done)
        if report is not None:  # it is as large as before
            self._reports[left] = replace(report[0], hi=arc.lo), report[1]
        if end is not None:
            self._cut[left] = (end + gap(end, arc.hi) // 2) % RING_SIZE, now
        return effects

    def add_again(self, row: UnitRow, now: Nanos) -> list[Effect]:
        """Begin a unit where it was begun before, as the table that had it did not count.

        Only for one in office. Nothing happens if there is no number left, or one begins there.
        """
        table = self.held.table
        if table is None or not self.held.arc.holds(row.lo):
            return []
        taken = {each.number for each in table.rows}
        number = row.number if row.number not in taken else free_number(table.rows, table.limit)
        if number is None or any(each.lo == row.lo for each in table.rows):
            return []
        name = "" if any(each.name == row.name for each in table.rows) else row.name
        new = replace(row, number=number, name=name)
        rows = tuple(sorted((*table.rows, new), key=lambda each: self.held.arc.at(each.lo)))
        return self._change(rows, now, row.lo)

    def spare(self, places: Iterable[int], now: Nanos) -> None:
        """Count the units that begin at these places as changed now: they are not folded soon."""
        self._changed |= dict.fromkeys(places, now)

    def rename(self, rows: Rows, now: Nanos) -> list[Effect]:
        """Hold the same units with other names from now on; only for one in office."""
        return self._change(rows, now)

    def is_full(self, lo: int, now: Nanos) -> bool:
        """Say whether a unit has reported as many sub-units as it may have."""
        report = self._known(lo, now)
        return report is not None and report.size >= self.limit

    def end(self, now: Nanos) -> int | None:
        """Return where the last broker of the context stands, as far as that is known."""
        table = self.held.table
        report = self._known(table.rows[-1].lo, now) if table is not None else None
        return report.end if report is not None else None

    # ── as the one in office ──────────────────────────────────────────────────────────────────

    def found(self, now: Nanos) -> list[Effect]:
        """This broker is alone: there is one unit, with the number 0."""
        return self._put((UnitRow(0, self.held.arc.lo, 1, self._name()),), 1, now)

    def take(self, before: str, now: Nanos, *, is_handover: bool) -> list[Effect]:
        """Go on with the table, as far as it is about the context."""
        table = self.held.table
        if table is None:
            return self.found(now)
        self._reports.clear()
        epoch = advanced(table.epoch, 1 if is_handover else TAKEOVER_EPOCHS)
        rows = within(table.rows, self.held.arc)
        if not any(self.held.arc.holds(row.lo) for row in table.rows):
            rows = (replace(rows[0], name=self._name()),)  # that of another context is not its own
        return self._put(rows, epoch, now)

    def join(self, table: AnyTable, now: Nanos) -> list[Effect]:
        """Put the units of a context that has become a part of this one in their places."""
        held = self.held.table
        if held is None:
            return []
        part = cast("UnitTable", table)
        rows = joined(held.rows, part.rows, arc_of(part), self.held.arc, self.limit)
        return self._change(rows, now)

    def handover(self) -> UnitHandover | None:
        """Return the table for the first broker."""
        return None if self.held.table is None else UnitHandover(self.held.table)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _end_of(self, lo: int, arc: Arc, now: Nanos) -> int | None:
        """Return where the last broker of a unit stands, or one that is being put there."""
        report = self._known(lo, now)
        if report is None or report.end is None or not arc.holds(report.end):
            return None
        middle, cut_at = self._cut.get(lo, (lo, 0))
        is_taken = now < cut_at + CUT_NS and arc.at(middle) > arc.at(report.end)
        return middle if is_taken and arc.holds(middle) else report.end

    def _split(self, table: UnitTable, report: UnitReport, arc: Arc, now: Nanos) -> list[Effect]:
        at = report.split_at
        assert at is not None, "only for a report that says where"
        pause = min(URGENT_NS, self._config.pause_ns) if report.urgent else self._config.pause_ns
        if not self._may(report.lo, now, pause) or not arc.holds(at) or at == arc.lo:
            return []
        if table.limit < SMALL_LIMIT:
            unknown = any(self._known(row.lo, now) is None for row in _beside(table, report.lo))
            if unknown and now < self._put_at + HEARD_NS:
                return []  # it is reported again, and there may be room in others
            shifted = self._shifted(table, report, now)
            if shifted is not None:
                return self._change(shifted, now)
        if _row(table, report.lo).name:
            return []
        rows = split(table.rows, report.lo, at, table.limit)
        if rows is None:
            self._split_wanted = now
            return []
        self._split_wanted = None
        del self._reports[report.lo]
        half = report.size // 2
        sizes = {report.lo: half, at: report.size - half}
        rows = tuple(replace(row, size=sizes.get(row.lo, row.size)) for row in rows)
        return self._change(rows, now, report.lo, at)

    def _shifted(self, table: UnitTable, report: UnitReport, now: Nanos) -> Rows | None:
        """Return rows in which each unit up to the nearest with room gives one to the next."""
        row = _beside(table, report.lo)
        known = [self._known(each.lo, now) for each in row]
        size = sum(each.size if each is not None else table.limit for each in known)
        if size > table.limit * len(known):
            return None
        here = next(i for i, each in enumerate(row) if each.lo == report.lo)
        with_room = (
            (abs(i - here), i)
            for i, each in enumerate(known)
            if each is not None and each.size < table.limit and each.split_at is None
        )
        target = min(with_room, default=(0, here))[1]
        begins = {}
        for i in range(min(here, target), max(here, target)):
            giving = known[i] if target > here else known[i + 1]
            lo = None if giving is None else giving.last if target > here else giving.second
            if lo is None:
                return None
            begins[row[i + 1].lo] = lo
        rows = tuple(replace(each, lo=begins.get(each.lo, each.lo)) for each in table.rows)
        return rows if target != here else None

    def _fold(self, table: UnitTable, now: Nanos) -> list[Effect]:
        pause = self._config.pause_ns
        for left, right in pairwise(table.rows):
            one, other = self._known(left.lo, now), self._known(right.lo, now)
            if one is None or other is None or one.size + other.size > table.limit * 5 // 8:
                continue
            if left.name or right.name:
                continue
            if self._may(left.lo, now, pause) and self._may(right.lo, now, pause):
                return self._change(folded(table.rows, right.lo), now, left.lo)
        return []

    def _note_size(self, table: UnitTable, report: UnitReport, now: Nanos) -> list[Effect]:
        """Tell of sizes now and then: they are for people."""
        row = _row(table, report.lo)
        is_far = abs(row.size - report.size) >= max(2, table.limit // 4)
        if not is_far or not self._may(-1, now, self._config.pause_ns):
            return []
        return self._change(table.rows, now, -1)

    def _known(self, lo: int, now: Nanos) -> UnitReport | None:
        report, at = self._reports.get(lo, (None, 0))
        return report if now < at + FRESH_NS else None

    def _may(self, lo: int, now: Nanos, pause: Nanos) -> bool:
        return lo not in self._changed or now >= self._changed[lo] + pause

    def _forget(self, arcs: dict[int, Arc]) -> None:
        self._reports = {lo: each for lo, each in self._reports.items() if lo in arcs}
        self._cut = {lo: each for lo, each in self._cut.items() if lo in arcs}
        self._changed = {lo: at for lo, at in self._changed.items() if lo in arcs or lo == -1}

    def _change(
        self, rows: Rows, now: Nanos, *changed: int, done: Done | None = None
    ) -> list[Effect]:
        table = self.held.table
        assert table is not None, "only for who has one"
        for lo in changed:
            self._changed[lo] = now
        sized = tuple(replace(row, size=size) for row, size in self._sizes(rows))
        before = dict(self._arcs(table))
        effects = self._put(sized, advanced(table.epoch, 1), now, done)
        for lo, arc in self._arcs(self.held.table):
            if before.get(lo) != arc:  # it reports again
                self._reports.pop(lo, None)
        return effects

    @staticmethod
    def _arcs(table: UnitTable | None) -> Iterator[tuple[int, Arc]]:
        return ((row.lo, arc) for row, arc in (unit_arcs(table) if table is not None else ()))

    def _sizes(self, rows: Rows) -> Iterator[tuple[UnitRow, int]]:
        for row in rows:
            report = self._reports.get(row.lo)
            yield row, report[0].size if report is not None else row.size

    def _put(self, rows: Rows, epoch: int, now: Nanos, done: Done | None = None) -> list[Effect]:
        held, uid = self.held, self._around.peer.uid
        arc, limit = held.arc, self.limit
        table = UnitTable(held.level, epoch, uid, rows, arc.lo, arc.hi, limit)
        assert is_sound(table), "rows stand in order"
        held.put(table)
        self._put_at = now
        effects: list[Effect] = [Notify(UnitsChanged(held.level))]

        def on_done(missing: frozenset[str], now: Nanos) -> list[Effect]:
            then = done(missing, now) if done is not None else []
            if missing or held.table is not table:
                return then
            held.note_taken(held.digest)
            taken = UnitsTaken(held.level, held.digest)
            return [*then, *self._spread.tell(Kind.UNITS_TAKEN, taken, now, None, arc, whole=True)]

        if self._around.left is None:
            return [*effects, *on_done(frozenset(), now)]
        kind = Kind.CLUSTERS + held.level - 1
        return [*effects, *self._spread.tell(kind, table, now, on_done, arc, whole=True)]


def _row(table: UnitTable, lo: int) -> UnitRow:
    return next(row for row in table.rows if row.lo == lo)


def _beside(table: UnitTable, lo: int) -> list[UnitRow]:
    """Return the unit that begins there and those on both sides of it, up to one with a name."""
    here = next(i for i, row in enumerate(table.rows) if row.lo == lo)
    first = max((i for i, row in enumerate(table.rows[:here]) if row.name), default=-1) + 1
    beyond = (i for i, row in enumerate(table.rows) if i > here and row.name)
    return [*table.rows[first : min(beyond, default=len(table.rows))]]
