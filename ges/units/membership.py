"""One broker's membership of its cluster: its table, its slot, and who is missing beside it.

* A newcomer pulls the table from a ring neighbour, and asks the steward for a slot until it has
  one. It wishes the slot that it had before. A full cluster is split, as somebody asks in vain.
* Where two tables meet, the one that counts wins whole. Who adopts it in place of another tells
  all that it is linked to, so that it is everywhere in a few steps.
* A broker whose row stands between this one and its right neighbour is not there. After a second
  the steward is told, or at once if the ring has seen it die or leave.

What is for the steward goes from broker to broker, each time to the one linked that stands nearest
to the beginning of the arc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from ges.telling.comparison import Comparison
from ges.telling.spread import Spread
from ges.units.office import before_in
from ges.units.steward import OnArc, Steward
from ges.units.table import ClusterTable, arc_of, is_sound
from ges.wire.unit_messages import (
    MemberChange,
    MemberLost,
    MemberRow,
    MemberTable,
    SlotWanted,
    StewardHandover,
)
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Send
from overlay.wire.frames import PROTOCOL_VERSION
from ring.geometry import between
from ring.wire.messages import Member

ASK_NS = nanos(1.0)  #: from one question to the next, doubled each time ...
LONGEST_ASK_NS = nanos(4.0)  #: ... up to this
GRACE_NS = nanos(1.0)  #: a row may stand where nobody is seen for so long ...
REPORT_NS = nanos(2.0)  #: ... and the steward is told again after so long
MAX_HOPS = 64  #: of what is for the steward


class Beside(OnArc, Protocol):
    """What a member sees of its neighbours."""

    @property
    def right(self) -> Member | None:
        """The right neighbour; None: this broker is alone."""

    def note_there(self, uid: str) -> None:
        """A broker is there, even if it was seen to die."""


class Membership:
    """What one broker does to be a member, and to keep the table true."""

    def __init__(
        self,
        around: Beside,
        table: ClusterTable,
        steward: Steward,
        spread: Spread,
        comparison: Comparison,
        pull: Callable[[str, Nanos], list[Effect]],
    ) -> None:
        """``pull`` asks a broker for its tables, but not all the time."""
        self.counters: Counter[str] = Counter()
        self.slot: int | None = None  #: the one it has, or had last
        self._around = around
        self._table = table
        self._steward = steward
        self._spread = spread
        self._comparison = comparison
        self._ask_at: Nanos | None = None
        self._asked = 0  #: times, for the same
        self._pull = pull
        self._missing: dict[str, Nanos] = {}  #: uid -> when to tell the steward (again)
        self._reported: set[str] = set()  #: those that it has been told of

    # ── the table ─────────────────────────────────────────────────────────────────────────────

    def on_change(self, change: MemberChange, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        """The steward tells of a change; if it is for a table not held here, pull that."""
        table = self._table
        then = table.after(change)
        if then is not None and table.loses(then):
            return True, self._adopt(then, now, follows=True)
        if table.digest == change.digest:
            return True, []
        known = table.table
        head = MemberTable(change.epoch, change.steward, (), lo=change.lo, hi=change.hi)
        if arc_of(head) != table.arc:
            return False, self._pull(uid, now)  # the table of clusters has changed, here or there
        is_same_epoch = known is not None and known.epoch == change.epoch
        if is_same_epoch or table.loses(head):
            return False, self._pull(uid, now)
        return True, []

    def on_table(self, table: MemberTable, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        """Another broker sends its table, as it was asked to."""
        return True, self.on_members(uid, table, now)

    def on_members(self, uid: str, table: MemberTable, now: Nanos) -> list[Effect]:
        """Another broker shows its table."""
        if not is_sound(table):
            self.counters["tables_malformed"] += 1
            return []
        if self._table.beats(table):
            return self._comparison.tell(uid)  # it asks then
        if not self._table.loses(table):
            return []
        is_first = self._table.table is None
        effects = self._adopt(table, now)
        if not is_first:
            self.counters["tables_replaced"] += 1
            for other in self._around.linked:
                effects += self._comparison.tell(other) if other != uid else []
        return effects

    def on_handover(self, uid: str, handover: StewardHandover, now: Nanos) -> list[Effect]:
        """The steward on the right stands first no more."""
        effects = self.on_members(uid, handover.table, now)
        return [*effects, *self._steward.on_handover(handover, now)]

    def settle_in(self, table: MemberTable, now: Nanos) -> list[Effect]:
        """Hold this table, if it is about the arc in which this broker stands now, and counts."""
        return self._adopt(table, now) if self._table.loses(table) else []

    # ── for the steward ───────────────────────────────────────────────────────────────────────

    def on_slot_wanted(self, wanted: SlotWanted, now: Nanos) -> list[Effect]:
        """Somebody wants a slot: grant it, or pass it on."""
        if self._steward.is_in_office:
            return self._steward.want(wanted, now)
        return self._pass_on(wanted)

    def on_member_lost(self, lost: MemberLost, now: Nanos) -> list[Effect]:
        """Somebody is missing: let its slot rest, or pass it on."""
        if self._steward.is_in_office:
            return self._steward.lose(lost, now)
        return self._pass_on(lost)

    # ── as time passes ────────────────────────────────────────────────────────────────────────

    def follow(self, now: Nanos) -> list[Effect]:
        """See to it that this broker has a table and a slot, and that the table is true."""
        member = self._around.member
        if member is None:
            self._ask_at = None
            self._missing.clear()
            return []
        row = self._table.granted(member.uid)
        if row is not None:
            self.slot = row.slot
        self._note_missing(member, now)
        effects = self._report(now)
        is_held = row is not None and row == MemberRow(row.slot, member, PROTOCOL_VERSION)
        if is_held and self._table.fits:
            self._ask_at, self._asked = None, 0
        elif is_held and self._ask_at is None:
            self._ask_at = now + ASK_NS  # the steward of another arc makes its table
        elif self._ask_at is None or now >= self._ask_at:
            effects += self._ask(member, now)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when to ask or to report again, or None."""
        due = min(self._missing.values(), default=None)
        if due is None or self._ask_at is None:
            return due if self._ask_at is None else self._ask_at
        return min(due, self._ask_at)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _adopt(self, table: MemberTable, now: Nanos, *, follows: bool = False) -> list[Effect]:
        before = set(self._table.live)
        self._table.put(table, now, follows=follows)
        for uid in [*self._around.gone]:
            if uid in before or self._table.granted(uid) is None:
                self._table.let_go(uid)
            else:
                self._around.note_there(uid)  # others have seen it since
        self._comparison.touch(now)
        self._ask_at, self._asked = None, 0
        return self._spread.strike(before.difference(self._table.live), now)

    def _ask(self, member: Member, now: Nanos) -> list[Effect]:
        """Ask for what is missing: the table, or the slot."""
        table, attempt = self._table, self._asked
        self._asked += 1
        pause = min(ASK_NS << min(attempt, 8), LONGEST_ASK_NS)
        effects: list[Effect] = []
        near = [m.uid for m in (self._around.right, self._around.left) if m is not None]
        if near and (table.table is None or attempt):
            effects += self._pull(near[attempt % len(near)], now)
        if table.table is not None:
            own = table.row(member.uid)
            wish = own.slot if own is not None else self.slot
            wanted = SlotWanted(member, PROTOCOL_VERSION, wish, 0)
            if self._steward.is_in_office:
                effects += self._steward.want(wanted, now)
            else:
                effects += self._pass_on(wanted, attempt)
        self._ask_at = now + pause
        return effects

    def _note_missing(self, member: Member, now: Nanos) -> None:
        """Note whose row stands where nobody is, from here to the right neighbour.

        The first in the cluster looks to the left as well, where no member stands.
        """
        right, left = self._around.right, self._around.left
        end = member.ring_id if right is None else right.ring_id
        is_first = left is not None and self._steward.is_first
        begin = left.ring_id if left is not None and is_first else member.ring_id
        missing = {}
        for uid, row in self._table.live.items():
            place = row.member.ring_id
            is_here = place == member.ring_id
            is_before = is_first and between(begin, place, member.ring_id)
            is_after = between(member.ring_id, place, end)
            if uid != member.uid and (is_here or is_before or is_after):
                due = self._missing.get(uid, now + GRACE_NS)
                is_gone = uid in self._around.gone and uid not in self._reported
                missing[uid] = min(due, now) if is_gone else due
        self._missing = missing
        self._reported &= missing.keys()

    def _report(self, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        for uid, due in self._missing.items():
            if due <= now:
                self._missing[uid] = now + REPORT_NS
                self._reported.add(uid)
                lost = MemberLost(self._table.live[uid].member, 0)
                if self._steward.is_in_office:
                    effects += self._steward.lose(lost, now)
                else:
                    effects += self._pass_on(lost)
        return effects

    def _pass_on(self, message: SlotWanted | MemberLost, attempt: int = 0) -> list[Effect]:
        """Pass on what is for the steward; who asks again tries another way.

        A broker that stands first and is not in office yet has nobody to pass it on to.
        """
        member = self._around.member
        if member is None or message.hops >= MAX_HOPS:
            return []
        before = before_in(self._table.arc, member.ring_id, self._around.linked)
        if not before:
            return []
        row = sorted(before, key=lambda uid: (before[uid], uid))
        onward = msgspec.structs.replace(message, hops=message.hops + 1)
        return [Send(row[attempt % len(row)], onward)]
