"""Whether an event may go to clients of this broker, by its realm and by theirs.

For example, an event of realm ``cluster`` is published in cluster 0.0.1, and a client in 0.0.2 has
subscribed to all topics: nobody there gets it. Neither does a client in 0.0.2 whose subscription is
of realm ``cluster``, whatever the realm of the event is.

Mostly such an event does not come here at all, as its source names nobody beyond the realm. It
comes while units change, when events go to all brokers. Pure.
"""

from __future__ import annotations

from ges.gateways.cluster import Cluster
from ges.wire.events import Head
from ges.wire.realms import Realm

MAX_PLACES = 4096  #: of which it is remembered how far away they are


class Realms:
    """How far away events come from, as one broker sees it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[int, int] = {}  #: by place
        self._namings = -1  #: of the cluster, when these were found

    def common(self, head: Head) -> int:
        """Return the level of the smallest unit that has the source of an event and this broker."""
        return self.common_at(head.source) if head.hops else Realm.CLUSTER

    def common_at(self, place: int) -> int:
        """Return the same for what was published at a place on the ring."""
        known, namings = self._known, self._cluster.namings
        if namings != self._namings or len(known) >= MAX_PLACES:
            known.clear()
            self._namings = namings
        found = known.get(place)
        if found is None:
            found = known[place] = self._cluster.common_level(place)
        return found

    def allow(self, head: Head) -> bool:
        """Say whether an event may go to anybody here."""
        return head.realm == Realm.ALL or self.common(head) <= head.realm
