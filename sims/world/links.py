"""The links of one whole broker: what :mod:`overlay.links` does on trio, in virtual time.

The decisions are the same code: :mod:`overlay.links.keeping`, ``taking``, ``acknowledgements`` and
``stillness``. Mirrored here is who reads and writes, and when a connection is over
(:meth:`overlay.links.conversation.Conversation.hold`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Protocol

from overlay.errors import ProtocolError
from overlay.ids import NANOS_PER_SECOND, LinkClass, Peer, nanos, short
from overlay.links.acknowledgements import Acknowledgements
from overlay.links.counted_log import CountedLog
from overlay.links.keeping import Keeping, KeepingUpper
from overlay.links.stillness import LOOK_SECONDS, Stillness
from overlay.links.taking import Taking
from overlay.machine import Closed, Input
from overlay.queues.outbox import WRITE_BYTES
from overlay.queues.resend import ACK_NS, ConnectionPart
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec
from overlay.wire.frames import MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, LinkTable, Welcome
from overlay.wire.versions import Agreement
from sims.world.connections import Connection
from sims.world.processes import Process, Socket

LINK_QUEUE_BYTES = 64 * 1024 * 1024  #: as in :mod:`overlay.links.lifecycle`, and ...
SECURE_WRITE_BYTES = 256 * 1024  #: ... so is this
LOOK_NS = nanos(LOOK_SECONDS)


class _Flag:
    """A ``trio.Event`` that nobody waits for."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True


class Reading(Enum):
    """What a link does with the bytes that come."""

    READS = 0
    HEARS_OUT = 1  #: both ends have parted: acknowledgements alone
    IS_DONE = 2


class Link:
    """A link that is up, or parts; a :class:`ges.routing.outlets.Line`."""

    __slots__ = (
        "agreed",
        "arrivals",
        "connection",
        "is_over",
        "link_class",
        "parted",
        "peer",
        "reader",
        "reading",
        "reason",
    )

    def __init__(
        self,
        peer: Peer,
        link_class: LinkClass,
        connection: Connection,
        agreed: Agreement,
        reader: FrameReader,
    ) -> None:
        self.peer = peer
        self.link_class = link_class
        self.connection = connection
        self.agreed = agreed
        self.reader = reader
        self.arrivals: ConnectionPart | None = None
        self.parted = _Flag()
        self.reading = Reading.READS
        self.reason = Closed.LOST
        self.is_over = False

    def arrived(self, count: int) -> int:
        """Note that so many events have come; return how many had come before."""
        return self.arrivals.take(count) if self.arrivals is not None else 0


class LinksUpper(KeepingUpper[Link], Protocol):
    """What the layer above does with links and their frames."""

    def on_frames(self, link: Link, run: FrameRun) -> None:
        """Frames came that are no control messages.

        Raises:
            ProtocolError: one makes no sense.
        """

    def on_batch(self, link: Link) -> None:
        """All that had arrived together has been handed over."""


