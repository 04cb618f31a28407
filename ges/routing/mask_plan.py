"""To the brokers that want it: an event carries them as a mask, and each goes to one next hop.

For example, an event is for brokers 2, 5 and 9. The next hop to 2 and 9 is 2, and to 5 it is 4. So
2 gets it with the destinations 2 and 9, and 4 gets it with 5. A broker delivers an event if its own
bit is set, and passes on what is for others. So nothing comes twice, and nobody gets an event that
is neither wanted there nor on its way.

Where there is no way to a destination for the moment, the event waits (:mod:`ges.routing.stuck`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ges.gateways.next_hops import Moves, NextHops, bits
from ges.routing.outlets import Lines
from ges.routing.plan import Onward
from ges.wire.events import Duty
from overlay.ids import LinkClass

MAX_CACHED = 16384


class Cluster(Protocol):
    """What routing knows of the members; a :class:`ges.gateways.gateways_part.GatewaysPart`."""

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none."""

    @property
    def is_for_all(self) -> bool:
        """This broker has a slot, and so has every other one."""

    @property
    def slots(self) -> Mapping[str, int]:
        """The slots of the members, by uid."""

    @property
    def uids(self) -> Mapping[int, str]:
        """The members, by slot."""

    @property
    def places(self) -> Mapping[int, str]:
        """The members, by ring id."""

    @property
    def tables(self) -> Mapping[LinkClass, NextHops]:
        """Next hops by class of links."""

    @property
    def version(self) -> int:
        """Another number whenever next hops or members have changed."""

    def take_moves(self) -> Mapping[LinkClass, Moves]:
        """Return, once, what has moved to other next hops."""


class Split(NamedTuple):
    """What becomes of one event here."""

    onward: Onward
    stuck: int  #: destinations to which there is no way, as a mask
    strayed: tuple[str, ...]  #: uids of next hops on which order may be broken


class MaskPlan:
    """A :class:`~ges.routing.plan.Plan` by destinations, for links of one class."""

    def __init__(self, cluster: Cluster, link_class: LinkClass, lines: Lines) -> None:
        """``lines``: the links that are up."""
        self._cluster = cluster
        self._lines = lines
        self._class = link_class
        self._version = -1
        self._cache: dict[Duty, Split] = {}

    def onward(self, duty: Duty) -> Onward:
        """Return whom to pass an event to; those that are stuck are left out."""
        return self.split(duty).onward

    def split(self, duty: Duty) -> Split:
        """Return whom to pass an event to, and for whom it waits."""
        if self._cluster.version != self._version:
            self._version = self._cluster.version
            self._cache.clear()
        split = self._cache.get(duty)
        if split is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            split = self._cache[duty] = self._split(duty, duty.trace)
        return split

    def instead(self, uid: str, place: int, duty: Duty) -> Onward:
        """Return whom to pass an event to so that it does not go by the broker ``uid``."""
        return self.around(uid, duty).onward

    def around(self, uid: str, duty: Duty) -> Split:
        """Return what becomes of an event that is not to go by the broker ``uid``."""
        slot = self._cluster.slots.get(uid)
        return self._split(duty, duty.trace | (1 << slot if slot is not None else 0))

    def _split(self, duty: Duty, avoid: int) -> Split:
        cluster = self._cluster
        if cluster.slot is None:
            return Split((), duty.destinations, ())
        uids, own = cluster.uids, 1 << cluster.slot
        wanted = 0
        for slot in uids:
            wanted |= duty.destinations & 1 << slot  # those that have died want nothing
        decision = cluster.tables[self._class].onward(wanted & ~own, avoid)
        trace, stuck = duty.trace | own, decision.stuck
        hops = [(uids[hop], Duty(1, duty.target, served, trace)) for hop, served in decision.hops]
        for slot in bits(stuck):
            # Nobody has told of a way, as one of us has just joined: but there may be a link.
            if not avoid >> slot & 1 and (uids[slot], self._class) in self._lines:
                hops.append((uids[slot], Duty(1, duty.target, 1 << slot, trace)))
                stuck &= ~(1 << slot)
        strayed = tuple(uid for slot, uid in uids.items() if decision.strayed >> slot & 1)
        return Split(tuple(hops), stuck, strayed)
