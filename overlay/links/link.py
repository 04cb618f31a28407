"""A link that is up, and what the layer above is told of links and their frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import Fact
from overlay.net.connection import Connection
from overlay.net.transport import Wire
from overlay.queues.pace import Allowance
from overlay.queues.resend import ConnectionPart, Item
from overlay.security.identity import PeerIdentity
from overlay.shares import NOWHERE, Source
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.greetings import Hello, Refusal, Welcome
from overlay.wire.versions import OLDEST, Agreement


@dataclass(frozen=True, slots=True)
class Greeted:
    """What a link begins with, once both ends have greeted."""

    peer: Peer
    url: str  #: at which the other end is called, or was
    link_class: LinkClass
    wire: Wire
    reader: FrameReader  #: holds what came behind the greeting
    agreed: Agreement  #: version, and the capabilities of both ends
    welcome: Welcome | None = None  #: what is still to be said first; None: this end has called
    name: str = ""  #: of the broker at the other end, for people


class Link:
    """A link that is up, as the driver holds it."""

    __slots__ = (
        "agreed",
        "allowance",
        "arrivals",
        "connection",
        "has_spoken",
        "identity",
        "link_class",
        "name",
        "parted",
        "peer",
        "reader",
        "running",
        "since_ns",
        "source",
    )

    def __init__(
        self,
        peer: Peer,
        link_class: LinkClass,
        connection: Connection,
        since_ns: Nanos,
        agreed: Agreement = OLDEST,
        identity: PeerIdentity | None = None,
        reader: FrameReader | None = None,
        source: Source = NOWHERE,
        name: str = "",
    ) -> None:
        self.parted = trio.Event()  #: the other end has said good-bye
        self.peer = peer
        self.link_class = link_class
        self.connection = connection
        self.since_ns = since_ns
        self.agreed = agreed  #: version, and the capabilities of both ends
        self.identity = identity  #: as certified in the handshake; None: plain
        self.reader = reader
        self.has_spoken = False  #: something has come over it since the greetings
        self.source = source  #: to whom its slot counts
        self.allowance = Allowance()  #: to wait for subscribers that lag, before it is read again
        self.name = name  #: of the broker at the other end, as it says; empty: it has none
        self.running = trio.CancelScope()  #: its reading and writing
        #: counts what comes; None: the other end does not
        self.arrivals: ConnectionPart | None = None

    @property
    def held_bytes(self) -> int:
        """Memory that the link takes, beside what is taken of what has come.

        It is what waits for the other end to take it, or to say that it has, and frames from there
        that are not whole yet.
        """
        stream = self.connection.outbox.stream
        unacknowledged = stream.memory if stream is not None else 0
        unfinished = self.reader.kept_bytes if self.reader is not None else 0
        return self.connection.memory + unacknowledged + unfinished

    def give_up(self) -> None:
        """End it now: too much is held for the other end, or of it."""
        self.connection.give_up()
        self.running.cancel()

    def arrived(self, count: int) -> int:
        """Note that so many events that are not express have come over the link.

        Returns how many of them, the first, have come before over an earlier connection, and are
        to be dropped. The layer above calls this, as it alone can tell express events from others;
        what it does not count is never acknowledged.
        """
        return self.arrivals.take(count) if self.arrivals is not None else 0


class Upper(Protocol):
    """What the layer above does with what the driver brings."""

    def on_fact(self, fact: Fact) -> None:
        """The machine says something."""

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        """Frames came over ``link`` that are no control messages, one behind the other.

        Done when what is returned is exhausted; between its items others may have their turn
        (:mod:`overlay.net.slices`).

        Raises:
            ProtocolError: one makes no sense; the link is closed.
        """

    async def on_batch(self, link: Link) -> None:
        """All frames that had arrived together over ``link`` have been handed over.

        Nothing more is read from it before this returns.
        """

    def on_changes(self) -> None:
        """Links came up or went down, or are to be made, or facts were told; all of them are."""

    def on_cut(self, link: Link) -> None:
        """A link ended otherwise than in peace; what was under way on it waits for the next."""

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """These events were for ``peer``, which will not get them: that life of it is over, the
        link is not wanted any more, or there were too many of them."""

    def judge_broker(self, wire: Wire) -> Refusal | None:
        """A broker calls: return why it may not link to this one, or None.

        The layer above counts and logs its refusals itself.
        """

    @property
    def needed(self) -> Collection[str]:
        """Return with whom this broker keeps up links of its own: their uids."""

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """A client has greeted; serve it until it goes."""
