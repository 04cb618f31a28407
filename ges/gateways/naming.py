"""How one broker names the destinations of events: members by slot, other units by node.

Names change when units are split or folded, and when a slot is granted anew. Two brokers may know
of that at different times. So nothing that is published names anybody (:mod:`ges.routing.plans`)
until all brokers of the context have taken the table of clusters. Of larger units it is not heard
when all inside of them know what has changed, so there it takes some seconds. A broker that had a
slot here before a split is remembered by the unit that it is in now, for what is under way.
"""

from __future__ import annotations

from collections.abc import Mapping

from ges.units.nodes import Nodes
from ges.wire.unit_messages import MemberRow
from overlay.ids import Nanos, nanos

REST_NS = nanos(5.0)  #: so long after names have changed all that follows from it is known


class Naming:
    """The names of one moment, and what has become of those of before."""

    def __init__(self) -> None:
        self.slot: int | None = None  #: of this broker; None: it has none, or is not on the ring
        self.slots: dict[str, int] = {}  #: of the members, by uid
        self.uids: dict[int, str] = {}  #: of the members, by slot
        self.places: dict[int, str] = {}  #: uids of the members, by ring id
        self.nodes = Nodes()  #: the units that this broker can name
        self.own_units = 0  #: those that it is in, as a mask ...
        self.own = 0  #: ... and the broker itself
        self.known = 0  #: members and other units, as a mask
        self.changes = 0  #: grows when somebody is named otherwise than before
        self.is_sure = True  #: all brokers name destinations alike
        self._rest_at: Nanos | None = None
        #: A member has another slot, or larger units have changed: of that no word of all comes.
        self._has_moved = False
        self._moved: dict[int, int] = {}  #: slots of those who are in other units now, with these

    @property
    def rest_at(self) -> Nanos | None:
        """Names have changed of late: when that is long ago; None: it is."""
        return self._rest_at

    def now_at(self, slots: int) -> int:
        """Return the units in which those stand now that had these slots, as a mask."""
        return sum(1 << node for node in {n for s, n in self._moved.items() if slots >> s & 1})

    def follow(
        self, members: Mapping[str, MemberRow], slot: int | None, nodes: Nodes, now: Nanos
    ) -> bool:
        """Take members and units as they are now; says whether somebody is named otherwise."""
        slots = {uid: row.slot for uid, row in members.items()}
        has_moved = any(slots.get(uid, before) != before for uid, before in self.slots.items())
        has_moved = has_moved or nodes.above_clusters != self.nodes.above_clusters
        is_renamed = nodes is not self.nodes or has_moved
        if is_renamed:
            self.changes += 1
            if self.nodes.arcs or nodes.arcs:
                self._rest_at = now + REST_NS
                self.is_sure = False
                self._has_moved |= has_moved
        moved = dict(self._moved)
        for place, uid in self.places.items():
            node = nodes.at(place)
            if node is not None and uid not in members:
                moved[self.slots[uid]] = node
        self.slot, self.slots, self.nodes = slot, slots, nodes
        self.uids = {number: uid for uid, number in slots.items()}
        self.places = {row.member.ring_id: uid for uid, row in members.items()}
        self._moved = {
            number: node
            for number, node in moved.items()
            if number not in self.uids and nodes.others >> node & 1
        }
        self.own_units = nodes.own_units
        self.own = self.own_units | (1 << slot if slot is not None else 0)
        self.known = sum(1 << number for number in self.uids) | nodes.others
        return is_renamed

    def expire(self, now: Nanos, *, are_taken: bool) -> None:
        """End the doubt if all have the tables of units (``are_taken``), or time is over."""
        if self._rest_at is None:
            return
        if self._rest_at <= now:
            self._rest_at, self._has_moved, self.is_sure = None, False, True
        elif are_taken and not self._has_moved:
            self.is_sure = True
