"""Who may change a table: the broker that stands first in the arc which the table is about.

That rule is the same for the members of a cluster, the clusters of a context, and the units above.

* Each broker sees by its left neighbour whether it stands first. Nobody is elected.
* A newcomer that stands before the steward is handed the table over, and is steward from then on.
  The table goes to the linked broker that stands nearest to the beginning of the arc, and on from
  there, until it is with the first.
* Where the steward is dead or gone, or does not hand over within a second, the first broker takes
  over: 64 epochs later, so that what a straggler grants does not count.
* After a split, the first broker of each part makes the table of that part at once, as it knows
  what was there. After a fold, the steward of the part that has gone hands its table to that of the
  whole, which puts the two together; after a second it goes on without.

So two brokers may change one table for a moment; but at rest there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ges.telling.arcs import Arc
from ges.telling.spread import Surroundings
from ges.units.table import arc_of, digest_of
from ges.wire.unit_messages import MemberTable, UnitTable
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Message, Send
from ring.wire.messages import Member

PATIENCE_NS = nanos(1.0)  #: a broker that stands first waits so long for the table
MAX_PIECES = 8  #: tables of parts that were handed over before the whole was taken

AnyTable = MemberTable | UnitTable


class OnArc(Surroundings, Protocol):
    """What a steward sees of its arc, beside what all brokers see."""

    @property
    def left(self) -> Member | None:
        """The left neighbour; None: this broker is alone."""

    @property
    def gone(self) -> Collection[str]:
        """Uids of brokers that were seen to die or leave."""


class HeldTable(Protocol):
    """A table as one broker holds it."""

    digest: int

    @property
    def arc(self) -> Arc:
        """The arc that the table is to be about."""

    @property
    def table(self) -> AnyTable | None:
        """What is held; it may be about another arc."""

    @property
    def is_placed(self) -> bool:
        """The arc is known."""

    @property
    def fits(self) -> bool:
        """There is a table, and it is about the arc."""

    @property
    def covers(self) -> bool:
        """There is a table, and it says of all of the arc what is there."""


class Desk(Protocol):
    """What a broker does with a table whose steward it becomes."""

    def found(self, now: Nanos) -> list[Effect]:
        """This broker is alone: make the first table."""

    def take(self, before: str, now: Nanos, *, is_handover: bool) -> list[Effect]:
        """Make the next table, in place of a steward ``before``, and tell all."""

    def join(self, table: AnyTable, now: Nanos) -> list[Effect]:
        """Put a table of a part into that of the whole, and tell all."""

    def handover(self) -> Message | None:
        """Return the message that hands the table over."""


class Office:
    """What a broker does to become the steward of a table, and to be it no more."""

    def __init__(self, around: OnArc, held: HeldTable, desk: Desk) -> None:
        self._around = around
        self._held = held
        self._desk = desk
        self._first_since: Nanos | None = None  #: first in the arc, and not in office
        self._handed_to: tuple[str, int] | None = None  #: to whom, and which table
        self._pieces: dict[Arc, AnyTable] = {}

    @property
    def is_first(self) -> bool:
        """Whether this broker stands first in the arc."""
        member, left, arc = self._around.member, self._around.left, self._held.arc
        if member is None or not arc.holds(member.ring_id):
            return False
        if left is None or not arc.holds(left.ring_id):
            return True
        return arc.at(left.ring_id) > arc.at(member.ring_id)

    @property
    def is_in_office(self) -> bool:
        """Whether this broker may change the table."""
        table = self._held.table
        if table is None or table.steward != self._around.peer.uid:
            return False
        return self._held.fits and self.is_first

    def follow(self, now: Nanos) -> list[Effect]:
        """Take office or hand it over, as the ring has it."""
        member, left, table = self._around.member, self._around.left, self._held.table
        if member is None:
            self._first_since = None  # whoever is off the ring waits for no table
            return []
        is_mine = table is not None and table.steward == member.uid
        if not self.is_first:
            self._first_since = None
            return self._hand_over() if is_mine else []
        self._handed_to = None
        if table is None and left is None:
            return self._desk.found(now)
        if table is None and not self._held.is_placed:
            return []  # a neighbour has one
        if is_mine and self._held.fits:
            self._first_since = None
            return []
        if self._first_since is None:
            self._first_since = now
        if not self._knows_all and now < self._first_since + PATIENCE_NS:
            return []
        return self._take(now, is_handover=is_mine)

    def on_handover(self, handover: Message, table: AnyTable, now: Nanos) -> list[Effect]:
        """Go on with the table of a steward that this broker has displaced.

        The table has been learned before, if it counts.
        """
        arc, here = arc_of(table), self._held.arc
        if not self.is_first:
            is_of_here = digest_of(table) == self._held.digest or arc != here
            onward = self._towards_first() if is_of_here and here.covers(arc) else None
            return [] if onward is None else [Send(onward, handover)]
        if arc == here:
            is_known = digest_of(table) == self._held.digest
            return [] if not is_known or self.is_in_office else self._take(now, is_handover=True)
        if not here.covers(arc):
            return []
        if self.is_in_office:
            return self._desk.join(table, now)
        if len(self._pieces) < MAX_PIECES:
            self._pieces[arc] = table
        return self.follow(now)

    def next_deadline(self) -> Nanos | None:
        """Return when the patience with the steward before ends, or None."""
        return None if self._first_since is None else self._first_since + PATIENCE_NS

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _knows_all(self) -> bool:
        """Nothing is to be waited for before office is taken."""
        held, table = self._held, self._held.table
        if table is None:
            return False
        if held.fits:
            return self._around.left is None or table.steward in self._around.gone
        if held.covers or self._around.left is None:
            return True
        # A fold: with all the parts that have gone, from the end of what is held to that of the
        # arc. Who was first in a part on the right is not first in the whole.
        end, arc = table.hi, held.arc
        if table.steward != self._around.peer.uid or table.lo != arc.lo:
            return False
        for _ in range(len(self._pieces)):
            end = next((each.hi for each in self._pieces if each.lo == end), end)
        return end == arc.hi

    def _hand_over(self) -> list[Effect]:
        onward, handover = self._towards_first(), self._desk.handover()
        if onward is None or handover is None or self._handed_to == (onward, self._held.digest):
            return []
        self._handed_to = onward, self._held.digest
        return [Send(onward, handover)]

    def _towards_first(self) -> str | None:
        """Return who of those linked stands nearest to the beginning of the arc, before here."""
        member, linked, arc = self._around.member, self._around.linked, self._held.arc
        before = {} if member is None else before_in(arc, member.ring_id, linked)
        return min(before, key=lambda uid: (before[uid], uid), default=None)

    def _take(self, now: Nanos, *, is_handover: bool) -> list[Effect]:
        self._first_since = None
        table, pieces = self._held.table, [*self._pieces.values()]
        self._pieces.clear()
        before = table.steward if table is not None else ""
        effects = self._desk.take(before, now, is_handover=is_handover)
        for piece in pieces:
            if self._held.arc.covers(arc_of(piece)):
                effects += self._desk.join(piece, now)
        return effects


def before_in(arc: Arc, here: int, linked: Mapping[str, int]) -> dict[str, int]:
    """Return who of those linked stands in an arc before ``here``: how far from its beginning."""
    own = arc.at(here)
    return {uid: arc.at(place) for uid, place in linked.items() if arc.at(place) < own}
