"""The weighted multigraph: brokers, and parallel links of three classes (paper 004, section 3.3).

Between two brokers there is at most one link of each class, and no express or secure link without a
normal one: E_u and E_s are subsets of E_n. Links lead both ways at the same cost.

:class:`Multigraph` is the graph of an overlay as its brokers tell of it, for people. No broker
routes by it (see :mod:`ges.gateways.graph`). :func:`as_networkx` gives the same graph to networkx.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from overlay.errors import InvariantError
from overlay.ids import LinkClass
from overlay.multigraph.cost import cost_ns
from overlay.multigraph.weights import Weights

if TYPE_CHECKING:
    from networkx import MultiGraph

Ends = tuple[str, str]  #: uids at the ends of a link, the smaller one first


def ends(a: str, b: str) -> Ends:
    """Return the ends of a link in order."""
    return (a, b) if a < b else (b, a)


class Multigraph:
    """Links by class and ends, with their weights."""

    def __init__(self) -> None:
        self._weights: dict[LinkClass, dict[Ends, Weights]] = {c: {} for c in LinkClass}

    def put(self, a: str, b: str, link_class: LinkClass, weights: Weights) -> None:
        """Add a link, or change its weights.

        Raises:
            InvariantError: the ends are the same, or there is no normal link beside this one.
        """
        key = ends(a, b)
        if a == b or (not link_class.is_base and not self.has(a, b, LinkClass.NORMAL)):
            raise InvariantError(f"BUG: no {link_class.value} link can be between {a} and {b}")
        self._weights[link_class][key] = weights

    def has(self, a: str, b: str, link_class: LinkClass) -> bool:
        """Say whether there is such a link."""
        return ends(a, b) in self._weights[link_class]

    def links(self) -> Iterator[tuple[str, str, LinkClass, Weights]]:
        """Yield every link once, normal ones first, the smaller uid first."""
        for link_class in LinkClass:
            for (a, b), weights in self._weights[link_class].items():
                yield a, b, link_class, weights


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
