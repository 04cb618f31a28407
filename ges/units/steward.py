"""The steward of a cluster: how slots are granted, and when the cluster is to be split.

The steward is the broker that stands first on the arc of its cluster (:mod:`ges.units.office`). It
grants slots to those that stand in that arc, and lets those of the dead rest.

A cluster is *to be split* where it has 7/8 of the members that it may have; with a limit below 8
where somebody wants a slot and all are taken by brokers that live. Then the steward says so to that
of the context (:mod:`ges.units.planner`). While there is one cluster alone, events name their
brokers; so a second before, the table says that some broker waits, and events go to all from then.
"""

from __future__ import annotations

from typing import cast

import msgspec

from ges.telling.spread import Spread
from ges.units.facts import TookOffice
from ges.units.office import PATIENCE_NS, AnyTable, Office, OnArc
from ges.units.table import ClusterTable, arc_of, founded, is_sound
from ges.wire.telling_messages import Kind
from ges.wire.unit_messages import (
    MemberChange,
    MemberLost,
    MemberRow,
    MemberTable,
    SlotWanted,
    StewardHandover,
    Waiting,
)
from overlay.circular import is_after
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Notify
from overlay.wire.frames import PROTOCOL_VERSION
from ring.wire.messages import Member

__all__ = ["BATCH_NS", "MAX_WANTED", "PATIENCE_NS", "OnArc", "Steward"]

BATCH_NS = nanos(0.02)  #: what is wanted in this time is granted at once
WAITING_NS = nanos(9.0)  #: longer than two questions of a broker for which there is no slot
WANTS_NS = nanos(6.0)  #: who was refused asks again within this, or wants no slot any more
SETTLE_NS = nanos(1.0)  #: from when events go to all to the first split
MAX_WANTED = 1024  #: brokers that want a slot at once; others ask again
SMALL_LIMIT = 8  #: clusters with a limit below this are split only when they are full


