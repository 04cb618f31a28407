"""The weighted multigraph: brokers, and parallel links of three classes (paper 004, section 3.3).

Between two brokers there is at most one link of each class, and no express or secure link without a
normal one: E_u and E_s are subsets of E_n. Links lead both ways at the same cost.

:class:`Multigraph` is what routing uses: for each class a dictionary of dictionaries of costs, and
a note of which links changed since it was last asked. :func:`as_networkx` gives the same graph to
people, to the analysis and to tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from overlay.errors import InvariantError
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.cost import cost_ns
from overlay.multigraph.weights import Weights

if TYPE_CHECKING:
    from networkx import MultiGraph

Ends = tuple[str, str]  #: uids at the ends of a link, the smaller one first

_NOTHING: Mapping[str, Nanos] = {}


def ends(a: str, b: str) -> Ends:
    """Return the ends of a link in order."""
    return (a, b) if a < b else (b, a)


class Multigraph:
    """Links by class and ends, with their weights."""

    def __init__(self) -> None:
        self._weights: dict[LinkClass, dict[Ends, Weights]] = {c: {} for c in LinkClass}
        self._costs: dict[LinkClass, dict[str, dict[str, Nanos]]] = {c: {} for c in LinkClass}
        self._changed: dict[LinkClass, set[Ends]] = {c: set() for c in LinkClass}

    def put(self, a: str, b: str, link_class: LinkClass, weights: Weights) -> None:
        """Add a link, or change its weights.

        Raises:
            InvariantError: the ends are the same, or there is no normal link beside this one.
        """
        key = ends(a, b)
        if a == b or (not link_class.is_base and not self.has(a, b, LinkClass.NORMAL)):
            raise InvariantError(f"BUG: no {link_class.value} link can be between {a} and {b}")
        if self._weights[link_class].get(key) == weights:
            return
        self._weights[link_class][key] = weights
        cost = cost_ns(link_class, weights)
        costs = self._costs[link_class]
        if costs.setdefault(a, {}).get(b) != cost:
            costs[a][b] = cost
            costs.setdefault(b, {})[a] = cost
            self._changed[link_class].add(key)

    def remove(self, a: str, b: str, link_class: LinkClass) -> None:
        """Take a link out if it is there; with a normal one go those beside it."""
        key = ends(a, b)
        classes = tuple(LinkClass) if link_class.is_base else (link_class,)
        for each in classes:
            if self._weights[each].pop(key, None) is None:
                continue
            self._changed[each].add(key)
            for here, there in ((a, b), (b, a)):
                near = self._costs[each][here]
                del near[there]
                if not near:
                    del self._costs[each][here]

    def has(self, a: str, b: str, link_class: LinkClass) -> bool:
        """Say whether there is such a link."""
        return ends(a, b) in self._weights[link_class]

    def weights(self, a: str, b: str, link_class: LinkClass) -> Weights | None:
        """Return what is known of a link; None if there is none."""
        return self._weights[link_class].get(ends(a, b))

    def near(self, uid: str, link_class: LinkClass) -> Mapping[str, Nanos]:
        """Return the cost to each broker that ``uid`` has such a link to; do not change it."""
        return self._costs[link_class].get(uid, _NOTHING)

    def links(self) -> Iterator[tuple[str, str, LinkClass, Weights]]:
        """Yield every link once, normal ones first, the smaller uid first."""
        for link_class in LinkClass:
            for (a, b), weights in self._weights[link_class].items():
                yield a, b, link_class, weights

    @property
    def size(self) -> int:
        """Number of links of all classes."""
        return sum(len(found) for found in self._weights.values())

    def take_changed(self, link_class: LinkClass) -> set[Ends]:
        """Return the links of a class that came, went or changed their cost since the last call."""
        changed = self._changed[link_class]
        self._changed[link_class] = set()
        return changed

    @property
    def is_changed(self) -> bool:
        """There is something to take."""
        return any(self._changed.values())


def as_networkx(graph: Multigraph) -> MultiGraph[str]:
    """Return the multigraph for networkx.

    Nodes are uids; the key of an edge is the name of its class, its attributes are the fields of
    :class:`~overlay.multigraph.weights.Weights` and ``cost_ns``. So the cheapest secure path is
    ``networkx.dijkstra_path`` over the edges whose key is ``"secure"``, with weight ``cost_ns``.
    """
    import networkx

    view: MultiGraph[str] = networkx.MultiGraph()
    for a, b, link_class, weights in graph.links():
        attributes = {name: getattr(weights, name) for name in weights.__struct_fields__}
        cost = cost_ns(link_class, weights)
        view.add_edge(a, b, key=link_class.value, cost_ns=cost, **attributes)
    return view
