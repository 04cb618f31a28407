"""Which broker serves a queue group: chosen by the broker where an event is published.

For example, the brokers in slots 2, 5 and 9 have clients in the group ``workers`` on ``orders/+``.
An event on ``orders/7`` is published at 5: it is for 5. It is published at 1, whose paths to 2, 5
and 9 cost 0.1, 0.1 and 0.4 ms: it is for 2 or 5, drawn at random for each event.

Costs are told in buckets, each 1.5 times the one before, so two paths that differ by no more than
that count as equal: measurements that waver would decide between them else.

Where no broker of the cluster has members, the nearest unit that states the group is chosen, of the
lowest level at which there is one. The first broker that gets the event in there chooses inside
(:meth: `Choosing.inside`), by a hash of the event. So all brokers of the unit find the same one: of
an event that is recalled they know whose it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

from ges.gateways.cluster import Cluster
from ges.gateways.next_hops import bits
from ges.profiles.group_index import Group, GroupIndex
from ges.units.address import LEVELS
from ges.units.nodes import from_level, level_of, node_at
from ges.wire.event_runs import EventRun
from ges.wire.groups import MAX_GROUPS, Serving
from ges.wire.levels import LEVEL_BITS
from ges.wire.matter import Matter
from ges.wire.realms import Realm
from overlay.ids import LinkClass


class OuterGroups(Protocol):
    """The groups of other units; a :class:`ges.statements.held.Statements`."""

    def groups_of(self, matter: Matter) -> Iterator[Group]:
        """Yield those that want an event."""

    def group_mask(self, link_class: LinkClass, key: int, below: int = LEVELS) -> int:
        """Return the units that have members of a group, as a mask."""


class Choosing:
    """The groups of the overlay, as one broker knows them, and who is to serve them."""

    def __init__(
        self, cluster: Cluster, index: GroupIndex, outer: OuterGroups, rng: random.Random
    ) -> None:
        """``rng`` draws among brokers that are equally near."""
        self._cluster = cluster
        self._index = index
        self._outer = outer
        self._rng = rng

    @property
    def own(self) -> int | None:
        """The slot of this broker; None: it has none."""
        return self._cluster.slot

    def of(self, matter: Matter) -> Sequence[Group]:
        """Return the groups that want an event, as far as it goes."""
        found = self._index.of(matter)
        if self._cluster.levels == 1:
            return found
        outer = {group.key: group for group in found}
        for group in self._outer.groups_of(matter):
            outer.setdefault(group.key, group)
        return tuple(outer.values())

    def mask(self, link_class: LinkClass, key: int, below: int = LEVELS) -> int:
        """Return the brokers and units that have members of a group, as a mask."""
        found = self._index.mask(link_class, key)
        if self._cluster.levels > 1:
            found |= self._outer.group_mask(link_class, key, below)
        return found

    def assigned(self, run: EventRun, groups: Sequence[Group]) -> Iterator[tuple[EventRun, int]]:
        """Yield the events, which say who serves each group, and these brokers as a mask.

        They are all one run where only one broker comes into question for each group.
        """
        link_class, below = run.head.link_class, run.head.realm
        choices = {
            group.key: found
            for group in groups[:MAX_GROUPS]
            if (found := self.candidates(link_class, group.key, below=below))
        }
        if not choices:
            yield run, 0
            return
        is_drawn = any(len(slots) > 1 for slots in choices.values())
        for part in run.split() if is_drawn else (run,):
            slots = {key: self._drawn(found) for key, found in choices.items()}
            yield part.grouped(Serving(slots)), _mask_of(slots.values())

    def own_place(self, places: Iterable[int]) -> int | None:
        """Return which of some ring ids is that of this broker, if one is."""
        uid = self._cluster.uids.get(self.own) if self.own is not None else None
        known = self._cluster.places
        return next((place for place in places if uid and known.get(place) == uid), None)

    def to_all(self, run: EventRun) -> Iterable[EventRun]:
        """Return events that go to all brokers; they name by place who of this cluster serves.

        Of groups that have no members in this cluster they say nothing.
        """
        link_class = run.head.link_class
        choices = {
            group.key: found
            for group in self._index.of(run.head.matter)[:MAX_GROUPS]
            if (found := self.candidates(link_class, group.key, below=Realm.CLUSTER))
        }
        if not choices:
            return (run,)
        uids, places = self._cluster.uids, {u: p for p, u in self._cluster.places.items()}
        is_drawn = any(len(slots) > 1 for slots in choices.values())
        events: list[EventRun] = []
        for part in run.split() if is_drawn else (run,):
            drawn = {key: uids.get(self._drawn(slots)) for key, slots in choices.items()}
            named = {key: places[uid] for key, uid in drawn.items() if uid in places}
            events.append(part.grouped(Serving(named, has_places=True)))
        return events

    def another(
        self, link_class: LinkClass, key: int, tried: int, below: int = LEVELS
    ) -> int | None:
        """Return who is to serve a group, and was not tried yet: a slot, or the node of a unit."""
        found = self.candidates(link_class, key, tried, below)
        return self._drawn(found) if found else None

    def is_first(self, link_class: LinkClass, key: int) -> bool:
        """Say whether this broker serves a group of which the source of an event did not know.

        All brokers of a group that get such an event know of each other, so one says yes: the one
        in the lowest slot.
        """
        mask, own = self._index.mask(link_class, key), self._cluster.slot
        return own is not None and mask & -mask == 1 << own

    def candidates(
        self, link_class: LinkClass, key: int, tried: int = 0, below: int = LEVELS
    ) -> list[int]:
        """Return the slots or nodes that serve a group best, without those tried."""
        mask = self.mask(link_class, key, below) & ~tried
        own = self._cluster.slot
        if own is None or not mask:
            return []
        if mask >> own & 1:
            return [own]
        table = self._cluster.tables[link_class]
        nearest: list[int] = []  #: there may be a way to them before long
        for level in range(LEVELS):
            costs = {node: table.cost_ns(node) for node in bits(_at_level(mask, level))}
            reached = [(cost, node) for node, cost in costs.items() if cost is not None]
            if reached:
                least = min(reached)[0]
                return sorted(node for cost, node in reached if 2 * cost <= 3 * least)
            nearest = nearest or sorted(costs)
        return nearest

    # ── in a unit that was chosen ─────────────────────────────────────────────────────────────

    def inside(self, event: EventRun, key: int, level: int, tried: int = 0) -> int | None:
        """Return who serves a group in this broker's own unit of a level; None: nobody.

        It is a slot of the cluster, or the node of a unit beside the cluster in there. Nobody is
        chosen to whom no path leads: a unit is still stated for a while when all of it has died.
        """
        link_class = event.head.link_class
        known = self._cluster.tables[link_class].reached | self._cluster.own
        mask = self.mask(link_class, key, level) & known & ~tried
        for below in range(level - 1, 0, -1):
            nodes = bits(_at_level(mask, below))
            own = self._cluster.own_at(below)
            if own is not None and mask & (1 << LEVEL_BITS * below) - 1:
                nodes.append(own)
            chosen = _by_hash(event, key, nodes)
            if chosen != own:
                return chosen
        return _by_hash(event, key, bits(_at_level(mask, 0)))

    def is_chosen(self, event: EventRun, key: int, node: int) -> bool:
        """Say whether this broker serves a group with an event that its source gave to a unit."""
        level = level_of(node)
        if self._cluster.own_at(level) != node:
            return False
        return self.inside(event, key, level) == self._cluster.slot

    def is_first_of_all(self, link_class: LinkClass, key: int, place: int) -> bool:
        """Say whether this broker serves a group with an event that goes to all, and names nobody.

        ``place``: where it was published, in another cluster. The nearest unit around that place
        serves it, and in there, or among equals, the one with the lowest number.
        """
        common = self._cluster.common_level(place)
        source = self._cluster.node_at(place)
        mask = self.mask(link_class, key, common)
        if source is None or mask >> source & 1:
            return False
        for level in range(common - 1, 0, -1):
            own = self._cluster.own_at(level)
            others = _at_level(mask, level)
            if own is None or (others and others & -others < 1 << own):
                return False
        return self.is_first(link_class, key)

    def kept_inside(self, serving: Serving, level: int) -> dict[int, int]:
        """Return what is still said of groups where an event comes into a unit of that level."""
        own = self._cluster.own_at(level)
        return {
            key: node
            for key, node in serving.slots.items()
            if node >= node_at(level, 0) and node != own
        }

    def _drawn(self, slots: Sequence[int]) -> int:
        return slots[0] if len(slots) == 1 else self._rng.choice(slots)


def _at_level(mask: int, level: int) -> int:
    """Return the nodes of a mask that are of that level."""
    return from_level(mask, level) & (1 << LEVEL_BITS * (level + 1)) - 1


def _mask_of(nodes: Iterable[int]) -> int:
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def _by_hash(event: EventRun, key: int, nodes: Sequence[int]) -> int | None:
    """Return one of some nodes for an event; when others come or go, few events change hands."""
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    head = event.head
    about = b"%d %d %d " % (key, head.incarnation, head.sequence) + head.publisher
    return max(nodes, key=lambda node: blake2b(b"%d " % node + about, digest_size=8).digest())