class Steward:
    """What a broker does as steward, and to become it."""

    def __init__(self, around: OnArc, table: ClusterTable, spread: Spread) -> None:
        self._around = around
        self._table = table
        self._spread = spread
        self._office = Office(around, table, self)
        self._wanted: dict[str, SlotWanted] = {}
        self._lost: dict[str, Member] = {}
        self._grants_at: Nanos | None = None
        #: The table says that brokers wait for slots: until when, if none asks in vain again.
        self._waits_until: Nanos | None = None
        self._refused: dict[str, tuple[Member, Nanos]] = {}  #: those that did, and when
        self._splits_from: Nanos | None = None  #: not before, if at all

    @property
    def is_first(self) -> bool:
        """Whether this broker stands first on the arc."""
        return self._office.is_first

    @property
    def is_in_office(self) -> bool:
        """Whether this broker may grant slots."""
        return self._office.is_in_office

    def follow(self, now: Nanos) -> list[Effect]:
        """Take office or hand it over, as the ring has it."""
        return self._office.follow(now)

    def on_handover(self, handover: StewardHandover, now: Nanos) -> list[Effect]:
        """Go on with the table of a steward that this broker has displaced."""
        if not is_sound(handover.table):
            return []
        return self._office.on_handover(handover, handover.table, now)

    def want(self, wanted: SlotWanted, now: Nanos) -> list[Effect]:
        """Grant a broker a slot soon; only for a steward in office."""
        if not self._table.arc.holds(wanted.member.ring_id):
            return []  # it asks again, where it belongs
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
            if has_room:
                self._refused.pop(each.member.uid, None)
            else:
                is_refused = True
                if len(self._refused) < MAX_WANTED:
                    self._refused[each.member.uid] = each.member, now
            if row is not None:
                rows.append(row)
        if is_refused:
            self._waits_until = now + WAITING_NS
        if rows or (is_refused and self._table.is_for_all):
            waiting = Waiting.BROKERS if is_refused else self._table.waiting
            effects += self._change(rows, now, waiting=waiting)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when to grant, or when the patience with the steward before ends; or None."""
        ends = (
            self._office.next_deadline(),
            self._waits_until,
            self._grants_at,
        )
        return min((end for end in ends if end is not None), default=None)

    # ── the size of the cluster ───────────────────────────────────────────────────────────────

    def places(self, now: Nanos) -> tuple[list[int], bool]:
        """Return where those stand that have a slot or want one, from the left.

        And whether some of those have no room, however long they wait.
        """
        table, arc = self._table, self._table.arc
        self._refused = {
            uid: (member, at)
            for uid, (member, at) in self._refused.items()
            if now < at + WANTS_NS
            and table.granted(uid) is None
            and uid not in self._around.gone
            and arc.holds(member.ring_id)
        }
        places = {row.member.ring_id for row in table.members}
        waiting = {member.ring_id for member, _ in self._refused.values()} - places
        found = sorted(places | waiting, key=arc.at)
        return found, bool(waiting) and len(found) > table.limit

    def wants_split(self, size: int, *, urgent: bool) -> bool:
        """Say whether a cluster of this size is to be split, rather than left as it is."""
        limit = self._table.limit
        return urgent or (limit >= SMALL_LIMIT and size >= limit * 7 // 8)

    def prepare_split(self, now: Nanos, *, is_alone: bool) -> tuple[bool, list[Effect]]:
        """Say whether the cluster may be split now; if it is alone, events must go to all first."""
        if not is_alone:
            return True, []
        effects: list[Effect] = []
        if self._table.is_for_all:
            self._splits_from = now + SETTLE_NS
            self._waits_until = self._splits_from + WAITING_NS
            effects = self._change([], now, waiting=Waiting.SPLIT)
        elif self._splits_from is None:
            self._splits_from = now + SETTLE_NS
        return now >= (self._splits_from or 0), effects

    # ── as the one in office ──────────────────────────────────────────────────────────────────

    def found(self, now: Nanos) -> list[Effect]:
        """This broker is alone, and has the first slot."""
        member = self._around.member
        assert member is not None, "only for those who have a place"
        row = MemberRow(0, member, PROTOCOL_VERSION)
        self._table.put(founded(row, self._table.arc), now)
        return []

    def take(self, before: str, now: Nanos, *, is_handover: bool) -> list[Effect]:
        """Go on with the table, or make one where there is none."""
        if self._table.table is None:
            return self.found(now)
        waiting = self._table.table.waiting
        if not self._table.covers:  # brokers that come with it have no slot here yet
            waiting = Waiting.BROKERS
        elif waiting is Waiting.SPLIT and not self._table.fits:  # it has been split
            waiting = Waiting.NOBODY
        self._waits_until = now + WAITING_NS if waiting else None
        self._splits_from = None
        rows = self._table.lingering  # they need not ask
        effects = self._change(rows, now, takes_over=not is_handover, waiting=waiting)
        return [Notify(TookOffice(before, is_handover)), *effects]

    def join(self, table: AnyTable, now: Nanos) -> list[Effect]:
        """Put the members of another cluster into this one; where slots clash they ask anew."""
        arc, held = arc_of(table), self._table
        known = held.table.rows if held.table is not None else ()
        taken = {row.slot for row in known}
        rows: list[MemberRow] = []
        for row in cast("MemberTable", table).rows:
            fits = row.slot < held.limit and row.slot not in taken
            has_room = len(held.members) + len(rows) < held.limit
            is_new = held.row(row.uid) is None and arc.holds(row.member.ring_id)
            if is_new and fits and has_room and not row.resting:
                rows.append(row)
        return self._change(rows, now) if rows else []

    def handover(self) -> StewardHandover | None:
        """Return the table for the first broker."""
        return None if self._table.table is None else StewardHandover(self._table.table)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _schedule(self, now: Nanos) -> None:
        if self._grants_at is None:
            self._grants_at = now + BATCH_NS

    def _end_waiting(self, now: Nanos) -> list[Effect]:
        """Nobody has asked in vain for a while: nobody waits for a slot any more."""
        if self._waits_until is None or now < self._waits_until:
            return []
        self._waits_until = self._splits_from = None
        if not self.is_in_office or self._table.is_for_all:
            return []
        return self._change([], now, waiting=Waiting.NOBODY)

    def _change(
        self,
        rows: list[MemberRow],
        now: Nanos,
        *,
        takes_over: bool = False,
        waiting: Waiting | None = None,
    ) -> list[Effect]:
        """Put rows into the table, and tell all."""
        base, before = self._table.digest, set(self._table.live)
        if waiting is None:
            waiting = self._table.waiting
        if waiting and self._waits_until is None:
            self._waits_until = now + WAITING_NS  # so that it ends, whoever it was that waited
        uid = self._around.peer.uid
        table = self._table.changed(rows, uid, takes_over=takes_over, waiting=waiting)
        self._table.put(table, now, follows=True)
        digest, told = self._table.digest, tuple(rows)
        change = MemberChange(
            base, digest, table.epoch, table.steward, told, waiting, table.lo, table.hi
        )
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
