"""One client attached to this broker, as the broker sees it."""

from __future__ import annotations

import trio

from ges.access import NOBODY
from ges.gate import Admission
from overlay.connection import Connection
from overlay.identity import PeerIdentity
from overlay.ids import LinkClass

CLIENT_QUEUE_BYTES = 16 * 1024 * 1024
MAX_VERDICTS = 4096  #: topics of which is remembered whether a client may publish to them
LEVEL_BYTES = 512  #: of memory for a level of a filter, at most


EVERYTHING = Admission(NOBODY, None, None)  #: where there are no rules


def filter_cost(text: str) -> int:
    """Return how many bytes of memory a filter takes at most, the tree of filters included."""
    return (text.count("/") + 2) * LEVEL_BYTES + 4 * len(text)


class Session:
    """A client's connection, subscriptions, and the last events taken from it."""

    __slots__ = (
        "accepted",
        "admission",
        "connection",
        "filter_bytes",
        "filters",
        "identity",
        "incarnation",
        "last",
        "publisher",
        "serving",
        "told_dropped",
        "uid",
        "verdicts",
    )

    def __init__(
        self,
        uid: str,
        incarnation: int,
        connection: Connection,
        admission: Admission = EVERYTHING,
        identity: PeerIdentity | None = None,
    ) -> None:
        self.admission = admission  #: who it is, and what it may
        self.verdicts: dict[bytes, str | None] = {}  #: why not, by topic
        self.filter_bytes = 0  #: memory its filters may take
        self.uid = uid
        self.publisher = bytes.fromhex(uid)
        self.incarnation = incarnation
        self.connection = connection
        self.identity = identity  #: as certified in the handshake; None: plain
        self.serving = trio.CancelScope()
        self.filters: dict[int, tuple[str, LinkClass | None]] = {}  #: by subscription number
        self.accepted: dict[LinkClass, int] = {}  #: taken, but not yet told the client
        self.told_dropped = (0, 0)  #: normal and express events dropped, as last told the client
        self.last: dict[bool, int] = {}  #: sequence taken last, of secure events and others

    def why_not(self, topic: bytes) -> str | None:
        """Return why the rules do not let it publish to a checked topic, or None."""
        permissions = self.admission.permissions
        if permissions is None:
            return None
        if topic not in self.verdicts:
            if len(self.verdicts) >= MAX_VERDICTS:
                self.verdicts.clear()
            decision = permissions.publish(topic.decode())
            self.verdicts[topic] = None if decision.allowed else decision.reason
        return self.verdicts[topic]

    @property
    def dropped(self) -> tuple[int, int]:
        """Normal and express events that were dropped as the client took them too slowly."""
        outbox = self.connection.outbox
        return outbox.normal.dropped, outbox.express.dropped

    @property
    def secure(self) -> bool:
        """Secure events may travel on this hop."""
        return self.connection.secure

    def wants(self, number: int, link_class: LinkClass) -> bool:
        """Say whether a subscription takes events of that class, and may."""
        if link_class is LinkClass.SECURE and not self.secure:
            return False
        return self.filters[number][1] in (None, link_class)


#: Who gets an event, and the numbers of the subscriptions as they stand before it.
Targets = tuple[tuple[Session, bytes], ...]
