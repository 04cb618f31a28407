"""The contexts of one broker: the tables of units above the cluster, and what follows from them.

For example, the table of level 3 has one row, from place 0 on with number 0, and that of level 2 as
well; that of level 1 has ``0 at 0`` and ``1 at 2000``. A broker at place 2500 is in cluster 0.0.1,
whose arc is from 2000 to 0. Its slot in there makes its address complete.

A table counts only where it is about the arc of the context, and what that is says the table above.
The highest one is about the whole ring. So all agree from the top: of two tables of level 3 the one
with the later epoch counts whole; with it the contexts of level 2 are the same for all, and of two
tables of one of these the later one counts; and so on, down to the members of each cluster. It is
the same after a partition, and where two rings merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from operator import is_

from msgspec.structs import replace

from ges.telling.arcs import WHOLE, Arc
from ges.telling.changes import Changes
from ges.telling.comparison import Comparison
from ges.telling.shared import Asking
from ges.telling.spread import Spread
from ges.units.facts import LimitDiffers, UnitsChanged
from ges.units.membership import MAX_HOPS, Beside
from ges.units.office import before_in
from ges.units.planner import Planner, UnitsConfig
from ges.units.steward import Steward
from ges.units.table import ClusterTable, arc_of
from ges.units.unit_names import at_level
from ges.units.unit_rows import is_sound, unit_arcs, unit_at
from ges.units.units_held import UnitsHeld, arc_held
from ges.units.whole_tables import ComparedTable
from ges.wire.telling_messages import Kind
from ges.wire.unit_messages import (
    TOP_LEVEL,
    UnitHandover,
    UnitReport,
    UnitRow,
    UnitsTaken,
    UnitTable,
)
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Notify, Send
from ring.geometry import clockwise, gap

LEVELS = range(TOP_LEVEL, 0, -1)  #: of tables of units, from the top

REPORT_NS = nanos(10.0)  #: units report their sizes so often ...
URGENT_REPORT_NS = nanos(1.0)  #: ... and so often while they are to be split
CHANGED_REPORT_NS = nanos(0.1)  #: ... and so long after the size has changed
EMPTY_NS = nanos(10.0)  #: nobody is seen in the arc of a unit for so long: then it is reported
EMPTY_AGAIN_NS = nanos(5.0)
LEFT_NS = nanos(1.0)  #: the same, where a whole unit has left
LEFT_KEPT = 8  #: arcs that whole units leave, of which this is known

#: What a unit has reported last: its arc and size, whether it is to be split, and where it ends.
Said = tuple[Arc, int, bool, int | None]


class Contexts:
    """The tables of units, and what one broker does for them."""

    def __init__(
        self,
        around: Beside,
        cluster: ClusterTable,
        steward: Steward,
        spread: Spread,
        comparison: Comparison,
        asking: Asking,
        config: UnitsConfig,
        changes: Changes,
    ) -> None:
        """``asking`` asks for tables of another broker."""
        self._around = around
        self._cluster = cluster
        self._steward = steward
        self._spread = spread
        self._comparison = comparison
        self._pull = asking.on_differs
        self._config = config
        self.names = config.names  #: that this broker wishes for its units, from the top
        cluster.limit = config.limit
        self._helds = tuple(UnitsHeld(level, changes) for level in LEVELS)
        self.planners = {
            held.level: Planner(around, held, spread, config, partial(self._name, held.level))
            for held in self._helds
        }
        self._reported: dict[int, tuple[Said, Nanos]] = {}  #: by level: what, and when
        self._due: dict[int, Nanos] = {}  #: by level: when to report again
        self._empty: dict[tuple[int, int, int], Nanos] = {}  #: level and arc: when to report
        self._left: list[Arc] = []  #: that whole units have left, the last few
        self._told_limit = config.limit
        self._tables: tuple[UnitTable, ...] = ()  #: that are known, from the top
        #: The place and the tables by which the arcs are.
        self._placed: tuple[int | None, tuple[UnitTable | None, ...]] = (None, ())
        self._numbers: tuple[int, ...] | None = None
        self._numbers_of: tuple[tuple[UnitTable, ...], int | None] = ((), None)  #: what they are by
        for level, planner in self.planners.items():
            kind = Kind.CLUSTERS + level - 1
            spread.register(kind, UnitTable, self._on_told)
            comparison.register(
                kind, ComparedTable(planner.held, asking), arc=arc_held(planner.held)
            )
        spread.register(Kind.UNIT_TABLE, UnitTable, self.on_table)
        spread.register(Kind.UNITS_TAKEN, UnitsTaken, self._on_taken)

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def table(self, level: int) -> UnitTable | None:
        """Return the table of the units of a level in this broker's context."""
        return self.planners[level].held.table

    @property
    def tables(self) -> tuple[UnitTable, ...]:
        """All that are known, from the top."""
        top, middle, low = self._helds  # asked for after each input
        if top.table is not None and middle.table is not None and low.table is not None:
            known = self._tables
            found = top.table, middle.table, low.table
            if len(known) == len(found) and all(map(is_, known, found)):
                return known
            self._tables = found
            return found
        return tuple(held.table for held in self._helds if held.table is not None)

    @property
    def taken(self) -> tuple[UnitsTaken, ...]:
        """Those that all brokers of their contexts hold, as far as this broker has heard."""
        helds = (held for held in self._helds if held.is_taken)
        return tuple(UnitsTaken(held.level, held.digest) for held in helds)

    @property
    def are_taken(self) -> bool:
        """All tables are known, and all brokers of their contexts hold them."""
        return all(held.is_taken for held in self._helds)

    @property
    def is_single(self) -> bool:
        """The whole overlay is one cluster."""
        tables = self.tables
        return len(tables) == len(LEVELS) and all(len(table.rows) == 1 for table in tables)

    def unit(self, level: int) -> UnitRow | None:
        """Return this broker's unit of a level; None: it is not known."""
        member, table = self._around.member, self.table(level)
        found = unit_at(table, member.ring_id) if member is not None and table is not None else None
        return found[0] if found is not None else None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The numbers of this broker's units, from the top; None: they are not known."""
        member = self._around.member
        key = self.tables, member.ring_id if member is not None else None
        if key != self._numbers_of:
            found = [self.unit(level) for level in LEVELS]
            known = tuple(row.number for row in found if row is not None)
            self._numbers_of = key
            self._numbers = known if len(known) == len(found) else None
        return self._numbers

    # ── tables of others ──────────────────────────────────────────────────────────────────────

    def on_table(self, table: UnitTable, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        """Another broker sends its table of a level."""
        held = self.planners[table.level].held
        is_first = held.table is None
        effects = self._comparison.tell(uid) if held.beats(table) else []
        if self._learn(table, now, effects) and not is_first:
            for other in self._around.linked:
                effects += self._comparison.tell(other) if other != uid else []
        return True, effects

    def on_handover(self, uid: str, handover: UnitHandover, now: Nanos) -> list[Effect]:
        """The steward of a context is it no more."""
        table = handover.table
        if not is_sound(table):
            return []
        effects = self.on_table(table, uid, now)[1]
        office = self.planners[table.level].office
        effects += office.on_handover(handover, table, now)
        return [*effects, *self._place(now)]

    def on_report(self, report: UnitReport, now: Nanos) -> list[Effect]:
        """A unit reports: take it as steward of its context, or pass it on."""
        planner = self.planners[report.level]
        if planner.office.is_in_office:
            return [*planner.on_report(report, now), *self._place(now)]
        return self._pass_on(report)

    def note_left(self, arc: Arc, now: Nanos) -> None:
        """A whole unit leaves this arc: once nobody is seen there that is no mistake."""
        if arc not in self._left:
            self._left = [*self._left[1 - LEFT_KEPT :], arc]

    def settle_in(self, tables: Iterable[UnitTable], now: Nanos) -> list[Effect]:
        """Hold these tables, from the top, where they are about what is around this broker now.

        Units in them are not folded for a while, as their brokers may be on the way.
        """
        effects = self._place(now)
        for table in tables:
            self._learn(table, now, effects)
            self.planners[table.level].spare((row.lo for row in table.rows), now)
        return effects

    # ── as time passes ────────────────────────────────────────────────────────────────────────

    def follow(self, now: Nanos) -> list[Effect]:
        """Take office or hand over, from the top; and report."""
        member = self._around.member
        if member is None:
            self._reported.clear()
            self._due.clear()
            self._empty.clear()
            return [e for planner in self.planners.values() for e in planner.office.follow(now)]
        effects = self._place(now)
        for planner in self.planners.values():
            effects += planner.office.follow(now)
            effects += self._place(now)
        return effects

    def report(self, now: Nanos) -> list[Effect]:
        """Report the sizes of the units whose steward this broker is, and those without members."""
        if self._around.member is None:
            return []
        effects: list[Effect] = []
        for level in (*reversed(LEVELS),):
            effects += self._report_unit(level, now)
        return [*effects, *self._report_empty(now), *self._place(now)]

    def next_deadline(self) -> Nanos | None:
        """Return when something is to be reported or done, or None."""
        due = [*self._empty.values(), *self._due.values()]
        offices = [planner.office.next_deadline() for planner in self.planners.values()]
        due += [patience for patience in offices if patience is not None]
        return min(due, default=None)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _name(self, level: int) -> str:
        """Return what a new unit of a level around this broker is to be called.

        That is what this broker wishes, as far as the units above bear the names that it wishes.
        """
        names = self.names
        for above in range(TOP_LEVEL, level, -1):
            unit = self.unit(above)
            if unit is None or unit.name != at_level(names, above):
                return ""
        return at_level(names, level)

    def _on_told(self, table: UnitTable, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        held = self.planners[table.level].held
        effects: list[Effect] = []
        if held.loses(table):
            self._learn(table, now, effects)
        elif held.table is None or not held.fits or arc_of(table) != held.arc:
            effects += self._pull(uid, now)
        elif held.beats(table):
            effects += self._comparison.tell(uid)
        return True, effects

    def _on_taken(self, taken: UnitsTaken, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        self.planners[taken.level].held.note_taken(taken.digest)
        return True, []

    def _learn(self, table: UnitTable, now: Nanos, effects: list[Effect]) -> bool:
        """Hold a table if it counts; says whether it does."""
        held = self.planners[table.level].held
        if not is_sound(table) or not held.loses(table):
            return False
        held.put(table)
        self._comparison.touch(now)
        effects.append(Notify(UnitsChanged(table.level)))
        effects += self._place(now)
        return True

    def _place(self, now: Nanos) -> list[Effect]:
        """Find out which arcs this broker's units have by the tables, from the top."""
        member = self._around.member
        if member is None:
            return []
        place, tables = member.ring_id, tuple(held.table for held in self._helds)
        if place == self._placed[0] and all(map(is_, tables, self._placed[1])):
            return []
        self._placed = place, tables
        arc: Arc | None = WHOLE
        for held in self._helds:
            if arc is not None:
                held.set_arc(arc)
            arc = self._inner(held, member.ring_id)
        effects: list[Effect] = []
        top = self.planners[TOP_LEVEL].held.table
        if top is not None:
            self._cluster.limit = top.limit
            if top.limit != self._told_limit:
                self._told_limit = top.limit
                if top.limit != self._config.limit:
                    effects.append(Notify(LimitDiffers(top.limit, self._config.limit)))
        if arc is not None:
            lost = self._cluster.set_arc(arc)
            effects += self._spread.strike(lost, now) if lost else []
        return effects

    @staticmethod
    def _inner(held: UnitsHeld, place: int) -> Arc | None:
        """Return the arc of the unit at a place, as far as it lies in the context; None: unknown.

        A table of another context says it as far as it goes.
        """
        if held.table is None or not held.is_placed:
            return None
        found = unit_at(held.table, place)
        if found is None:
            return None
        _, arc = found
        if held.fits or held.arc.covers(arc):
            return arc
        context = held.arc
        begins_inside = context.holds(arc.lo) and context.at(arc.lo) <= context.at(place)
        lo = arc.lo if begins_inside else context.lo
        ends_inside = context.holds(arc.hi) and context.at(arc.hi) > context.at(place)
        return Arc(lo, arc.hi if ends_inside else context.hi)

    def _report_unit(self, level: int, now: Nanos) -> list[Effect]:
        """Report a unit of a level, whose sub-units are those of the level below."""
        found = self._described(level, now)
        if found is None:
            self._reported.pop(level, None)
            self._due.pop(level, None)
            return []
        report, is_wanted, effects = found
        said = Arc(report.lo, report.hi), report.size, report.split_at is not None, report.end
        pause = URGENT_REPORT_NS if is_wanted else REPORT_NS
        known = self._reported.get(level)
        if known is not None:
            at = known[1] + (pause if known[0] == said else min(pause, CHANGED_REPORT_NS))
            if now < at:
                self._due[level] = at
                return effects
        self._reported[level], self._due[level] = (said, now), now + pause
        return [*effects, *self._take(report, now)]

    def _described(self, level: int, now: Nanos) -> tuple[UnitReport, bool, list[Effect]] | None:
        """Return the report of a unit whose steward this is, and whether it is to be split."""
        if level == 1:
            if not self._steward.is_in_office:
                return None
            places, is_urgent = self._steward.places(now)
            is_wanted = self._steward.wants_split(len(places), urgent=is_urgent)
            arc = self._cluster.arc
        else:
            planner = self.planners[level - 1]
            table = planner.held.table
            if table is None or not planner.office.is_in_office:
                return None
            places = [row.lo for row in table.rows]
            is_wanted = is_urgent = planner.wants_split(now)
            arc = planner.held.arc
        size = len(places)
        effects: list[Effect] = []
        unit = self.unit(level)
        is_wanted = is_wanted and not (unit is not None and unit.name)
        may_split = is_wanted and size > 1
        if may_split and level == 1:
            may_split, effects = self._steward.prepare_split(now, is_alone=self.is_single)
        second, last = (places[1], places[-1]) if size > 1 else (None, None)
        # At the median; what is larger than two can be gets its first parts at once.
        parts = max(2, -(-size // self._cluster.limit))
        split_at = places[size * (parts // 2) // parts] if may_split else None
        counted = size + (is_urgent and level > 1)  # the one for which there is no number
        last_broker = places[-1] if places else None
        end = last_broker if level == 1 else self.planners[level - 1].end(now)
        edges = second, last, end
        report = UnitReport(level, arc.lo, arc.hi, counted, split_at, is_urgent, 0, *edges)
        return report, is_wanted, effects

    def _report_empty(self, now: Nanos) -> list[Effect]:
        """Report units in whose arcs nobody stands, beside this broker."""
        seen = {(level, arc.lo, arc.hi) for level, arc in self._seen_empty()}
        self._left = [arc for arc in self._left if self._is_unit(arc)]
        waits = {key: LEFT_NS if Arc(*key[1:]) in self._left else EMPTY_NS for key in seen}
        self._empty = {
            key: min(self._empty.get(key, now + wait), now + wait) for key, wait in waits.items()
        }
        effects: list[Effect] = []
        for key, due in self._empty.items():
            if due <= now:
                self._empty[key] = now + EMPTY_AGAIN_NS
                level, lo, hi = key
                is_left = Arc(lo, hi) in self._left
                effects += self._take(UnitReport(level, lo, hi, 0, None, is_left, 0), now)
        return effects

    def _is_unit(self, arc: Arc) -> bool:
        """Say whether a table has a unit with this arc."""
        return any(arc == each for table in self.tables for _, each in unit_arcs(table))

    def _seen_empty(self) -> Iterator[tuple[int, Arc]]:
        member, left, right = self._around.member, self._around.left, self._around.right
        assert member is not None, "only for who has a place"
        here = member.ring_id
        gaps = [(here, right.ring_id if right is not None else here)]
        if left is not None:
            gaps.append((left.ring_id, here))
        for level in LEVELS:
            held = self.planners[level].held
            if held.table is None or not held.fits or len(held.table.rows) == 1:
                continue
            for _, arc in unit_arcs(held.table):
                for begin, end in gaps:
                    room, at = gap(begin, end), clockwise(begin, arc.lo)
                    if 0 < at < room and at + gap(arc.lo, arc.hi) <= room:
                        yield level, arc
                        break

    def _take(self, report: UnitReport, now: Nanos) -> list[Effect]:
        planner = self.planners[report.level]
        if planner.office.is_in_office:
            return planner.on_report(report, now)
        return self._pass_on(report)

    def _pass_on(self, report: UnitReport) -> list[Effect]:
        """Pass on a report to who stands first in the context."""
        member, arc = self._around.member, self.planners[report.level].held.arc
        if member is None or report.hops >= MAX_HOPS:
            return []
        before = before_in(arc, member.ring_id, self._around.linked)
        if not before:
            return []
        onward = min(before, key=lambda uid: (before[uid], uid))
        return [Send(onward, replace(report, hops=report.hops + 1))]
