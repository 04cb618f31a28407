"""Networks of brokers with addresses, what each broker knows of them, and what is so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ges.gateways.connections import believed, claims_of, connections
from ges.gateways.graph import Graph, cluster_links, gate_links, outer_links
from ges.gateways.link_state import LinkStates
from ges.gateways.losses import Connections, Severity
from ges.gateways.next_hops import Moves, NextHops
from ges.statements.content import cluster_edges, edges_above
from ges.units.address import Address, unpack_address
from ges.wire.gateway_messages import LinkState, StateGate, StateLink
from ges.wire.statement_messages import UnitEdge
from overlay.ids import LinkClass

Place = tuple[int, ...]  #: numbers of an address from the top; of a unit: the first of them
Pair = tuple[Place, Place]


def level_of(unit: Place) -> int:
    """Return the level of a unit or a broker."""
    return 4 - len(unit)


def as_seen(place: Place, context: Place) -> Place:
    """Return the unit in which a place is, as one inside the context names it."""
    for size in range(1, len(context) + 1):
        if place[:size] != context[:size]:
            return place[:size]
    return place[: len(context) + 1]


def node(unit: Place) -> int:
    """Return the node of a unit or a broker."""
    return 64 * level_of(unit) + unit[-1]


@dataclass(frozen=True)
class Network:
    """Brokers, and the links between them."""

    brokers: tuple[Place, ...]
    links: tuple[Pair, ...]

    def without(self, *lost: Pair) -> Network:
        """Return the same network without these links."""
        gone = {frozenset(each) for each in lost}
        return Network(self.brokers, tuple(x for x in self.links if frozenset(x) not in gone))

    def units(self, level: int, context: Place = ()) -> list[Place]:
        """Return all units of a level, or those in a context."""
        found = {each[: 4 - level] for each in self.brokers}
        return sorted(unit for unit in found if unit[: len(context)] == context)

    def linked(self, broker: Place) -> list[Place]:
        """Return the brokers to which one has links."""
        return [b if a == broker else a for a, b in self.links if broker in (a, b)]

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def states(self, cluster: Place) -> LinkStates:
        """Return what the members of a cluster tell each other."""
        states = LinkStates("nobody")
        states.follow(str(broker) for broker in self.units(0, cluster))
        for broker in self.units(0, cluster):
            inside, beyond = [], []
            for other in self.linked(broker):
                if other[:3] == cluster:
                    inside.append(StateLink(str(other), LinkClass.NORMAL, 0))
                else:
                    beyond.append(node(as_seen(other, cluster)))
            gates = [
                StateGate(to, LinkClass.NORMAL, 0, beyond.count(to)) for to in sorted(set(beyond))
            ]
            links, slot = tuple(inside), broker[-1]
            states.table.take_row(LinkState(str(broker), slot, 1, 1, links, tuple(gates)))
        return states

    def edges(self, unit: Place) -> tuple[UnitEdge, ...]:
        """Return the links that the statement of a unit has."""
        level = level_of(unit)
        if level == 1:
            return cluster_edges(self.states(unit), map(str, self.units(0, unit)))
        inner = (edge for part in self.units(level - 1, unit) for edge in self.edges(part))
        return edges_above(inner, level)

    def known_at(self, broker: Place, stale: Network | None = None, *of: Place) -> Connections:
        """Return the links that a broker knows of; ``of``: units that told last in ``stale``."""
        cluster = broker[:3]
        slots = {str(each): each[-1] for each in self.units(0, cluster)}
        units = [u for level in (1, 2, 3) for u in self.units(level, broker[: 3 - level])]
        others = [unit for unit in units if broker[: len(unit)] != unit]
        told = [
            (node(unit), edge)
            for unit in others
            for edge in (stale if stale is not None and unit in of else self).edges(unit)
        ]
        names = {node(each): each for each in (*units, *self.units(0, cluster))}
        own = {level: node(broker[: 4 - level]) for level in (1, 2, 3)}
        claims = claims_of((node(unit) for unit in others), told, 0)
        return connections(self.states(cluster), slots, own, names, claims)

    # ── what is so ────────────────────────────────────────────────────────────────────────────

    def between(self, a: Place, b: Place) -> int:
        """Return how many links join two units."""
        pair = {a, b}
        return sum({x[: len(a)], y[: len(b)]} == pair for x, y in self.links)

    def judge(self, a: Place, b: Place) -> Severity:
        """Say by all simple paths how bad it is for two units of one context to have lost links."""
        context = a[:-1]
        edges = [(as_seen(x, context), as_seen(y, context)) for x, y in self.links]
        paths = list(_simple_paths(edges, [a], [], b))
        size = len(context)
        inside = [each for each in paths if all(unit[:size] == context for unit in each[0])]
        if not inside:
            return Severity.DEGRADED if paths else Severity.PARTITION
        common = frozenset.intersection(*(frozenset(links) for _, links in inside))
        fewest = min(len(links) for _, links in inside)
        is_farther = fewest > 1 and level_of(a) > 0
        return Severity.DEGRADED if common or is_farther else Severity.HARMLESS


def _simple_paths(
    edges: list[Pair], path: list[Place], links: list[int], to: Place
) -> Iterator[tuple[list[Place], list[int]]]:
    if path[-1] == to:
        yield path, links
        return
    for number, (x, y) in enumerate(edges):
        if path[-1] in (x, y) and x != y:
            other = y if path[-1] == x else x
            if other not in path:
                yield from _simple_paths(edges, [*path, other], [*links, number], to)


def places(*addresses: str) -> tuple[Place, ...]:
    """Return addresses as they are printed as places."""
    return tuple(tuple(map(int, each.split("."))) for each in addresses)


def network(links: Iterable[tuple[str, str]], *more: str) -> Network:
    """Return a network of these links between addresses, and of brokers without any."""
    pairs = tuple((places(a)[0], places(b)[0]) for a, b in links)
    brokers = {each for pair in pairs for each in pair} | set(places(*more))
    return Network(tuple(sorted(brokers)), pairs)


def graph_at(network: Network, broker: Place, stale: Network | None = None, *of: Place) -> Graph:
    """Return the connectivity graph that a broker has, from what members and units tell.

    ``of``: units that told last in ``stale``.
    """
    cluster = broker[:3]
    states = network.states(cluster)
    slots = {str(each): each[-1] for each in network.units(0, cluster)}
    units = [u for level in (1, 2, 3) for u in network.units(level, broker[: 3 - level])]
    others = [unit for unit in units if broker[: len(unit)] != unit]
    mask = sum(1 << node(unit) for unit in others)
    told = [
        (node(unit), edge)
        for unit in others
        for edge in (stale if stale is not None and unit in of else network).edges(unit)
    ]
    own = {level: node(broker[: 4 - level]) for level in (1, 2, 3)}
    gates = (gate.node for state in states.table for gate in state.gates)
    return Graph(
        [
            *cluster_links(states, slots, LinkClass.NORMAL),
            *gate_links(states, slots, mask, LinkClass.NORMAL),
            *outer_links(believed(told, 0, own, sum({1 << gate for gate in gates})), mask),
        ]
    )


class Stand:
    """One broker of a network, as routing sees it: a :class:`ges.routing.mask_plan.Cluster`."""

    def __init__(self, network: Network, broker: Place) -> None:
        graph = graph_at(network, broker)
        members = network.units(0, broker[:3])
        self._network = network
        self._broker = broker
        self.slot = broker[-1]
        self.is_for_all = True
        self.slots = {str(each): each[-1] for each in members}
        self.uids = {each[-1]: str(each) for each in members}
        self.places = {each[-1]: str(each) for each in members}
        self.tables = {LinkClass.NORMAL: NextHops(self.slot)}
        self.tables[LinkClass.NORMAL].update(graph)
        self.version = self.namings = 1
        self.levels = 4
        units = {node(u) for n in (1, 2, 3) for u in network.units(n, broker[: 3 - n])}
        self.own_units = sum(1 << node(broker[: 4 - level]) for level in (1, 2, 3))
        self.own = self.own_units | 1 << self.slot
        self.known = sum(1 << each for each in units | {*self.uids}) & ~self.own_units
        d, c, b, a = broker
        self.address = Address((d, c, b, a)).packed

    def own_at(self, level: int) -> int | None:
        """Return the node of the broker's own unit of a level."""
        return node(self._broker[: 4 - level])

    def gate(self, node_of: int, link_class: LinkClass, without: str = "") -> str | None:
        """Return the broker of another unit to whom events for it go from here."""
        for other in self._network.linked(self._broker):
            if other[:3] != self._broker[:3] and node(as_seen(other, self._broker[:3])) == node_of:
                return str(other)
        return None

    def now_at(self, slots: int) -> int:
        """Nobody has moved."""
        return 0

    def node_at(self, place: int) -> int | None:
        """Nobody is found by a ring id here."""
        return None

    def common_level(self, place: int) -> int:
        """Nobody is found by a ring id here."""
        return 4

    def toward(self, address: int) -> int:
        """Return the node at which an address lies, as a mask."""
        there = unpack_address(address).numbers
        return 1 << node(as_seen(there, self._broker[:3]))

    def take_moves(self) -> dict[LinkClass, Moves]:
        """Nothing moves."""
        return {}
