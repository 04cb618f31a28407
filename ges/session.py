"""One client attached to this broker, as the broker sees it."""

from __future__ import annotations

import trio

from overlay.connection import Connection
from overlay.identity import PeerIdentity
from overlay.ids import LinkClass

CLIENT_QUEUE_BYTES = 16 * 1024 * 1024
MAX_SUBSCRIPTIONS = 4096


class Session:
    """A client's connection, subscriptions, and the last events taken from it."""

    __slots__ = (
        "accepted",
        "connection",
        "filters",
        "identity",
        "incarnation",
        "last",
        "publisher",
        "serving",
        "told_dropped",
        "uid",
    )

    def __init__(
        self,
        uid: str,
        incarnation: int,
        connection: Connection,
        identity: PeerIdentity | None = None,
    ) -> None:
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