class Parting(Stillness[Link]):
    """The links that are given up in peace; looked at now and then."""

    def __init__(self, process: Process, on_still: Callable[[Link], None]) -> None:
        super().__init__()
        self._process = process
        self._on_still = on_still
        self._is_due = False

    def note(self, link: Link) -> None:
        """A link is given up in peace, by us or the other end."""
        self.add(link, self._now())
        self._arm()

    def _look(self) -> None:
        self._is_due = False
        for link in self.look(self._now()):
            self._on_still(link)
        if self:
            self._arm()

    def _arm(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._process.later(self._process.timeline.now + LOOK_NS, self._look)

    def _now(self) -> float:
        return self._process.timeline.now / NANOS_PER_SECOND


class Links(Keeping[Link]):
    """All links of one broker."""

    def __init__(
        self,
        process: Process,
        table: LinkTable,
        codec: MessageCodec,
        upper: LinksUpper,
        *,
        give: Callable[[Input], None],
        incarnation: Callable[[], int],
        counted_log: CountedLog,
    ) -> None:
        """``give`` hands the machine an input; ``incarnation`` returns this broker's, as it is."""
        super().__init__(
            table,
            codec,
            upper,
            Parting(process, self.go_another_way),
            give=give,
            incarnation=incarnation,
            counted_log=counted_log,
        )
        self.acknowledgements = Acknowledgements(self.up, self.streams, codec, self._on_unsaid)
        self._taking = Taking(codec, self.acknowledgements, on_frames=self._on_frames, give=give)
        self._links_upper = upper
        self._process = process
        self._ack_is_due = False
        self.protocol_errors: list[str] = []

    def run(
        self,
        peer: Peer,
        url: str,
        link_class: LinkClass,
        socket: Socket,
        reader: FrameReader,
        agreed: Agreement,
        welcome: Welcome | None = None,
    ) -> None:
        """Both ends have greeted: the link is up. ``welcome``: what is still to be said first."""
        connection = Connection(
            self._process,
            socket,
            limit_bytes=LINK_QUEUE_BYTES,
            write_bytes=WRITE_BYTES if not link_class.is_secret else SECURE_WRITE_BYTES,
        )
        if welcome is not None:
            connection.outbox.first = GREETINGS.encode(welcome)
        reader.limit(MAX_FRAME_BYTES)
        reader.agree(agreed.version)
        link = Link(peer, link_class, connection, agreed, reader)
        socket.on_bytes = partial(self._on_bytes, link)
        socket.on_closed = partial(self._on_closed, link)
        connection.on_change = partial(self._look, link)
        self.enter(link, url)
        self._on_bytes(link, b"")  # what came behind the greeting
        if socket.ended:
            self._on_closed(link)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def _on_bytes(self, link: Link, data: bytes) -> None:
        if link.reading is Reading.IS_DONE:
            return
        reader = link.reader
        try:
            if data:
                reader.feed(data)
                if link.arrivals is not None:
                    link.arrivals.size += len(data)
            runs = reader.runs()
            if link.reading is Reading.HEARS_OUT:
                self._taking.acknowledged(link, runs)
                self._hear_out(link)
                return
            goodbye = self._take(link, runs)
        except ProtocolError as error:
            self.protocol_errors.append(f"{short(link.peer.uid)}: {error}")
            self._counted_log.note("protocol_errors", "protocol error", why=str(error))
            self._end_reading(link, Closed.PROTOCOL)
            return
        if goodbye is None:
            self._links_upper.on_batch(link)
            return
        self.part(link, goodbye)
        if goodbye is Closed.UNWANTED:
            link.reading, link.reason = Reading.HEARS_OUT, goodbye
            self._hear_out(link)
        else:
            self._end_reading(link, goodbye)

    def _take(self, link: Link, runs: list[FrameRun]) -> Closed | None:
        steps = self._taking.steps(link, runs)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                self.acknowledgements.note(link)
                goodbye: Closed | None = stop.value
                return goodbye

    def _on_frames(self, link: Link, run: FrameRun) -> tuple[()]:
        self._links_upper.on_frames(link, run)
        return ()

    def _on_closed(self, link: Link) -> None:
        """The other end has closed, or the connection is broken."""
        if link.reading is Reading.READS:
            self._end_reading(link, Closed.LOST)
        else:
            self._end_reading(link, link.reason)

    def _hear_out(self, link: Link) -> None:
        outbox = link.connection.outbox
        if outbox.stream is None or not (outbox.stream.count or outbox.normal):
            self._end_reading(link, link.reason)

    def _end_reading(self, link: Link, reason: Closed) -> None:
        link.reading, link.reason = Reading.IS_DONE, reason
        link.connection.end()
        self._look(link)

    # ── ending ────────────────────────────────────────────────────────────────────────────────

    def _look(self, link: Link) -> None:
        """See whether the connection of a link is over."""
        if link.is_over:
            return
        connection = link.connection
        now, is_done = self._process.timeline.now, link.reading is Reading.IS_DONE
        is_late = connection.closed_by is not None and now >= connection.closed_by
        parted = link.parted.is_set()
        if (
            connection.is_aborted
            or is_late
            or (is_done and not parted)
            or (parted and is_done and connection.is_written)
        ):
            link.is_over = True
            link.reading = Reading.IS_DONE
            reason = Closed.OVERFLOW if connection.overflowed else link.reason
            if self.wind_up(link):
                self.tell_end(link, reason)
            connection.socket.close()

    # ── acknowledging ─────────────────────────────────────────────────────────────────────────

    def _on_unsaid(self) -> None:
        if not self._ack_is_due:
            self._ack_is_due = True
            self._process.later(self._process.timeline.now + ACK_NS, self._say_all)

    def _say_all(self) -> None:
        self._ack_is_due = False
        self.acknowledgements.say_all()
