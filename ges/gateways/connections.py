"""The links that a broker knows of, as members and units have told of them.

Cluster 2 says that it has three links to cluster 5, and cluster 5 says that it has two to cluster
2: then there are two, as a link counts where both ends say that it is there. A broker's own cluster
needs nobody to confirm its gates.

A unit that is cut off tells nothing any more, and what it said before stands. So a unit is believed
in what it says of units of higher levels, which do not name it, unless all those of its own level
deny the links that it claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping

from ges.gateways.graph import level_of
from ges.gateways.link_state import LinkStates
from ges.gateways.losses import Connections
from ges.gateways.next_hops import bits
from ges.wire.statement_messages import MAX_EDGES, UnitEdge
from overlay.ids import LinkClass

NORMAL = LinkClass.NORMAL

#: How many links a unit says that it has to each other one, by its node; None: it has not told.
Claims = Mapping[int, Mapping[int, int] | None]


def claims_of(nodes: Iterable[int], edges: Iterable[tuple[int, UnitEdge]], silent: int) -> Claims:
    """Return what other units say of their normal links.

    ``edges``: each with the unit that has told of it; ``silent``: units that have told nothing, as
    a mask. A unit that tells of so many links that some may be left out counts as silent too.
    """
    told: dict[int, Counter[int]] = {node: Counter() for node in nodes}
    size: Counter[int] = Counter()
    for node, edge in edges:
        size[node] += 1
        if edge.link_class.is_base and node in told:
            told[node][edge.node] += edge.count
    return {
        node: None if silent >> node & 1 or size[node] >= MAX_EDGES else found
        for node, found in told.items()
    }


def believed(
    edges: Iterable[tuple[int, UnitEdge]], silent: int, own: Mapping[int, int], gates: int
) -> Iterator[tuple[int, UnitEdge]]:
    """Yield what other units say of their links, without what was said by those cut off since.

    ``edges`` and ``silent`` are as for :func:`claims_of`, ``own`` as for :func:`connections`;
    ``gates``: units to which members of the cluster have links, as a mask.
    """
    told: dict[int, int] = {}  #: to which nodes a unit says that it has links, of any class
    every = [*edges]
    for node, edge in every:
        told[node] = told.get(node, 0) | 1 << edge.node
    size = Counter(node for node, _ in every)

    def is_confirmed(a: int, b: int) -> bool:
        """Say whether ``b`` says of its link to ``a`` too."""
        if b == own.get(level_of(b)):
            inside = (there for node, there in told.items() if level_of(node) < level_of(b))
            return any(there >> a & 1 for there in (gates, *inside))
        return bool(silent >> b & 1 or told.get(b, 0) >> a & 1) or size[b] >= MAX_EDGES

    denied = {
        node
        for node, there in told.items()
        if (beside := [b for b in bits(there) if level_of(b) == level_of(node)])
        and not any(is_confirmed(node, b) for b in beside)
    }
    for node, edge in every:
        if level_of(edge.node) == level_of(node):
            if is_confirmed(node, edge.node):
                yield node, edge
        elif node not in denied:
            yield node, edge


def connections(
    states: LinkStates,
    slots: Mapping[str, int],
    own: Mapping[int, int],
    names: Mapping[int, Hashable],
    claims: Claims,
) -> Connections:
    """Return the normal links between all nodes that a broker can name.

    Args:
        states: what members say of their links.
        slots: of the members, by uid.
        own: the broker's own units, by level.
        names: of all nodes; those that have none do not count.
        claims: what other units say.
    """
    links: Counter[tuple[int, int]] = Counter()
    for edge in states.edges(NORMAL, slots):
        links[_ends(slots[edge.a], slots[edge.b])] += 1
    for uid, slot in slots.items():
        state = states.get(uid)
        for gate in state.gates if state is not None else ():
            if gate.link_class.is_base and gate.node in claims:
                links[slot, gate.node] += gate.count
    _add_beside(links, claims)
    for level in sorted(own):  # what is below is known by then
        _add_above(links, own, claims, level)
    return Connections({each: n for each, n in links.items() if n}, own, names)


def _add_beside(links: Counter[tuple[int, int]], claims: Claims) -> None:
    """Add the links between units of one level, as far as both say that they are there."""
    for a in claims:
        for b in claims:
            if a < b and level_of(a) == level_of(b):
                words = ((claims[a], b), (claims[b], a))
                said = [word.get(other, 0) for word, other in words if word is not None]
                links[a, b] = min(said, default=0)


def _add_above(
    links: Counter[tuple[int, int]], own: Mapping[int, int], claims: Claims, level: int
) -> None:
    """Add the links that units of a level have to units of higher levels."""
    to_own = Connections(links, own).at_level(level)
    for unit, said in claims.items():
        if level_of(unit) != level or said is None:
            continue
        beside = [other for other in said if level_of(other) == level and said[other]]
        if beside and not any(to_own.get(_ends(unit, other)) for other in beside):
            continue  # all deny what it says: it was cut off since
        for other, count in said.items():
            if level_of(other) > level and other in claims:
                links[unit, other] += count


def _ends(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
