"""The weighted multigraph of a whole overlay, from what its brokers say of their links.

A broker itself knows no further than two steps (:mod:`ges.topology.horizon`); who wants to see
everything asks all brokers (:mod:`ges.operations.walk`) and puts their answers together here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ges.operations.links import told_links
from ges.operations.resilience import Resilience, measure
from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass, nanos
from overlay.multigraph.graph import Multigraph
from overlay.multigraph.weights import Weights, worse


def multigraph(brokers: Iterable[Status]) -> Multigraph:
    """Return the graph of all links that both ends tell of and have measured.

    Each has the worse of what its two ends measured. An express link that an end has demoted is
    left out. For networkx give it to :func:`overlay.multigraph.graph.as_networkx`.
    """
    graph, told = Multigraph(), told_links(brokers)
    for link_class in LinkClass:
        for (low, high, its_class), ends in told.items():
            if its_class is not link_class or len(ends) < 2:
                continue
            if any(end.rtt_ms is None or end.demoted for end in ends.values()):
                continue
            if link_class.is_base or graph.has(low, high, LinkClass.NORMAL):
                graph.put(low, high, link_class, worse(*map(_weights, ends.values())))
    return graph


def resilience_of(brokers: Iterable[Status]) -> dict[LinkClass, Resilience]:
    """Return for each class how many brokers its links survive the loss of.

    The brokers counted are all for normal links; for the others those that have such a link.
    """
    brokers = tuple(brokers)
    graph = multigraph(brokers)
    found = {}
    for link_class in LinkClass:
        uids = [status.uid for status in brokers]
        if not link_class.is_base:
            linked = {uid for *both, each, _ in graph.links() if each is link_class for uid in both}
            uids = [uid for uid in uids if uid in linked]
        links = {uid: [o for o in uids if graph.has(uid, o, link_class)] for uid in uids}
        found[link_class] = measure(links)
    return found


def without_events(brokers: Iterable[Status]) -> frozenset[frozenset[str]]:
    """Return the links that no event takes, each by the uids at its ends."""
    return frozenset(
        frozenset((status.uid, link.uid))
        for status in brokers
        for link in status.links
        if not link.carries
    )


def resilience_of_events(brokers: Iterable[Status]) -> Resilience | None:
    """Return how many lost brokers those normal links survive that events may take.

    None: events may take all of them.
    """
    brokers = tuple(brokers)
    graph, closed = multigraph(brokers), without_events(brokers)
    if not closed:
        return None
    uids = [status.uid for status in brokers]
    return measure(
        {
            uid: [
                other
                for other in uids
                if graph.has(uid, other, LinkClass.NORMAL) and frozenset((uid, other)) not in closed
            ]
            for uid in uids
        }
    )


def _weights(link: LinkStatus) -> Weights:
    queued_s = link.queued_bytes / link.capacity if link.capacity else 0.0
    return Weights(
        nanos((link.rtt_ms or 0.0) / 1000),
        nanos((link.jitter_ms or 0.0) / 1000),
        link.capacity,
        link.traffic,
        nanos(queued_s),
        round(1000 * link.resets),
    )
