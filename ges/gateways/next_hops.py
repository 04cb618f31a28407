"""The routing cache: which next hops serve a set of destinations, and which of them each serves.

An event is for brokers 2, 5 and 9, as a mask 0b1000100100. The table says that 2 and 9 are reached
by 2, and 5 by 4. The decision is ((2, {2, 9}), (4, {5})): two copies. Each destination bit goes to
exactly one next hop, so nothing comes twice while nothing fails.

A decision depends on next hops alone. A change of the graph that alters no next hop drops no
decision, and one that alters some drops those decisions that have one of these bits.

While tables of brokers differ, a copy may be sent back to where it has been. A copy carries its
*trace*, the mask of brokers it has passed. Where the next hop is in the trace, the best path that
avoids the whole trace is taken instead. If there is none, the destination is ``stuck``: it waits
for a way. So a copy passes no broker twice, and a loop ends.

There is one table a class. Normal and secure events use links of their class alone. Express events
use the express graph; for a destination that it does not reach they take the first hop of the
fastest normal path, and are flagged (``rough``) if there is no express link to that broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ges.gateways.graph import ALL_NODES, Graph
from ges.gateways.paths import NOBODY, Paths
from overlay.ids import Nanos

MAX_DECISIONS = 65536  #: kept; then the oldest goes
MAX_PATH = 64  #: hops
MAX_DETOURS = 1024  #: traces with tables of their own

_EMPTY = Graph()


@dataclass(frozen=True, slots=True)
class Decision:
    """Where copies of an event go."""

    hops: tuple[tuple[int, int], ...]  #: (next hop, destinations that it is to serve)
    through: int  #: the next hops as a mask
    stuck: int = 0  #: destinations without a way
    rough: int = 0  #: next hops that are no express ones, for an express event
    #: Next hops left and taken because of the trace: order on both may be broken.
    strayed: int = 0


@dataclass(frozen=True, slots=True)
class Moves:
    """What a change of the graph has altered."""

    changed: int = 0  #: destinations with another next hop than before
    onto: int = 0  #: next hops that have taken over a destination; those without a way are theirs


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits set, rising."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class NextHops:
    """The table of one class at one broker."""

    def __init__(self, own: int) -> None:
        """Take the slot of this broker."""
        self.reached = 0  #: destinations that can be reached, as a mask, without this broker
        self._own = own
        self._graph = _EMPTY
        self._fallback: Graph | None = None
        self._table: list[int] = [NOBODY] * ALL_NODES
        self._decisions: dict[int, Decision] = {}
        self._detours: dict[tuple[int, int], Decision] = {}
        self._tables: dict[int, Callable[[int], int]] = {}
        self._others: dict[int, list[int]] = {}  #: next hops of other members, where asked for
        self._trees: tuple[Paths, ...] = ()  #: of the graphs, where costs were asked for

    def update(self, graph: Graph, fallback: Graph | None = None) -> Moves:
        """Take a new graph; ``fallback``: the normal one, for express events."""
        if graph == self._graph and fallback == self._fallback:
            return Moves()
        before_near = self._graph.adjacent.get(self._own)
        self._graph, self._fallback = graph, fallback
        self._detours.clear()
        self._tables.clear()
        self._others.clear()
        self._trees = ()
        before, find = self._table, self._find(0)
        self._table = [find(node) for node in range(ALL_NODES)]
        self.reached = sum(1 << node for node, hop in enumerate(self._table) if hop != NOBODY)
        changed = onto = 0
        for node, (old, new) in enumerate(zip(before, self._table, strict=True)):
            if old != new:
                changed |= 1 << node
                # Without a way an event takes the link to its destination, should there be one.
                onto |= 1 << (new if new != NOBODY else node)
        if changed:
            self._decisions = {
                mask: decision for mask, decision in self._decisions.items() if not mask & changed
            }
        if fallback is not None and graph.adjacent.get(self._own) != before_near:
            self._decisions.clear()  # another hop is rough
        return Moves(changed, onto)

    def next_hop(self, node: int) -> int:
        """Return the next hop to a destination; -1 if it cannot be reached, or is this broker."""
        return self._table[node]

    def is_beside(self, node: int) -> bool:
        """Say whether this broker has a link of the class to a node."""
        return bool(self._graph.adjacent.get(self._own, 0) >> node & 1)

    def path(self, node: int) -> tuple[tuple[int, bool], ...]:
        """Return the way to a destination: nodes, each with whether the class has a link to it.

        Empty: it cannot be reached, or is this broker. For people: brokers look up next hops.
        """
        found: list[tuple[int, bool]] = []
        here, hop = self._own, self._table[node]
        while hop != NOBODY:
            found.append((hop, bool(self._graph.adjacent.get(here, 0) >> hop & 1)))
            if hop == node:
                return tuple(found)
            if len(found) == MAX_PATH:
                break  # express hops and those of the fallback may lead round
            here, hop = hop, self._hop_from(hop, node)
        return ()

    def cost_ns(self, node: int) -> Nanos | None:
        """Return what the path to a destination costs; 0: it is this broker; None: there is none.

        For an express event to whom no express path leads it is the cost of the normal one.
        """
        if not self._trees:
            graphs = (self._graph, *([] if self._fallback is None else [self._fallback]))
            self._trees = tuple(Paths(graph, self._own) for graph in graphs)
        costs = (tree.cost_ns(node) for tree in self._trees)
        return next((cost for cost in costs if cost is not None), None)

    @property
    def nodes(self) -> int:
        """Return the nodes with a link of this class, reached or not, as a mask."""
        return sum(1 << node for node in self._graph.adjacent)

    @property
    def cached(self) -> int:
        """Return how many decisions are kept."""
        return len(self._decisions)

    def onward(self, destinations: int, trace: int = 0) -> Decision:
        """Say where the copies of an event go; this broker's own bit counts for nothing.

        ``trace``: brokers that the copy has passed; with or without this one.
        """
        decision = self._decisions.get(destinations)
        if decision is None:
            decision = self._decide(destinations, lambda node: self._table[node])
            if len(self._decisions) >= MAX_DECISIONS:
                del self._decisions[next(iter(self._decisions))]
            self._decisions[destinations] = decision
        if decision.through & trace:
            return self._round(destinations, trace, decision)
        return decision

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _hop_from(self, here: int, node: int) -> int:
        """Return where the broker ``here`` sends what is for ``node``."""
        hops = self._others.get(here)
        if hops is None:
            first = Paths(self._graph, here).next_hop
            then = first if self._fallback is None else Paths(self._fallback, here).next_hop
            hops = self._others[here] = [
                a if a != NOBODY else b for a, b in zip(first, then, strict=True)
            ]
        return hops[node]

    def _decide(self, destinations: int, hop_of: Callable[[int], int]) -> Decision:
        hops: dict[int, int] = {}
        stuck = through = 0
        for node in bits(destinations & ~(1 << self._own)):
            hop = hop_of(node)
            if hop == NOBODY:
                stuck |= 1 << node
            else:
                hops[hop] = hops.get(hop, 0) | 1 << node
                through |= 1 << hop
        rough = 0
        if self._fallback is not None:
            rough = through & ~self._graph.adjacent.get(self._own, 0)
        return Decision(tuple(hops.items()), through, stuck, rough)

    def _round(self, destinations: int, trace: int, usual: Decision) -> Decision:
        """Decide for a copy that has been at a next hop already."""
        key = destinations, trace
        decision = self._detours.get(key)
        if decision is None:
            avoiding = self._avoiding(trace)

            def hop_of(node: int) -> int:
                hop = self._table[node]
                return avoiding(node) if hop != NOBODY and trace >> hop & 1 else hop

            found = self._decide(destinations, hop_of)
            left = usual.through & trace
            taken = sum(
                1 << hop
                for hop, served in found.hops
                if any(self._table[node] != hop for node in bits(served))
            )
            decision = Decision(
                found.hops, found.through, found.stuck, found.rough, strayed=left | taken
            )
            if len(self._detours) >= MAX_DETOURS:
                self._detours.clear()
            self._detours[key] = decision
        return decision

    def _avoiding(self, trace: int) -> Callable[[int], int]:
        """Return the next hops of the paths that avoid a trace."""
        table = self._tables.get(trace)
        if table is None:
            if len(self._tables) >= MAX_DETOURS:
                self._tables.clear()
            table = self._tables[trace] = self._find(trace)
        return table

    def _find(self, without: int) -> Callable[[int], int]:
        """Compute next hops, over the graph of the class and then over the fallback."""
        own, without = self._own, without & ~(1 << self._own)
        first = Paths(self._graph, own, without).next_hop
        if self._fallback is None:
            return first.__getitem__
        then = Paths(self._fallback, own, without).next_hop
        return [a if a != NOBODY else b for a, b in zip(first, then, strict=True)].__getitem__
