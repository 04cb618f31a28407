"""The plans of one broker, and which of them an event follows."""

from __future__ import annotations

from ges.gateways.cluster import Cluster
from ges.routing.arc_plan import ArcPlan, TowardPlan, toward, whole_ring
from ges.routing.holding import Holding
from ges.routing.mask_plan import MaskPlan, Split
from ges.routing.outlets import EventLines
from ges.routing.plan import Onward, Plan
from ges.wire.event_flags import RECALLED_FLAG
from ges.wire.events import Duty
from overlay.ids import LinkClass, Peer


class Plans:
    """Destinations, or arcs of the ring while no mask is sure.

    The broker where an event is published decides. A secure event goes by destinations alone.
    """

    def __init__(self, lines: EventLines, holding: Holding, cluster: Cluster) -> None:
        """``holding`` knows who is linked, and for whom events wait."""
        self.here: int | None = None  #: this broker's ring id; None: it is not on the ring
        self.cluster = cluster
        self.masks = {each: MaskPlan(cluster, each, lines) for each in LinkClass}
        self.arcs = ArcPlan()
        self._secure = ArcPlan()  #: nothing but answers to a place goes there
        self._toward = {
            each: TowardPlan(self._secure if each.is_secret else self.arcs) for each in LinkClass
        }
        self._lines = lines
        self._holding = holding

    def lay(self) -> None:
        """Lay all plans over the links that are up and those that are waited for."""
        holding, secure = self._holding, LinkClass.SECURE
        if self.here is None:
            self.arcs.update(0, {})
            self._secure.update(0, {})
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
        self.arcs.update(self.here, by_arc, beside)
        up = {uid for uid, link_class in self._lines if link_class is secure}
        places = {uid: place for uid, place in linked.items() if uid in up}
        self._secure.update(self.here, holding.places(secure) | places)

    def _is_over(self, peer: Peer) -> bool:
        """Say whether a member's link is one to a later life of it, whose place is not known yet.

        The ring hears of such a link after its stream has gone on, and it may have no place at all.
        """
        line = self._lines.get((peer.uid, LinkClass.NORMAL))
        return line is not None and line.peer.incarnation > peer.incarnation

    @property
    def own_bit(self) -> int:
        """This broker, as a mask; nobody while it has no slot."""
        slot = self.cluster.slot
        return 1 << slot if slot is not None else 0

    def all_reached(self, link_class: LinkClass) -> int:
        """Return the members and units that links of a class lead to, as a mask."""
        if link_class.is_secret:
            table = self.cluster.tables.get(link_class)
            return table.reached if table is not None else 0
        return self.cluster.known

    @property
    def by_destination(self) -> bool:
        """Events that are published here name the brokers that they are for."""
        return self.cluster.is_for_all

    def of(self, duty: Duty, flags: int, link_class: LinkClass) -> Plan:
        """Return the plan of an event with this duty and flags, over links of that class."""
        if duty.shape:
            return self.masks[link_class]
        return self._toward[link_class] if flags & RECALLED_FLAG else self.arcs

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

    def express_onward(self, duty: Duty) -> Onward:
        """Return whom to pass an express event to."""
        onward = self.onward(duty, 0, LinkClass.EXPRESS)
        return onward if duty.shape else onward + self.arcs.beside

    def is_for_us(self, duty: Duty) -> bool:
        """Say whether an event that has come with this duty is delivered here."""
        if not duty.shape:
            return True
        slot = self.cluster.slot
        return slot is not None and bool(duty.destinations >> slot & 1)

    def is_led_here(self, duty: Duty) -> bool:
        """Say whether an event that was led toward a place has come there."""
        return self.here is not None and duty.target == toward(self.here).target
