"""Whom an event that is published here reaches, and why it is refused if that is not everybody."""

from __future__ import annotations

from ges.routing.delivery import Deliveries
from ges.routing.plans import Plans
from ges.routing.subscriber import Subscriber
from ges.topology.secure_graph import SecureGraph, describe
from ges.wire.events import Head
from overlay.ids import LinkClass


class Reach:
    """Judges events of clients."""

    def __init__(self, plans: Plans, graph: SecureGraph, deliveries: Deliveries) -> None:
        """``graph``: of the secure links between brokers."""
        self._plans = plans
        self._graph = graph
        self._deliveries = deliveries

    def why_not(self, client: Subscriber, head: Head) -> str | None:
        """Return why an event from a client cannot be taken, or None."""
        if self._plans.here is None:
            return "this broker is not on the ring at the moment"
        if not head.secure:
            return None
        if not client.secure:
            return "the hop from the client to its broker is not secure; attach over chordals://"
        if self._graph.is_overfull:
            return "more brokers hold identities than this one can keep track of"
        unreachable = self._graph.out_of_reach()
        if unreachable:
            return f"no all-secure path to broker {describe(unreachable)}"
        if self._plans.normal.is_empty or self._graph.reaches_anybody():
            return None
        if self._deliveries.serves(LinkClass.SECURE, head.topic):
            return None
        return "no all-secure path from this broker to any other"
