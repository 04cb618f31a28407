"""A whole unit asks for room in another context, and the steward of that context gives it.

For example, an operator wants cluster 0.1.0 to join super-cluster 0.2. The steward of 0.1.0 asks
that of 0.2, which looks for a free number and a gap that is wide enough, puts a row into its table,
and answers once all in 0.2 hold that table. Then the brokers of the unit move
(:mod:`ges.units.relocating`). If the answer does not come nothing has happened, but for a row of a
unit in which nobody stands; that one goes after 10 s, as such rows always do.

Only the unit's own number is new, so one broker asks for all of it (*Grid Event Service protocols*,
section 3.1).
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ges.telling.arcs import Arc
from ges.telling.changes import Change
from ges.telling.part import CommandHandler, MessageHandler, Part
from ges.telling.post import Post
from ges.units.contexts import Contexts
from ges.units.membership import MAX_HOPS
from ges.units.office import before_in
from ges.units.planner import Planner
from ges.units.relocating import path_names
from ges.units.unit_names import LEVEL_NAMES
from ges.units.unit_rows import free_number, unit_arcs
from ges.units.units_part import UnitsPart
from ges.wire.operator_messages import JoinState, UnitJoining
from ges.wire.relocation_messages import (
    Relocated,
    Relocation,
    RoomGiven,
    RoomRefused,
    RoomWanted,
)
from ges.wire.unit_messages import TOP_LEVEL, UnitRow, UnitTable
from overlay.circular import HIGHEST
from overlay.ids import Nanos, nanos, short
from overlay.machine import Command, Effect, Message, Send
from overlay.multigraph.weights import LinkKey
from overlay.wording import counted
from ring.geometry import gap
from ring.wire.messages import Member

MIN_PLACES = 2**14  #: of the new arc, however small the unit is, ...
PLACES_EACH = 2**12  #: ... and for each of its brokers
MAX_GIVEN = 64  #: answers that are remembered, for those who ask again
ASK_NS = nanos(2.0)  #: from one question to the next
GIVE_UP_NS = nanos(30.0)  #: no answer comes in this time


@dataclass(frozen=True, slots=True)
class JoinContext(Command):
    """Let the unit whose steward this broker is join another context.

    ``unit``: its path, one to three numbers from the top; ``steward``: that of the context;
    ``context``: the arc of it; ``called``: the context, for people; ``brokers``: in the unit.
    """

    unit: tuple[int, ...]
    context: Arc
    steward: Member
    called: str
    brokers: int


@dataclass(slots=True)
class _Asked:
    """What this broker has asked for."""

    command: JoinContext
    wanted: RoomWanted
    arc: Arc
    since: Nanos
    again_at: Nanos
    last: str = ""  #: why there was no room when somebody answered last


class RoomPart(Part):
    """Asks for room as steward of a unit, and gives it as steward of a context."""

    def __init__(self, units: UnitsPart, post: Post, rng: random.Random) -> None:
        self.refused: str | None = None  #: why the last command is not carried out
        self.problem: str | None = None  #: why there is no room for what was asked for last
        self._units = units
        self._contexts: Final[Contexts] = units.units_above
        self._relocating: Final = units.relocating
        self._relocating.lost = self._ask_again
        self._around = units.around
        self._post = post
        self._rng = rng
        self._asked: _Asked | None = None
        #: Answers by number, so that who asks again is told the same; None: not all know yet.
        self._given: OrderedDict[int, RoomGiven | None] = OrderedDict()

    def answer(self) -> UnitJoining:
        """Return what is to be said to the giver of the last command."""
        refused = self.refused
        return UnitJoining(JoinState.OVER, refused[:500]) if refused else self.state

    @property
    def state(self) -> UnitJoining:
        """How far it is with what an operator wanted last."""
        if self._asked is not None:
            return UnitJoining(JoinState.ASKS, None)
        if self._relocating.is_under_way:
            return UnitJoining(JoinState.MOVES, None)
        problem = self.problem or self._relocating.problem
        return UnitJoining(JoinState.OVER, problem and problem[:500])

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Questions for room, and answers."""
        return {
            RoomWanted: self._on_wanted,
            RoomGiven: self._on_given,
            RoomRefused: self._on_refused,
            Relocated: self._on_relocated,
        }

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What an operator wants."""
        return {JoinContext: self._on_join}

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Ask again, or give up."""
        asked = self._asked
        if asked is None or now < asked.again_at:
            return []
        if now >= asked.since + GIVE_UP_NS:
            why = asked.last or (
                f"broker {short(asked.command.steward.uid)}, the steward there, does not answer"
            )
            return self._fail(f"{asked.command.called}: {why}; try again")
        asked.again_at = now + ASK_NS
        steward = asked.command.steward
        return self._post.send(steward.uid, asked.wanted, steward.ring_id)

    def next_deadline(self) -> Nanos | None:
        """Return when to ask again, or None."""
        return None if self._asked is None else self._asked.again_at

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Send what those have to say that are in the new place of their unit."""
        mail, self._relocating.mail = self._relocating.mail, []
        return [e for each in mail for e in self._post.send(each.uid, each.message, each.place)]

    # ── as steward of a unit that is to join ──────────────────────────────────────────────────

    def _on_join(self, command: JoinContext, now: Nanos) -> list[Effect]:
        self.refused = self._why_not(command)
        if self.refused is not None:
            return []
        self.problem = None
        level, member = TOP_LEVEL + 1 - len(command.unit), self._around.member
        unit, table = self._contexts.unit(level), self._contexts.table(level)
        assert member is not None and unit is not None and table is not None  # noqa: PT018
        arc = next(arc for row, arc in unit_arcs(table) if row == unit)
        number = self._rng.randrange(HIGHEST)
        context = command.context
        wanted = RoomWanted(
            number,
            member,
            level,
            context.lo,
            context.hi,
            gap(arc.lo, arc.hi),
            command.brokers,
            unit.name,
            table.limit,
        )
        self._relocating.problem = None
        self._asked = _Asked(command, wanted, arc, now, now)
        return self.handle_timers(now)

    def _why_not(self, command: JoinContext) -> str | None:
        """Return why this broker asks for no room, or None."""
        path, level = command.unit, TOP_LEVEL + 1 - len(command.unit)
        called = f"{LEVEL_NAMES[level]} {'.'.join(map(str, path))}"
        if self._relocating.is_under_way or self._asked is not None:
            return f"{called} is on its way already; wait until it is there"
        numbers = self._contexts.numbers
        if level >= TOP_LEVEL:
            return f"{called} has nothing above it that it could join"
        if numbers is None or numbers[: len(path)] != path or not self._units.is_steward_of(level):
            own = ".".join(map(str, numbers or ()))
            return f"this broker, in cluster {own}, is not the steward of {called}; ask again"
        return None

    def _on_given(self, key: LinkKey, given: RoomGiven, now: Nanos) -> list[Effect]:
        asked, member = self._asked, self._around.member
        if asked is None or given.number != asked.wanted.number or member is None:
            return []
        level, arc = asked.wanted.level, asked.arc
        relocation = Relocation(
            given.number, level, arc.lo, arc.hi, given.lo, given.hi, given.names, given.tables
        )
        unit, table = self._contexts.unit(level), self._contexts.table(level)
        arcs = [each for row, each in unit_arcs(table) if row == unit] if table is not None else []
        if arcs != [arc] or not self._units.is_steward_of(level):
            return self._fail("the unit has changed meanwhile; try again")
        if not self._relocating.shape(relocation):
            narrow = _too_narrow(Arc(given.lo, given.hi), asked.wanted.brokers)
            return self._fail(f"{asked.command.called}: {narrow}")
        self._asked = self._relocating.problem = None
        return self._relocating.begin(relocation, now)

    def _on_refused(self, key: LinkKey, refused: RoomRefused, now: Nanos) -> list[Effect]:
        asked = self._asked
        if asked is None or refused.number != asked.wanted.number:
            return []
        asked.last = refused.reason
        if refused.later:
            return []
        return self._fail(f"{asked.command.called}: {refused.reason}")

    def _fail(self, why: str) -> list[Effect]:
        self._asked, self.problem = None, why
        return []

    # ── as one of a unit that moves ───────────────────────────────────────────────────────────

    def _on_relocated(self, key: LinkKey, relocated: Relocated, now: Nanos) -> list[Effect]:
        return self._units.on_relocated(key[0], relocated, now)

    def _ask_again(self, relocation: Relocation, now: Nanos) -> list[Effect]:
        """The table that counts has no row for our unit: ask its steward for it again."""
        member, held = self._around.member, self._contexts.planners[relocation.level].held
        slot = next(
            (
                row.number
                for table in relocation.tables
                if table.level == relocation.level
                for row in table.rows
                if row.lo == relocation.to_lo
            ),
            None,
        )
        if member is None or slot is None or not held.fits:
            return []
        wanted = RoomWanted(
            relocation.number,
            member,
            relocation.level,
            held.arc.lo,
            held.arc.hi,
            0,
            1,
            relocation.names[-1] if relocation.names else "",
            held.table.limit if held.table is not None else 0,
            relocation.to_lo,
            slot,
        )
        return self._on_wanted((member.uid, None), wanted, now)  # type: ignore[arg-type]

    # ── as steward of the context ─────────────────────────────────────────────────────────────

    def _on_wanted(self, key: LinkKey, wanted: RoomWanted, now: Nanos) -> list[Effect]:
        planner = self._contexts.planners[wanted.level]
        held = planner.held
        if held.arc != Arc(wanted.context_lo, wanted.context_hi) or not held.fits:
            return self._refuse(wanted, "the units there have changed meanwhile", later=False)
        if wanted.at is not None:
            if planner.office.is_in_office:
                row = UnitRow(wanted.slot, wanted.at, 0, wanted.name)
                return planner.add_again(row, now)
            return self._pass_on(wanted, held.arc)
        if not planner.office.is_in_office:
            return self._refuse(wanted, "another broker is steward there now", later=False)
        if wanted.number in self._given:
            given = self._given[wanted.number]
            return [] if given is None else self._answer(wanted, given)
        assert held.table is not None, "only for one in office"
        refused = self._why_no_room(wanted, held.table)
        if refused is not None:
            return self._refuse(wanted, refused, later=False)
        return self._give(wanted, planner, now)

    def _why_no_room(self, wanted: RoomWanted, table: UnitTable) -> str | None:
        """Return why there is none, whatever gaps there are."""
        what = LEVEL_NAMES[wanted.level]
        if wanted.limit != table.limit:
            return (
                f"a unit has {table.limit} sub-units at most here, and {wanted.limit} where the "
                "unit is; start all brokers with the same --unit-limit"
            )
        if free_number(table.rows, table.limit) is None:
            return (
                f"it is full: it has {len(table.rows)} {what}s, the most that it may have; choose "
                "another one"
            )
        around = path_names(self._contexts, wanted.level)
        if wanted.name and around and not around[-1]:
            return (
                f"the {what} is called {wanted.name}, and a unit without a name holds none with "
                "one; choose one with a name"
            )
        if wanted.name and any(row.name == wanted.name for row in table.rows):
            return f"it has a {what} called {wanted.name} already; choose another one"
        return None

    def _give(self, wanted: RoomWanted, planner: Planner, now: Nanos) -> list[Effect]:
        least = max(MIN_PLACES, wanted.brokers * PLACES_EACH)
        arc = planner.room(now)
        if arc is None:
            return self._refuse(wanted, "no gap is known that is wide enough", later=True)
        if gap(arc.lo, arc.hi) < least:
            return self._refuse(wanted, _too_narrow(arc, wanted.brokers), later=False)
        found: Arc = arc

        def told(missing: frozenset[str], now: Nanos) -> list[Effect]:
            self._given.pop(wanted.number, None)
            if missing:
                return self._refuse(wanted, "not all there have heard of the unit", later=False)
            given = self._given[wanted.number] = self._described(wanted, found)
            return self._answer(wanted, given)

        self._given[wanted.number] = None
        if len(self._given) > MAX_GIVEN:
            self._given.popitem(last=False)
        planner.spare((arc.lo,), now)
        return planner.begin(wanted.name, arc, now, told)

    def _described(self, wanted: RoomWanted, arc: Arc) -> RoomGiven:
        tables = tuple(table for table in self._contexts.tables if table.level >= wanted.level)
        names = (*path_names(self._contexts, wanted.level), wanted.name)
        return RoomGiven(wanted.number, arc.lo, arc.hi, names, tables)

    def _answer(self, wanted: RoomWanted, given: RoomGiven) -> list[Effect]:
        return self._post.send(wanted.sender.uid, given, wanted.sender.ring_id)

    def _refuse(self, wanted: RoomWanted, reason: str, *, later: bool) -> list[Effect]:
        if wanted.at is not None:
            return []
        refused = RoomRefused(wanted.number, reason, later)
        return self._post.send(wanted.sender.uid, refused, wanted.sender.ring_id)

    def _pass_on(self, wanted: RoomWanted, arc: Arc) -> list[Effect]:
        member = self._around.member
        if member is None or wanted.hops >= MAX_HOPS:
            return []
        before = before_in(arc, member.ring_id, self._around.linked)
        if not before:
            return []
        onward = min(before, key=lambda uid: (before[uid], uid))
        return [Send(onward, replace(wanted, hops=wanted.hops + 1))]


def _too_narrow(arc: Arc, brokers: int) -> str:
    return (
        f"its widest gap has {gap(arc.lo, arc.hi)} places for {counted(brokers, 'broker')}, too "
        "few; choose another one"
    )
