"""Where newcomers are to stand, by the names of the units that they wish.

For example, a newcomer wishes ``eu/fra/a``. Its contact finds ``eu`` in the table of level 3, and
leads the newcomer's request to the broker that stands first in the arc of ``eu``. That one looks
for ``fra`` in its own tables, and so on down to the steward of cluster ``a``, which counts its
members. The newcomer gets a place on the ring in that arc. Where there is no unit of a name, the
steward of the context makes a row for it, so two who want the same name at one time meet at one
steward. The first broker in the arc of a new unit makes the tables of what is in there.

* A broker stands in units that bear exactly its names: one to which no name was given stands in
  units without a name. So named units hold nobody else.
* A named cluster that is full takes nobody else, as it is not split.
* A broker that sees for a while that its units do not bear its names moves. That happens where two
  rings have merged, or where a table did not reach somebody in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from zlib import crc32

from msgspec.structs import replace

from ges.telling.arcs import Arc
from ges.telling.changes import Change, Changes
from ges.units.contexts import LEVELS, Contexts
from ges.units.membership import Beside
from ges.units.planner import Planner, UnitsConfig
from ges.units.steward import Steward
from ges.units.table import ClusterTable
from ges.units.unit_names import (
    LEVEL_NAMES,
    UnitNames,
    at_level,
    is_name,
    listed,
    without_end,
    written,
)
from ges.units.unit_rows import Rows, tidied, unit_arcs, unit_at
from ges.wire.unit_messages import TOP_LEVEL, UnitTable
from overlay.ids import NANOS_PER_SECOND, Nanos, Peer, nanos, short
from overlay.machine import Effect
from overlay.wording import counted
from ring.geometry import gap
from ring.joining.guide import ANYWHERE, Aim, Lead, Way

PROMISE_NS = nanos(10.0)  #: who was led to a cluster is there within this, or comes no more
MOVE_NS = nanos(10.0)  #: a broker that stands in a wrong unit moves after this, and up to ...
MOVE_SPREAD_S = 10  #: ... so many seconds more, doubled each time ...
LONGEST_MOVE_NS = nanos(600.0)  #: ... up to this

NAMELESS = "units without names"
_ADMITTING = "have its operator admit it ([units] admit), or give --unit another name"
FORMING = "the units there are being formed"


class Placement:
    """What one broker says of places, as a :class:`~ring.joining.guide.Guide` of its ring."""

    def __init__(
        self,
        around: Beside,
        contexts: Contexts,
        cluster: ClusterTable,
        steward: Steward,
        config: UnitsConfig,
        changes: Changes,
    ) -> None:
        """``config`` says what this broker wishes, and whom it lets in."""
        self._around = around
        self._changes = changes
        self._contexts = contexts
        self._cluster = cluster
        self._steward = steward
        self.entry = config.entry  #: may change
        #: Where this broker is to stand at a time, as its unit moves; None: its unit does not.
        self.aims: Callable[[Nanos], Aim | None] = lambda now: None
        self._promised: dict[str, Nanos] = {}  #: uids led to this cluster, and until when
        self._untold: list[Effect] = []
        self._wrong_since: Nanos | None = None
        self._moves = 0  #: in a row
        self._untidy_since: Nanos | None = None  #: as steward, of a table whose names are wrong

    @property
    def wish(self) -> UnitNames:
        """The names that this broker was given."""
        return self._contexts.names

    @property
    def standing(self) -> UnitNames | None:
        """The names of the units in which this broker stands; None: not known for sure."""
        member = self._around.member
        if member is None:
            return None
        names = []
        for level in LEVELS:
            held = self._contexts.planners[level].held
            found = unit_at(held.table, member.ring_id) if held.table is not None else None
            if found is None or not held.fits:
                return None
            names.append(found[0].name)
        return without_end(names)

    # ── where newcomers are to stand ──────────────────────────────────────────────────────────

    def lead(self, newcomer: Peer, wish: UnitNames, now: Nanos) -> Lead:
        """Say where a newcomer is to stand, or who knows."""
        top, member = self._contexts.table(TOP_LEVEL), self._around.member
        if top is None or member is None:
            return Lead(Way.LATER, reason=FORMING) if wish else ANYWHERE
        if not wish and not any(row.name for row in top.rows):
            return ANYWHERE
        for level in LEVELS:
            planner, name = self._contexts.planners[level], at_level(wish, level)
            table = planner.held.table
            if table is None or not planner.held.fits:
                return Lead(Way.LATER, reason=FORMING)
            if not name:
                return self._without_name(newcomer, planner, table, wish, now)
            arc = next((arc for row, arc in unit_arcs(table) if row.name == name), None)
            if arc is None:
                return self._make(planner, table, name, wish, now)
            if not arc.holds(member.ring_id):
                return _led(Way.ASK, arc)
        return self._into_cluster(newcomer, wish, now)

    def aim(self, now: Nanos) -> Aim | None:
        """Say where this broker is to stand while its unit moves; None: where its wish leads."""
        return self.aims(now)

    def judge(
        self, newcomer: Peer, place: int, *, is_led: bool, is_aimed: bool = False
    ) -> Lead | None:
        """Say whether this broker takes a newcomer beside it; None: it does.

        One that is aimed moves with its whole unit: it is not counted against thresholds.
        """
        level = self._level_of(place)
        why = self.entry.why_not(newcomer) if level == 0 else None
        if why is not None:
            arc = self._cluster.arc
            if not is_led and not arc.is_whole:
                return Lead(Way.INSIDE, arc.hi, arc.lo, f"{self._called}: {why}")
            return Lead(Way.NEVER, reason=f"{self._called}: {why}; {_ADMITTING}")
        if not self.entry.gateways or is_aimed:
            return None
        links = Counter(map(self._level_of, self._around.linked.values()))
        if not self.entry.is_at_threshold(level, links):
            return None
        count = f"{counted(links[level], 'gateway')} of level {level}, as many as it may have"
        return Lead(Way.OTHER, reason=f"broker {short(self._around.peer.uid)} has {count}")

    def take(self) -> list[Effect]:
        """Return what is to be told of units that were made."""
        effects, self._untold = self._untold, []
        return effects

    # ── where this broker stands ──────────────────────────────────────────────────────────────

    def follow(self, now: Nanos) -> list[Effect]:
        """Note whether this broker's units bear its names; as steward put wrong names right."""
        effects = self._tidy(now)
        standing = self.standing
        if standing is None or self._around.left is None:
            self._wrong_since = None
        elif standing == self._contexts.names:
            self._wrong_since, self._moves = None, 0
        elif self._wrong_since is None:
            self._wrong_since = now
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when this broker is to move or to put names right, or None."""
        moves_at = self._moves_at()
        if self._untidy_since is None:
            return moves_at
        tidies_at = self._untidy_since + MOVE_NS
        return tidies_at if moves_at is None else min(tidies_at, moves_at)

    def moves(self, now: Nanos) -> str | None:
        """Return why this broker is to move now; None: it is not to."""
        due = self._moves_at()
        if due is None or now < due:
            return None
        self._wrong_since = None
        if self._rename(now):
            return None
        self._moves += 1
        stands, wished = (
            written(each) or NAMELESS for each in (self.standing or (), self._contexts.names)
        )
        return f"it stands in {stands}, and is to stand in {wished}"

    def _moves_at(self) -> Nanos | None:
        if self._wrong_since is None:
            return None
        spread = crc32(self._around.peer.uid.encode()) % MOVE_SPREAD_S * NANOS_PER_SECOND
        return self._wrong_since + min((MOVE_NS + spread) << min(self._moves, 10), LONGEST_MOVE_NS)

    def _tidy(self, now: Nanos) -> list[Effect]:
        """As steward of a context, take the names from units that may not have them.

        Tables that were put together after a partition may have a name twice, or in a unit without
        a name. While tables change it may look so for a moment.
        """
        wrong = {planner: rows for planner, rows in self._untidy() if rows}
        if not wrong:
            self._untidy_since = None
        elif self._untidy_since is None:
            self._untidy_since = now
        elif now >= self._untidy_since + MOVE_NS:
            self._untidy_since = None
            return [each for planner, rows in wrong.items() for each in planner.rename(rows, now)]
        return []

    def _untidy(self) -> Iterator[tuple[Planner, Rows | None]]:
        """Yield those in office, and the rows that their tables should have, if others."""
        for level in LEVELS:
            planner = self._contexts.planners[level]
            around = self._contexts.unit(level + 1) if level < TOP_LEVEL else None
            table = planner.held.table
            is_known = level == TOP_LEVEL or around is not None
            if table is not None and is_known and planner.office.is_in_office:
                may_have_names = around is None or bool(around.name)
                rows = tidied(table.rows, may_have_names=may_have_names)
                yield planner, rows if rows != table.rows else None

    def _rename(self, now: Nanos) -> bool:
        """Call the unit otherwise in which this broker is alone, if it is steward of the context.

        It would come back to the same place else, as nobody else takes the unit's table.
        """
        left, right = self._around.left, self._around.right
        for level in LEVELS:
            planner, wished = self._contexts.planners[level], at_level(self._contexts.names, level)
            unit, table = self._contexts.unit(level), planner.held.table
            if unit is not None and unit.name == wished:
                continue
            if unit is None or table is None or not planner.office.is_in_office:
                return False
            arc = next(arc for row, arc in unit_arcs(table) if row == unit)
            is_alone = not any(each and arc.holds(each.ring_id) for each in (left, right))
            is_taken = bool(wished) and any(row.name == wished for row in table.rows)
            if is_alone and not is_taken:
                rows = (replace(r, name=wished) if r == unit else r for r in table.rows)
                self._tell(planner.rename(tuple(rows), now))
            return is_alone and not is_taken
        return False

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _called(self) -> str:
        """This broker's cluster, for people."""
        names, numbers = written(self.standing or ()), self._contexts.numbers
        path = ".".join(map(str, numbers or ()))
        return f"cluster {names or path}"

    def _level_of(self, place: int) -> int:
        """Return the level of a gateway from here to a place; 0: in this cluster."""
        for level in LEVELS:
            table, own = self._contexts.table(level), self._contexts.unit(level)
            found = unit_at(table, place) if table is not None else None
            if found is None or found[0] != own:
                return level
        return 0

    def _without_name(
        self, newcomer: Peer, planner: Planner, table: UnitTable, wish: UnitNames, now: Nanos
    ) -> Lead:
        """Lead a newcomer to units without names in this context."""
        named = any(row.name for row in table.rows)
        if table.level == 1 and not planner.office.is_in_office:
            return self._ask_steward(planner)  # who knows whether there is room
        if not named and table.level > 1:
            return _led(Way.INSIDE, planner.held.arc)
        arcs = [(row.lo, arc) for row, arc in unit_arcs(table) if not row.name]
        if not arcs:
            return self._make(planner, table, "", wish, now)
        if table.level == 1:
            arcs = [(lo, arc) for lo, arc in arcs if not planner.is_full(lo, now)]
            if not arcs and len(table.rows) >= table.limit:
                reason = f"all {len(table.rows)} clusters of {written(wish)} are full"
                return Lead(Way.NEVER, reason=f"{reason}; {self._siblings(wish, 2)}")
            arcs = arcs or [(row.lo, arc) for row, arc in unit_arcs(table) if not row.name]
        return _led(Way.INSIDE, _drawn([arc for _, arc in arcs], newcomer.uid))

    def _make(
        self, planner: Planner, table: UnitTable, name: str, wish: UnitNames, now: Nanos
    ) -> Lead:
        """Make a unit of a name, or lead to the broker that may."""
        if not planner.office.is_in_office:
            return self._ask_steward(planner)
        if name and not is_name(name):  # a broker of this software does not wish that
            return Lead(Way.NEVER, reason="a unit cannot be called so")
        if len(table.rows) >= table.limit:
            context = written(wish[: TOP_LEVEL - table.level]) or "the overlay"
            what = f"{LEVEL_NAMES[table.level]}s"
            siblings = self._siblings(wish, table.level)
            reason = f"{context} has {table.limit} {what}, the most that it may have; {siblings}"
            return Lead(Way.NEVER, reason=reason)
        found = planner.add(name, now)
        if found is None:
            return Lead(Way.LATER, reason="no gap is known that is wide enough for a new unit")
        arc, effects = found
        self._tell(effects)
        return _led(Way.ASK, arc)

    def _tell(self, effects: list[Effect]) -> None:
        self._untold += effects
        self._changes.mark(Change.HEARD)

    @staticmethod
    def _ask_steward(planner: Planner) -> Lead:
        if planner.office.is_first:
            return Lead(Way.LATER, reason=FORMING)
        return _led(Way.ASK, planner.held.arc)

    def _into_cluster(self, newcomer: Peer, wish: UnitNames, now: Nanos) -> Lead:
        """Let a newcomer into this named cluster if there is room; only its steward knows."""
        cluster, steward = self._cluster, self._steward
        if not steward.is_in_office:
            if steward.is_first:
                return Lead(Way.LATER, reason=FORMING)
            return _led(Way.ASK, cluster.arc)
        self._promised = {uid: end for uid, end in self._promised.items() if now < end}
        live = cluster.live
        coming = [uid for uid in self._promised if uid not in live and uid != newcomer.uid]
        others = len(steward.places(now)[0]) + len(coming)
        why = self.entry.why_not(newcomer)
        if why is not None:
            return Lead(Way.NEVER, reason=f"cluster {written(wish)}: {why}; {_ADMITTING}")
        if newcomer.uid not in live and others >= cluster.limit:
            count = f"it has {cluster.limit} brokers, the most that it may have"
            reason = f"cluster {written(wish)} is full: {count}; {self._siblings(wish, 1)}"
            return Lead(Way.NEVER, reason=reason)
        self._promised[newcomer.uid] = now + PROMISE_NS
        return _led(Way.INSIDE, cluster.arc)

    def _siblings(self, wish: UnitNames, level: int) -> str:
        """Return in words which units a newcomer could name instead."""
        table = self._contexts.table(level)
        above = wish[: TOP_LEVEL - level]
        where = f" in {written(above)}" if above else ""
        own = at_level(wish, level)
        names = [row.name for row in table.rows if row.name not in ("", own)] if table else []
        if not names:
            return f"no other {LEVEL_NAMES[level]}{where} has a name; give --unit a new one"
        return f"give --unit another one{where}: {listed(names)}"


def _led(way: Way, arc: Arc) -> Lead:
    is_anywhere = way is Way.INSIDE and arc.is_whole
    return ANYWHERE if is_anywhere else Lead(way, arc.lo, arc.hi)


def _drawn(arcs: list[Arc], uid: str) -> Arc:
    """Return one of some arcs, a wide one more often than a narrow one."""
    point = crc32(uid.encode()) * sum(gap(arc.lo, arc.hi) for arc in arcs) >> 32
    for arc in arcs:
        point -= gap(arc.lo, arc.hi)
        if point < 0:
            return arc
    return arcs[-1]
