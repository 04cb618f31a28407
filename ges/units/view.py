"""What the rules of units see of the ring, at one broker."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Protocol

from ges.telling.part import RingView
from ges.units.table import ClusterTable
from ges.wire.unit_messages import MemberRow
from overlay.ids import Nanos, Peer
from overlay.machine import Effect, Input
from ring.geometry import clockwise
from ring.joining.guide import Guide
from ring.wire.messages import Member

GONE_KEPT = 128  #: brokers seen to die or leave


class LinkedRing(RingView, Protocol):
    """What is seen of the ring node here."""

    @property
    def linked(self) -> Mapping[str, Member]:
        """Members this broker has links to, or ways round failed links, by uid."""

    def be_guided(self, guide: Guide) -> None:
        """Let the units say where newcomers are to stand."""

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take a command."""


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
