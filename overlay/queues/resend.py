"""Reliable streams over links that break: count, acknowledge, send again.

All events of one class that one broker sends to another are a *stream*, over however many
connections. TCP keeps order within a connection, so no event carries a number: both ends count. A
connection begins with :class:`Resume`, the number of the event that comes next on it; the receiver
drops those it has already, and now and then acknowledges how many it has (:class:`Ack`). Events
that are not acknowledged are kept, and sent again, in order, on the next connection.

So it does not matter what became of a connection: cut within a frame, silent, or still bringing
what it held when its successor is up. A number is taken once. (Sequence numbers and cumulative
acknowledgements are TCP's, RFC 9293; here they outlive the connection.) Pure;
:mod:`overlay.queues.streams` has those of all links, :mod:`overlay.queues.outbox` keeps to the
window.
"""

from __future__ import annotations

from collections import deque

from overlay.errors import ProtocolError
from overlay.ids import Nanos, WireCount, nanos
from overlay.machine import LinkMessage
from overlay.wire.frames import Bytes

WINDOW_FRAMES = 65536  #: events sent and not acknowledged, at most; then the next one waits ...
WINDOW_BYTES = 8 * 1024 * 1024  #: ... or bytes
KEPT_BYTES = 32 * 1024 * 1024  #: kept for a broker to which there is no link at the moment ...
KEPT_FRAMES = 262144  #: ... and events
KEPT_BYTES_TOTAL = 256 * 1024 * 1024  #: of memory, kept for all such brokers together
ITEM_BYTES = 128  #: of memory for an item that is kept, beside its own bytes
#: Acknowledged after so many events ... Each acknowledgement costs both ends a system call or two,
#: and the other end a task switch, so they are as rare as the window allows.
ACK_FRAMES = WINDOW_FRAMES // 8
ACK_BYTES = WINDOW_BYTES // 8  #: ... or bytes, and at the latest ...
ACK_NS: Nanos = nanos(0.2)  #: ... after this

Item = tuple[Bytes, int]  #: whole frames in one piece, and how many there are


class Resume(LinkMessage, frozen=True):
    """The first event on this connection has number ``first`` in that stream.

    ``life``: incarnation of the sender in which the stream began; ``stream``: its number in there.
    """

    life: WireCount
    stream: WireCount
    first: WireCount


class Ack(LinkMessage, frozen=True):
    """All events of the stream before number ``count`` are taken."""

    stream: WireCount
    count: WireCount


#: What both ends say of streams; part of what may be said on every link.
STREAM_MESSAGES = (Resume, Ack)


class Outgoing:
    """A stream at its sender: what is not acknowledged yet, oldest first."""

    __slots__ = (
        "_acked",
        "_highest",
        "_kept",
        "first",
        "incarnation",
        "life",
        "next",
        "number",
        "size",
    )

    def __init__(self, life: int, number: int, incarnation: int) -> None:
        self.life = life
        self.number = number
        self.incarnation = incarnation  #: of the receiver: a stream is for one life of it
        self.first = 0  #: number of the oldest event kept
        self.next = 0  #: number of the next to be sent
        self.size = 0  #: bytes kept
        self._highest = 0  #: number of the next that was never sent, on any connection
        self._acked = 0  #: the other end has all before this one
        self._kept: deque[Item] = deque()

    @property
    def count(self) -> int:
        """How many events are kept."""
        return self.next - self.first

    @property
    def acknowledged(self) -> int:
        """The other end has all events before this number."""
        return self._acked

    @property
    def memory(self) -> int:
        """Bytes of memory that what is kept takes."""
        return self.size + ITEM_BYTES * len(self._kept)

    @property
    def is_full(self) -> bool:
        """So much is not acknowledged that nothing may follow for now."""
        return self.count >= WINDOW_FRAMES or self.size >= WINDOW_BYTES

    @property
    def has_room(self) -> bool:
        """More may be kept, without a connection to send it over."""
        return self.count < KEPT_FRAMES and self.size < KEPT_BYTES

    def resume(self) -> Resume:
        """Return what a new connection begins with."""
        return Resume(self.life, self.number, self.first)

    def keep(self, item: Bytes, events: int) -> None:
        """Take whole frames that are sent now, or will be."""
        self._kept.append((item, events))
        self.next += events
        self.size += len(item)
        if self.next <= self._acked:
            self._forget()  # it is sent in vain

    def on_ack(self, ack: Ack) -> None:
        """Forget what the other end has.

        Raises:
            ProtocolError: it acknowledges what was never sent.
        """
        if ack.stream != self.number:
            return  # of an earlier stream
        sent = max(self.next, self._highest)
        if ack.count > sent:
            raise ProtocolError(f"{ack.count} events acknowledged, {sent} were sent")
        self._acked = max(self._acked, ack.count)
        self._forget()

    def _forget(self) -> None:
        kept = self._kept
        # What is acknowledged in part is kept whole; the receiver knows what it has of it.
        while kept and self.first + kept[0][1] <= self._acked:
            item, events = kept.popleft()
            self.first += events
            self.size -= len(item)

    def take_back(self) -> list[Item]:
        """Return all that is kept, to be sent again with the same numbers."""
        self._highest = max(self._highest, self.next)
        self.next = self.first
        return self._empty()

    def give_away(self) -> list[Item]:
        """Return all that is kept; it goes another way, or is given up, and the numbers with it."""
        self.first = self.next
        return self._empty()

    def _empty(self) -> list[Item]:
        items = list(self._kept)
        self._kept.clear()
        self.size = 0
        return items


class Incoming:
    """A stream at its receiver: how many of its events have been taken."""

    __slots__ = ("acknowledged", "count", "life", "number")

    def __init__(self, resume: Resume) -> None:
        self.life = resume.life
        self.number = resume.stream
        self.count = resume.first
        self.acknowledged = resume.first

    def is_of(self, resume: Resume) -> bool:
        """Say whether a connection that begins so carries this stream."""
        return (self.life, self.number) == (resume.life, resume.stream)

    def ack(self) -> Ack:
        """Return what tells the sender how much has been taken."""
        self.acknowledged = self.count
        return Ack(self.number, self.count)


class ConnectionPart:
    """One connection's part of a stream, at the receiver."""

    __slots__ = ("incoming", "next", "size")

    def __init__(self, incoming: Incoming, first: int) -> None:
        self.incoming = incoming
        self.next = first  #: number of the event that comes next
        self.size = 0  #: bytes read since the last acknowledgement
        # What is missing up to there the sender has given up, or sent another way.
        incoming.count = max(incoming.count, first)

    def take(self, count: int) -> int:
        """Note that ``count`` events have come; return how many of them, the first, to drop."""
        incoming = self.incoming
        begun = self.next
        self.next = end = begun + count
        taken = incoming.count
        if end > taken:
            incoming.count = end
        if begun >= taken:
            return 0
        return min(count, taken - begun)

    @property
    def is_due(self) -> bool:
        """An acknowledgement should not wait any longer."""
        incoming = self.incoming
        unsaid = incoming.count - incoming.acknowledged
        return unsaid >= ACK_FRAMES or (unsaid > 0 and self.size >= ACK_BYTES)
