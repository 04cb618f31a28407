"""A link that is up, and what the layer above is told of links and their frames."""

from __future__ import annotations

from typing import Protocol

import trio

from overlay.codec import FrameReader, Run
from overlay.connection import Connection
from overlay.handshake import Hello
from overlay.identity import PeerIdentity
from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import Fact
from overlay.transport import Wire
from overlay.versions import OLDEST, Agreement


class Link:
    """A link that is up, as the driver holds it."""

    __slots__ = (
        "agreed",
        "connection",
        "identity",
        "link_class",
        "parted",
        "peer",
        "running",
        "since_ns",
    )

    def __init__(
        self,
        peer: Peer,
        link_class: LinkClass,
        connection: Connection,
        since_ns: Nanos,
        agreed: Agreement = OLDEST,
        identity: PeerIdentity | None = None,
    ) -> None:
        self.parted = trio.Event()  #: the other end has said good-bye
        self.peer = peer
        self.link_class = link_class
        self.connection = connection
        self.since_ns = since_ns
        self.agreed = agreed  #: version, and the capabilities of both ends
        self.identity = identity  #: as certified in the handshake; None: plain
        self.running = trio.CancelScope()  #: its reading and writing


class Upper(Protocol):
    """What the layer above does with what the driver brings."""

    def on_fact(self, fact: Fact) -> None:
        """The machine says something."""

    def on_frames(self, link: Link, run: Run) -> None:
        """Frames came over ``link`` that are no control messages, one behind the other.

        Raises:
            ProtocolError: one makes no sense; the link is closed.
        """

    async def on_batch(self, link: Link) -> None:
        """All frames that had arrived together over ``link`` have been handed over.

        Nothing more is read from it before this returns.
        """

    def on_links_changed(self) -> None:
        """A link came up or went down."""

    def on_cut(self, link: Link) -> None:
        """A link ended otherwise than in peace; what was under way on it may be lost."""

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """A client has greeted; serve it until it goes."""
