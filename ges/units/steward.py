"""The steward of the cluster: who it is, and how slots are granted.

The steward is the broker that stands first on the arc of its cluster. With one cluster the arc is
the whole ring from id 0, so it is the broker with the smallest ring id, and each broker sees by its
left neighbour whether it is the one. The founder of a ring has id 0 and is steward while it lives.

* A newcomer that stands before the steward is handed the table over, and is steward from then on.
  The table goes to the smallest ring id linked, and on from there, until it is with the first.
* Where the steward is dead or gone, or does not hand over within a second, the first broker takes
  over: 64 epochs later, so that what a straggler grants does not count.

So two brokers may grant for a moment; but at rest there is one table, in which each slot is
granted once, and who is not in it asks again (:mod:`ges.units.membership`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ges.units.facts import TookOffice
from ges.units.spread import Spread, Surroundings
from ges.units.table import ClusterTable, digest_of, founded, is_sound
from ges.wire.unit_messages import (
    Kind,
    MemberChange,
    MemberLost,
    MemberRow,
    SlotWanted,
    StewardHandover,
)
from overlay.circular import is_after
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Notify, Send
from overlay.wire.frames import PROTOCOL_VERSION
from ring.wire.messages import Member

PATIENCE_NS = nanos(1.0)  #: a broker that stands first waits so long for the table
BATCH_NS = nanos(0.02)  #: what is wanted in this time is granted at once
WAITING_NS = nanos(70.0)  #: longer than two questions of a broker for which there is no slot
MAX_WANTED = 1024  #: brokers that want a slot at once; others ask again


class OnArc(Surroundings, Protocol):
    """What a steward sees of its arc, beside what all brokers see."""

    @property
    def left(self) -> Member | None:
        """The left neighbour; None: this broker is alone."""

    @property
    def gone(self) -> Collection[str]:
        """Uids of brokers that were seen to die or leave."""


class Steward:
    """What a broker does as steward, and to become it."""

    def __init__(self, around: OnArc, table: ClusterTable, spread: Spread) -> None:
        self._around = around
        self._table = table
        self._spread = spread
        self._first_since: Nanos | None = None  #: first on the arc, and not in office
        self._handed_to: str | None = None
        self._wanted: dict[str, SlotWanted] = {}
        self._lost: dict[str, Member] = {}
        self._grants_at: Nanos | None = None
        self._refused_at: Nanos | None = None  #: somebody asked for whom there was no slot

    @property
    def is_first(self) -> bool:
        """Whether this broker stands first on the arc."""
        member, left = self._around.member, self._around.left
        return member is not None and (left is None or left.ring_id > member.ring_id)

    @property
    def is_in_office(self) -> bool:
        """Whether this broker may grant slots."""
        return self._table.steward == self._around.peer.uid and self.is_first

    def follow(self, now: Nanos) -> list[Effect]:
        """Take office or hand it over, as the ring has it."""
        member, left, table = self._around.member, self._around.left, self._table
        if member is None:
            return []
        if not self.is_first:
            self._first_since = None
            return self._hand_over() if table.steward == member.uid else []
        self._handed_to = None
        if table.table is None:
            if left is None:
                table.put(founded(MemberRow(0, member, PROTOCOL_VERSION)), now)
            return []  # else a neighbour has one
        if table.steward == member.uid:
            self._first_since = None
            return []
        if self._first_since is None:
            self._first_since = now
        is_gone = left is None or table.steward in self._around.gone
        if not is_gone and now < self._first_since + PATIENCE_NS:
            return []
        return self._take_office(now, is_handover=False)

    def on_handover(self, handover: StewardHandover, now: Nanos) -> list[Effect]:
        """Go on with the table of a steward that this broker has displaced.

        The table has been learned before, if it counts.
        """
        table = handover.table
        is_known = is_sound(table) and digest_of(table) == self._table.digest
        if not is_known or self.is_in_office:
            return []
        if not self.is_first:
            onward = self._towards_first()
            return [] if onward is None else [Send(onward, handover)]
        return self._take_office(now, is_handover=True)

    def want(self, wanted: SlotWanted, now: Nanos) -> list[Effect]:
        """Grant a broker a slot soon; only for a steward in office."""
        if wanted.member.uid in self._wanted or len(self._wanted) < MAX_WANTED:
            self._wanted[wanted.member.uid] = wanted
            self._schedule(now)
        return []

    def lose(self, lost: MemberLost, now: Nanos) -> list[Effect]:
        """Let the slot of a broker rest soon; only for a steward in office."""
        if self._is_lost(self._table.live.get(lost.member.uid), lost.member):
            self._lost[lost.member.uid] = lost.member
            self._schedule(now)
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Grant what was wanted."""
        effects = self._end_waiting(now)
        if self._grants_at is None or now < self._grants_at:
            return effects
        self._grants_at = None
        wanted, lost = self._wanted, self._lost
        self._wanted, self._lost = {}, {}
        if not self.is_in_office:
            return effects  # who wants something asks again
        gone = [
            msgspec.structs.replace(row, resting=True)
            for uid, member in lost.items()
            if self._is_lost(row := self._table.live.get(uid), member) and row is not None
        ]
        if gone:
            effects += self._change(gone, now)
        rows: list[MemberRow] = []
        is_refused = False
        for each in wanted.values():
            row, has_room = self._granted(each, {row.slot for row in rows}, now)
            is_refused |= not has_room
            if row is not None:
                rows.append(row)
        if is_refused:
            self._refused_at = now
        if rows or (is_refused and self._table.is_for_all):
            effects += self._change(rows, now, waiting=is_refused or not self._table.is_for_all)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when to grant, or when the patience with the steward before ends; or None."""
        ends = (
            None if self._first_since is None else self._first_since + PATIENCE_NS,
            None if self._refused_at is None else self._refused_at + WAITING_NS,
            self._grants_at,
        )
        return min((end for end in ends if end is not None), default=None)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _schedule(self, now: Nanos) -> None:
        if self._grants_at is None:
            self._grants_at = now + BATCH_NS

    def _end_waiting(self, now: Nanos) -> list[Effect]:
        """Nobody has asked in vain for a while: nobody waits for a slot any more."""
        if self._refused_at is None or now < self._refused_at + WAITING_NS:
            return []
        self._refused_at = None
        if not self.is_in_office or self._table.is_for_all:
            return []
        return self._change([], now, waiting=False)

    def _hand_over(self) -> list[Effect]:
        table, onward = self._table.table, self._towards_first()
        if onward is None or table is None or self._handed_to == onward:
            return []
        self._handed_to = onward
        return [Send(onward, StewardHandover(table))]

    def _towards_first(self) -> str | None:
        """Return who has the smallest ring id of those linked, if that is smaller than here."""
        member, linked = self._around.member, self._around.linked
        if member is None or not linked:
            return None
        uid = min(linked, key=lambda each: (linked[each], each))
        return uid if linked[uid] < member.ring_id else None

    def _take_office(self, now: Nanos, *, is_handover: bool) -> list[Effect]:
        self._first_since = None
        before, waiting = self._table.steward or "", not self._table.is_for_all
        self._refused_at = now if waiting else None
        rows = self._table.lingering  # they need not ask
        effects = self._change(rows, now, takes_over=not is_handover, waiting=waiting)
        return [Notify(TookOffice(before, is_handover)), *effects]

    def _change(
        self,
        rows: list[MemberRow],
        now: Nanos,
        *,
        takes_over: bool = False,
        waiting: bool | None = None,
    ) -> list[Effect]:
        """Put rows into the table, and tell all."""
        base, before = self._table.digest, set(self._table.live)
        if waiting is None:
            waiting = not self._table.is_for_all
        uid = self._around.peer.uid
        table = self._table.changed(rows, uid, takes_over=takes_over, waiting=waiting)
        self._table.put(table, now, follows=True)
        digest = self._table.digest
        change = MemberChange(base, digest, table.epoch, table.steward, tuple(rows), waiting)
        effects = self._spread.strike(before.difference(self._table.live), now)
        return [*effects, *self._spread.tell(Kind.MEMBERS, change, now)]

    def _granted(
        self, wanted: SlotWanted, granted: set[int], now: Nanos
    ) -> tuple[MemberRow | None, bool]:
        """Return the row that a broker gets, None if it gets no new one; and whether it has one."""
        member = wanted.member
        known = self._table.row(member.uid)
        if known is not None and is_after(known.member.incarnation, member.incarnation):
            return None, True
        slot = self._table.free_slot(member, wanted.wish, now, granted)
        if slot is None:
            return None, False
        row = MemberRow(slot, member, wanted.version)
        return row if row != known else None, True

    def _is_lost(self, row: MemberRow | None, member: Member) -> bool:
        """Say whether a row is of just that life and place; a later one may be back."""
        if row is None or is_after(row.member.incarnation, member.incarnation):
            return False
        return row.member.ring_id == member.ring_id and row.uid != self._around.peer.uid
