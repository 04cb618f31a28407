"""The plans of one broker, and which of them an event follows."""

from __future__ import annotations

from collections.abc import Iterable

from ges.gateways.cluster import Cluster
from ges.routing.arc_plan import ArcPlan, TowardPlan, toward, whole_ring
from ges.routing.flood_plan import FloodPlan
from ges.routing.holding import Holding
from ges.routing.mask_plan import MaskPlan, Split
from ges.routing.outlets import EventLines
from ges.routing.plan import Onward, Plan
from ges.wire.event_flags import FLOOD_FLAG, RECALLED_FLAG
from ges.wire.events import Duty
from overlay.ids import LinkClass, Peer


class Plans:
    """Destinations in the cluster; arcs of the ring, and all secure links, where it is too small.

    The broker where an event is published decides: by destinations if every broker has a slot.
    """

    def __init__(self, lines: EventLines, holding: Holding, cluster: Cluster) -> None:
        """``holding`` knows who is linked, and for whom events wait."""
        self.here: int | None = None  #: this broker's ring id; None: it is not on the ring
        self.cluster = cluster
        self.masks = {each: MaskPlan(cluster, each, lines) for each in LinkClass}
        self.normal = ArcPlan()
        self.secure = ArcPlan()
        self._toward = {each: TowardPlan(self._arcs(each)) for each in LinkClass}
        self.flood = FloodPlan()
        self.has_holes = False  #: a ring neighbour of ours has no secure link to us
        self._lines = lines
        self._holding = holding

    def lay(self) -> None:
        """Lay all plans over the links that are up and those that are waited for."""
        holding, secure = self._holding, LinkClass.SECURE
        held = holding.places(secure)
        links = [uid for uid, link_class in self._lines if link_class is secure]
        self.flood.uids = (*links, *(uid for uid in held if uid not in links))
        self.has_holes = not holding.around <= set(self.flood.uids)
        if self.here is None:
            self.normal.update(0, {})
            self.secure.update(0, {})
            return
        linked = {
            uid: member.ring_id
            for uid, member in holding.linked.items()
            if not self._is_over(member.peer)
        }
        beside = {
            line.peer.uid: linked[line.peer.uid]
            for line in self._lines.declared
            if line.peer.uid in linked
        }
        by_arc = holding.places(LinkClass.NORMAL) | linked
        for uid, member in holding.linked.items():
            if self._lines.needs_name(member.peer):
                by_arc.pop(uid, None)
        for (uid, _), waited in holding.held.items():
            if self._lines.needs_name(waited.peer):
                by_arc.pop(uid, None)
        self.normal.update(self.here, by_arc, beside)
        places = held | linked
        self.secure.update(
            self.here, {uid: places[uid] for uid in self.flood.uids if uid in places}
        )

    def _is_over(self, peer: Peer) -> bool:
        """Say whether a member's link is one to a later life of it, whose place is not known yet.

        The ring hears of such a link after its stream has gone on, and it may have no place at all.
        """
        line = self._lines.get((peer.uid, LinkClass.NORMAL))
        return line is not None and line.peer.incarnation > peer.incarnation

    @property
    def by_destination(self) -> bool:
        """Events that are published here name the brokers that they are for."""
        return self.cluster.is_for_all

    def take_moved(self, link_class: LinkClass) -> Iterable[str]:
        """Return, once, the uids of those that serve other arcs than before over such links."""
        return self._arcs(link_class).take_moved()

    def of(self, duty: Duty, flags: int, link_class: LinkClass) -> Plan:
        """Return the plan of an event with this duty and flags, over links of that class."""
        if duty.shape:
            return self.masks[link_class]
        if flags & FLOOD_FLAG:
            return self.flood
        if flags & RECALLED_FLAG:
            return self._toward[link_class]
        return self._arcs(link_class)

    def onward(self, duty: Duty, flags: int, link_class: LinkClass) -> Onward:
        """Return whom to pass an event to, and the duty of each; nobody while off the ring."""
        return () if self.here is None else self.of(duty, flags, link_class).onward(duty)

    def split(self, duty: Duty, link_class: LinkClass) -> Split:
        """Return whom to pass an event with destinations to, and for whom it has to wait."""
        return self.masks[link_class].split(duty)

    @property
    def whole(self) -> Duty:
        """The duty of this broker for an event that is published here, and is for all."""
        return whole_ring(self.here or 0)

    @staticmethod
    def express_class(duty: Duty) -> LinkClass:
        """Return the class of the plan that an express event with this duty follows."""
        return LinkClass.EXPRESS if duty.shape else LinkClass.NORMAL

    def is_for_us(self, duty: Duty) -> bool:
        """Say whether an event that has come with this duty is delivered here."""
        if not duty.shape:
            return True
        slot = self.cluster.slot
        return slot is not None and bool(duty.destinations >> slot & 1)

    def is_led_here(self, duty: Duty) -> bool:
        """Say whether an event that was led toward a place has come there."""
        return self.here is not None and duty.target == toward(self.here).target

    def _arcs(self, link_class: LinkClass) -> ArcPlan:
        return self.secure if link_class.is_secret else self.normal

    def instead_of_us(self, place: int, duty: Duty, flags: int, link_class: LinkClass) -> Onward:
        """Return who serves now what this broker was to serve when it stood at ``place``."""
        if flags & FLOOD_FLAG or duty == whole_ring(place):  # for everybody, from us on
            return self.onward(self.whole, flags, link_class)
        return self.of(duty, flags, link_class).instead("", place, duty)
