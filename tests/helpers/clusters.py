"""A cluster as routing sees it, put together by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from ges.delivery.choosing import Choosing
from ges.delivery.realms import Realms
from ges.delivery.sharing import Sharing
from ges.gateways.graph import Graph, Link
from ges.gateways.next_hops import Moves, NextHops
from ges.matching.asks import ask_for
from ges.profiles.group_index import GroupIndex, group_of
from ges.statements.held import Statements
from ges.wire.matter import Matter
from overlay.ids import LinkClass


class HandCluster:
    """Members by slot, and the links between them; all links of all classes cost the same."""

    def __init__(self) -> None:
        """Begin without a slot: events go by arcs of the ring."""
        self.slot: int | None = None
        self.slots: dict[str, int] = {}
        self.uids: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self.tables: dict[LinkClass, NextHops] = {each: NextHops(0) for each in LinkClass}
        self.version = 0
        self.wanted: dict[bytes, int] = {}  #: masks by topic
        self.groups = GroupIndex()  #: queue groups
        self._moves: dict[LinkClass, Moves] = {}

    @property
    def is_for_all(self) -> bool:
        """Every broker has a slot."""
        return self.slot is not None

    own_units = 0  #: there are none
    levels = 1  #: there are no other units
    namings = 0

    @property
    def known(self) -> int:
        """The members, as a mask."""
        return sum(1 << slot for slot in self.uids)

    @property
    def own(self) -> int:
        """This broker, as a mask."""
        return 1 << self.slot if self.slot is not None else 0

    @property
    def address(self) -> int | None:
        """This broker's packed address."""
        return self.slot

    def own_at(self, level: int) -> int | None:
        """There are no units above."""

    def gate(self, node: int, link_class: LinkClass, without: str = "") -> str | None:
        """There are no other units."""

    def node_at(self, place: int) -> int | None:
        """There are no other units."""

    def common_level(self, place: int) -> int:
        """All are one cluster."""
        return 1

    def now_at(self, slots: int) -> int:
        """Nobody has moved."""
        return 0

    def toward(self, address: int) -> int:
        """Return the slot that is an address."""
        return 1 << address

    def found(self, own: str, places: Mapping[str, int]) -> None:
        """Let these be the members, by uid with their ring ids; slots go by the order."""
        self.slots = {uid: slot for slot, uid in enumerate(places)}
        self.uids = {slot: uid for uid, slot in self.slots.items()}
        self.places = {place: uid for uid, place in places.items()}
        self.slot = self.slots[own]
        self.tables = {each: NextHops(self.slot) for each in LinkClass}
        self.version += 1

    def drop(self, uid: str) -> None:
        """A member has died."""
        slots = dict(self.slots)
        del self.uids[slots.pop(uid)]
        self.slots = slots
        self.places = {place: each for place, each in self.places.items() if each != uid}
        self.version += 1

    def link(
        self, pairs: Iterable[tuple[str, str]], classes: Iterable[LinkClass] = tuple(LinkClass)
    ) -> None:
        """Let there be these links, and no others, of some classes."""
        edges = [Link(self.slots[a], self.slots[b], 1000, at) for at, (a, b) in enumerate(pairs)]
        for link_class in classes:
            self._moves[link_class] = self.tables[link_class].update(Graph(edges))
        self.version += 1

    def join(self, queue: str, text: str, *uids: str, by: int = 1) -> int:
        """Let members have clients in a queue group, or with -1 no more; returns its key."""
        ask = ask_for(text, group=queue)
        for uid in uids:
            for link_class in LinkClass:
                self.groups.count(link_class, ask, self.slots[uid], by)
        return group_of(ask).key

    def take_moves(self) -> Mapping[LinkClass, Moves]:
        """Return, once, what has moved."""
        moves, self._moves = self._moves, {}
        return moves

    def mask_of(self, matter: Matter) -> int:
        """Return who wants a topic."""
        return self.wanted.get(matter.topic, 0)


def realms_alone() -> Realms:
    """Return the realms of a broker whose overlay is one cluster."""
    return Realms(HandCluster())


def sharing_alone() -> Sharing:
    """Return the queue groups of a broker that has no slot."""
    return Sharing(Choosing(HandCluster(), GroupIndex(), Statements(), random.Random(1)), Counter())
