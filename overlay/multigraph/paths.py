"""Cheapest paths from one broker over the links of one class, kept up to date.

A change of a few links costs work for the brokers whose distance changes, not for the graph: those
behind a link that became dearer lose their distance and get it anew from their borders, and a link
that became cheaper is followed only as far as it helps (G. Ramalingam, T. Reps, 1996, for batches
of changes). Costs are positive, so a path never holds a broker twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from overlay.ids import LinkClass, Nanos
from overlay.multigraph.graph import Ends, Multigraph

_Queue = list[tuple[Nanos, str, str]]  #: distance, broker, the one before it


class ShortestPaths:
    """The tree of cheapest paths from ``source``."""

    def __init__(self, graph: Multigraph, link_class: LinkClass, source: str) -> None:
        self._graph = graph
        self._class = link_class
        self._source = source
        self._distance: dict[str, Nanos] = {source: 0}
        self._parent: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {source: {}}
        self.update([(source, other) for other in graph.near(source, link_class)])

    def distance(self, uid: str) -> Nanos | None:
        """Return the cost of the cheapest path to ``uid``; None if there is none."""
        return self._distance.get(uid)

    def path(self, uid: str) -> tuple[str, ...] | None:
        """Return the cheapest path, both ends included; None if there is none."""
        if uid not in self._distance:
            return None
        path = [uid]
        while path[-1] != self._source:
            path.append(self._parent[path[-1]])
        return tuple(reversed(path))

    def update(self, changed: Iterable[Ends]) -> None:
        """Take note that these links came, went, or changed their cost.

        O(k log k) for the k links at the brokers whose distance changes.
        """
        both = [pair for a, b in changed for pair in ((a, b), (b, a))]
        lost: dict[str, None] = {}
        for before, uid in both:
            if self._parent.get(uid) == before and not self._holds(before, uid):
                self._cut(uid, lost)
        queue: _Queue = []
        for uid in lost:
            near = self._graph.near(uid, self._class)
            for before, cost in near.items():
                self._offer(queue, before, uid, cost)
        for before, uid in both:
            present = self._graph.near(before, self._class).get(uid)
            if present is not None:
                self._offer(queue, before, uid, present)
        self._settle(queue)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _holds(self, before: str, uid: str) -> bool:
        """The link by which ``uid`` is reached has not become dearer, nor gone."""
        cost = self._graph.near(before, self._class).get(uid)
        if cost is None or before not in self._distance:
            return False
        return self._distance[before] + cost <= self._distance[uid]

    def _cut(self, uid: str, lost: dict[str, None]) -> None:
        """Take the distance from ``uid`` and from all that are reached through it."""
        del self._children[self._parent[uid]][uid]
        stack = [uid]
        while stack:
            gone = stack.pop()
            lost[gone] = None
            del self._distance[gone], self._parent[gone]
            stack += self._children.pop(gone)

    def _offer(self, queue: _Queue, before: str, uid: str, cost: Nanos) -> None:
        start = self._distance.get(before)
        if start is None:
            return
        known = self._distance.get(uid)
        if known is None or start + cost < known:
            heapq.heappush(queue, (start + cost, uid, before))

    def _settle(self, queue: _Queue) -> None:
        distances = self._distance
        while queue:
            distance, uid, before = heapq.heappop(queue)
            known = distances.get(uid)
            if known is not None and known <= distance:
                continue
            if known is not None:
                del self._children[self._parent[uid]][uid]
            distances[uid] = distance
            self._parent[uid] = before
            self._children[before][uid] = None
            self._children.setdefault(uid, {})
            for after, cost in self._graph.near(uid, self._class).items():
                self._offer(queue, uid, after, cost)
