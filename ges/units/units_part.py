"""The part of a broker's machine that knows its cluster: addresses, and what all members are told.

Other parts tell things to all members by ``spread``, and have what they hold compared by
``comparison``; ``members`` says who they are.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from typing import Protocol

from ges.topology.part import MessageHandler, Part, RingView
from ges.units.address import Address, in_cluster
from ges.units.facts import Addressed, Unaddressed
from ges.units.held import Comparison
from ges.units.membership import Membership
from ges.units.spread import Spread, Surroundings
from ges.units.steward import Steward
from ges.units.table import ClusterTable
from ges.wire.unit_messages import (
    Held,
    Kind,
    MemberChange,
    MemberLost,
    MemberRow,
    Members,
    MembersWanted,
    SlotWanted,
    StewardHandover,
    TellTaken,
    Told,
)
from overlay.ids import Nanos, Peer
from overlay.machine import (
    CloseLink,
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    Notify,
)
from overlay.multigraph.weights import LinkKey
from ring.facts import Confirmed, Departed
from ring.geometry import clockwise
from ring.wire.messages import Member

GONE_KEPT = 128  #: brokers seen to die or leave


class LinkedRing(RingView, Protocol):
    """What is seen of the ring node here."""

    @property
    def linked(self) -> Mapping[str, Member]:
        """Members this broker has links to, or ways round failed links, by uid."""


class View:
    """What the rules of the cluster see of the ring."""

    def __init__(self, ring: LinkedRing, normal: Mapping[str, Peer], table: ClusterTable) -> None:
        self._ring = ring
        self._normal = normal
        self._table = table
        self._gone: OrderedDict[str, None] = OrderedDict()

    @property
    def peer(self) -> Peer:
        """This broker."""
        return self._ring.peer

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""
        return self._ring.member

    @property
    def left(self) -> Member | None:
        """The left neighbour; None: this broker is alone."""
        return next(iter(self._ring.left), None)

    @property
    def right(self) -> Member | None:
        """The right neighbour; None: this broker is alone."""
        return next(iter(self._ring.right), None)

    @property
    def linked(self) -> Mapping[str, int]:
        """Members at the other ends of normal links: uid -> ring id."""
        normal = self._normal
        return {uid: m.ring_id for uid, m in self._ring.linked.items() if uid in normal}

    @property
    def live(self) -> Mapping[str, MemberRow]:
        """Members of the cluster by uid."""
        return self._table.live

    @property
    def gone(self) -> Collection[str]:
        """Uids of brokers that were seen to die or leave, and are not linked again."""
        return self._gone.keys()

    @property
    def neighbours(self) -> list[str]:
        """The nearest broker linked on each side."""
        member, linked = self.member, self.linked
        if member is None or not linked:
            return []
        order = sorted(linked, key=lambda uid: clockwise(member.ring_id, linked[uid]))
        return list(dict.fromkeys((order[-1], order[0])))

    def note_gone(self, uid: str) -> None:
        """A broker was seen to die or leave."""
        self._gone[uid] = None
        if len(self._gone) > GONE_KEPT:
            self._gone.popitem(last=False)

    def note_there(self, uid: str) -> None:
        """A broker is there."""
        self._gone.pop(uid, None)


class UnitsPart(Part):
    """The cluster, as one broker takes part in it."""

    def __init__(self, ring: LinkedRing, normal: Mapping[str, Peer]) -> None:
        """``normal``: who has normal links to here, by uid, as it is now."""
        self._table = ClusterTable()
        self._view = View(ring, normal, self._table)
        self.spread = Spread(self._view)
        self.comparison = Comparison(ring.peer.uid)
        self._steward = Steward(self._view, self._table, self.spread)
        self._membership = Membership(
            self._view, self._table, self._steward, self.spread, self.comparison
        )
        self.spread.register(Kind.MEMBERS, MemberChange, self._membership.on_change)
        self.comparison.register(Kind.MEMBERS, self._membership)
        self._is_touched = False
        self._told: Address | None = None
        self._is_without = False  #: and that has been told

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def address(self) -> Address | None:
        """This broker's address; None: it has none, or is not on the ring."""
        slot = self.slot
        return in_cluster(slot) if slot is not None else None

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none, or is not on the ring."""
        row = self._table.live.get(self._view.peer.uid)
        return row.slot if row is not None and self._view.member is not None else None

    @property
    def is_for_all(self) -> bool:
        """Every broker of the overlay has a slot or gets one at once; else some wait for one."""
        return self._table.is_for_all

    @property
    def around(self) -> Surroundings:
        """What this broker sees of the ring and the cluster."""
        return self._view

    def is_gone(self, uid: str) -> bool:
        """Say whether a broker was seen to die or leave, and is not linked again."""
        return uid in self._view.gone

    def has_rested(self, uid: str) -> bool:
        """Say whether a broker has a slot no more: it rests, or somebody else has it."""
        row = self._table.row(uid)
        return row is None or row.resting

    @property
    def members(self) -> Mapping[str, MemberRow]:
        """Members of the cluster by uid, this broker among them."""
        return self._table.live

    @property
    def steward(self) -> str | None:
        """Uid of the broker that has made the table; None before there is one."""
        return self._table.steward

    @property
    def digest(self) -> int:
        """Of the table of members; the same at all at rest, 0 before there is one."""
        return self._table.digest

    @property
    def changes(self) -> int:
        """A number that grows when the table or its members change."""
        return self._table.changes

    @property
    def counters(self) -> Counter[str]:
        """What has befallen this broker so far."""
        return self.spread.counters + self.comparison.counters + self._membership.counters

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Tables and slots, what all are told, and digests."""
        return {
            Told: self._on_told,
            TellTaken: self._on_taken,
            Held: self._on_held,
            MembersWanted: self._on_wanted,
            Members: self._on_members,
            SlotWanted: self._on_slot_wanted,
            MemberLost: self._on_member_lost,
            StewardHandover: self._on_handover,
        }

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Somebody is linked, or no more."""
        if isinstance(event, LinkUp):
            self._view.note_there(event.peer.uid)
        self._is_touched = True
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Somebody is linked no more."""
        self._is_touched = True
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """Wait no more for those that are gone."""
        self._is_touched = True
        match fact:
            case Confirmed(gone) | Departed(gone):
                self._view.note_gone(gone.uid)
                self._table.let_go(gone.uid)
                return self.spread.strike((gone.uid,), now)
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Do what has come due."""
        due = self.next_deadline()
        if due is None or due > now:
            return []
        self._is_touched = True
        self._table.end_lingering(now)
        effects = self.spread.handle_timers(now)
        effects += self.comparison.handle_timers(now)
        effects += self._steward.handle_timers(now)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when something is due next, or None."""
        deadlines = (
            self.spread.next_deadline(),
            self.comparison.next_deadline(),
            self._steward.next_deadline(),
            self._membership.next_deadline(),
            self._table.lingers_until(),
        )
        return min((due for due in deadlines if due is not None), default=None)

    def settle(self, now: Nanos) -> list[Effect]:
        """Follow the ring: who is steward, who is missing, and whether there is a slot for us."""
        if not self._is_touched:
            return []
        self._is_touched = False
        self.comparison.set_neighbours(self._view.neighbours, now)
        effects = self._steward.follow(now)
        effects += self._membership.follow(now)
        return [*effects, *self._tell_address()]

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _tell_address(self) -> list[Effect]:
        address = self.address
        if address is not None:
            self._is_without = False
            before, self._told = self._told, address
            return [Notify(Addressed(address, before))] if address != before else []
        is_out = self._view.member is not None and self._table.is_full
        if not is_out or self._is_without:
            return []
        self._is_without = True
        before, self._told = self._told, None
        return [Notify(Unaddressed(len(self._table.live), before))]

    def _on_told(self, key: LinkKey, told: Told, now: Nanos) -> list[Effect]:
        self._is_touched = True
        return self.spread.on_told(key[0], told, now)

    def _on_taken(self, key: LinkKey, taken: TellTaken, now: Nanos) -> list[Effect]:
        return self.spread.on_taken(key[0], taken, now)

    def _on_held(self, key: LinkKey, held: Held, now: Nanos) -> list[Effect]:
        return self.comparison.on_held(key[0], held, now)

    def _on_wanted(self, key: LinkKey, wanted: MembersWanted, now: Nanos) -> list[Effect]:
        return self._membership.on_wanted(key[0])

    def _on_members(self, key: LinkKey, members: Members, now: Nanos) -> list[Effect]:
        self._is_touched = True
        return self._membership.on_members(key[0], members.table, now)

    def _on_slot_wanted(self, key: LinkKey, wanted: SlotWanted, now: Nanos) -> list[Effect]:
        return self._membership.on_slot_wanted(wanted, now)

    def _on_member_lost(self, key: LinkKey, lost: MemberLost, now: Nanos) -> list[Effect]:
        return self._membership.on_member_lost(lost, now)

    def _on_handover(self, key: LinkKey, handover: StewardHandover, now: Nanos) -> list[Effect]:
        self._is_touched = True
        return self._membership.on_handover(key[0], handover, now)
