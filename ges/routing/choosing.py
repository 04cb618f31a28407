"""Which broker serves a queue group: chosen by the broker where an event is published.

For example, the brokers in slots 2, 5 and 9 have clients in the group ``workers`` on ``orders/+``.
An event on ``orders/7`` is published at 5: it is for 5. It is published at 1, whose paths to 2, 5
and 9 cost 0.1, 0.1 and 0.4 ms: it is for 2 or 5, drawn at random for each event.

Costs are told in buckets, each 1.5 times the one before, so two paths that differ by no more than
that count as equal: measurements that waver would decide between them else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ges.gateways.next_hops import bits
from ges.profiles.group_index import Group, GroupIndex
from ges.routing.mask_plan import Cluster
from ges.wire.event_runs import EventRun
from ges.wire.groups import MAX_GROUPS, Serving
from overlay.ids import LinkClass


class Choosing:
    """The groups of the cluster, as one broker knows them, and who is to serve them."""

    def __init__(self, cluster: Cluster, index: GroupIndex, rng: random.Random) -> None:
        """``rng`` draws among brokers that are equally near."""
        self._cluster = cluster
        self._index = index
        self._rng = rng

    @property
    def own(self) -> int | None:
        """The slot of this broker; None: it has none."""
        return self._cluster.slot

    def of(self, link_class: LinkClass, topic: bytes) -> Sequence[Group]:
        """Return the groups that want an event."""
        return self._index.of(link_class, topic)

    def assigned(self, run: EventRun, groups: Sequence[Group]) -> Iterator[tuple[EventRun, int]]:
        """Yield the events, which say who serves each group, and who these are, as a mask.

        They are all one run where only one broker comes into question for each group.
        """
        link_class = run.head.link_class
        choices = {
            group.key: found
            for group in groups[:MAX_GROUPS]
            if (found := self.candidates(link_class, group.key))
        }
        if not choices:
            yield run, 0
            return
        is_drawn = any(len(slots) > 1 for slots in choices.values())
        for part in run.split() if is_drawn else (run,):
            slots = {key: self._drawn(found) for key, found in choices.items()}
            mask = 0
            for slot in slots.values():
                mask |= 1 << slot
            yield part.grouped(Serving(slots)), mask

    def another(self, link_class: LinkClass, key: int, tried: int) -> int | None:
        """Return the slot of a broker that is to serve a group, and that was not tried yet."""
        found = self.candidates(link_class, key, tried)
        return self._drawn(found) if found else None

    def is_first(self, link_class: LinkClass, key: int) -> bool:
        """Say whether this broker serves a group of which the source of an event did not know.

        All brokers of a group that get such an event know of each other, so one says yes: the one
        in the lowest slot.
        """
        mask, own = self._index.mask(link_class, key), self._cluster.slot
        return own is not None and mask & -mask == 1 << own

    def candidates(self, link_class: LinkClass, key: int, tried: int = 0) -> list[int]:
        """Return the slots of the brokers that serve a group best, without those tried."""
        mask = self._index.mask(link_class, key) & ~tried
        own = self._cluster.slot
        if own is None or not mask:
            return []
        if mask >> own & 1:
            return [own]
        table = self._cluster.tables[link_class]
        costs = {slot: table.cost_ns(slot) for slot in bits(mask)}
        reached = [(cost, slot) for slot, cost in costs.items() if cost is not None]
        if not reached:
            return sorted(costs)  # there may be a way before long
        least = min(reached)[0]
        return sorted(slot for cost, slot in reached if 2 * cost <= 3 * least)

    def _drawn(self, slots: Sequence[int]) -> int:
        return slots[0] if len(slots) == 1 else self._rng.choice(slots)
