"""The streams of one broker: to and from everybody it is or was linked to.

They outlive the links (:mod:`overlay.queues.resend`). Pure: what is to be queued on a connection
goes to its :class:`~overlay.queues.outbox.Outbox`.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.ids import LinkClass, Peer
from overlay.queues import resend
from overlay.queues.outbox import Outbox
from overlay.queues.resend import Ack, ConnectionPart, Incoming, Item, Outgoing, Resume
from overlay.wire.frames import Bytes

MAX_STREAMS = 8192  #: remembered each way; the longest unused go first, if nothing is kept in them


Key = tuple[str, LinkClass]


class Streams:
    """All streams, by the uid of the other end and the class of the links."""

    def __init__(self) -> None:
        self._outgoing: OrderedDict[Key, Outgoing] = OrderedDict()
        self._incoming: OrderedDict[Key, Incoming] = OrderedDict()
        self._used: dict[Key, Outbox] = {}  #: of the connection each stream is sent over
        self._peers: dict[Key, Peer] = {}  #: the other end of each
        self._waiting = 0  #: bytes of memory kept in streams without a connection
        self._count = 0

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    def attach(
        self, key: Key, peer: Peer, life: int, outbox: Outbox
    ) -> tuple[Resume, list[Item], list[Item]]:
        """Send a stream over a new connection from now on.

        ``life``: this broker's incarnation. Returns what the connection begins with, what is to be
        sent again right after that, and what was kept for an earlier life of the peer.
        """
        self.detach(key)
        orphans: list[Item] = []
        stream = self._outgoing.pop(key, None)
        self._waiting -= stream.memory if stream is not None else 0
        if stream is not None and stream.incarnation != peer.incarnation:
            orphans = stream.give_away()
            stream = None
        if stream is None:
            self._count += 1
            stream = Outgoing(life, self._count, peer.incarnation)
        self._outgoing[key], self._peers[key] = stream, peer
        again = stream.take_back()
        outbox.stream = stream
        self._used[key] = outbox
        self._trim()
        return stream.resume(), again, orphans

    def detach(self, key: Key, outbox: Outbox | None = None) -> bool:
        """Take back what a connection has not sent; of ``outbox`` alone, if that is given.

        False: no stream is sent over it.
        """
        used = self._used.get(key)
        if used is None or (outbox is not None and used is not outbox):
            return False
        del self._used[key]
        stream = self._outgoing[key]
        used.stream = None
        for item, events in used.normal.take_events():
            stream.keep(item, events)
        self._waiting += stream.memory
        return True

    @property
    def waiting_bytes(self) -> int:
        """Bytes of memory that are kept for brokers to which there is no connection."""
        return self._waiting

    def waits(self, key: Key) -> bool:
        """Say whether there is a stream, but no connection to send it over."""
        return key in self._outgoing and key not in self._used

    def is_kept(self, key: Key) -> bool:
        """Say whether events wait for a connection."""
        return self.waits(key) and self._outgoing[key].count > 0

    def on_ack(self, key: Key, ack: Ack) -> None:
        """Forget what the other end has.

        Raises:
            ProtocolError: it acknowledges what was never sent.
        """
        stream = self._outgoing.get(key)
        if stream is not None:
            before = stream.memory
            stream.on_ack(ack)
            self._waiting += stream.memory - before if self.waits(key) else 0

    def keep(self, key: Key, item: Bytes, events: int) -> bool:
        """Keep events until there is a link again; False if they cannot be kept."""
        stream = self._outgoing.get(key)
        if stream is None or not self.waits(key) or not stream.has_room:
            return False
        if self._waiting + len(item) > resend.KEPT_BYTES_TOTAL:
            return False
        before = stream.memory
        stream.keep(item, events)
        self._waiting += stream.memory - before
        return True

    def relieve(self, most_bytes: int | None = None) -> tuple[Peer, LinkClass, list[Item]] | None:
        """Return what is kept for the peer that most is kept for, if too much is for all together.

        It goes another way, or is given up. To be called until it returns None. ``most_bytes``: may
        be kept for all; by default as always.
        """
        limit = resend.KEPT_BYTES_TOTAL if most_bytes is None else most_bytes
        if self._waiting <= limit:
            return None
        idle = (key for key in self._outgoing if self.waits(key))
        most = max(idle, key=lambda key: self._outgoing[key].memory)
        return self._peers[most], most[1], self.give_away(most)

    def give_away(self, key: Key) -> list[Item]:
        """Return what is kept where there is no link: it goes another way, or is given up."""
        if not self.waits(key):
            return []
        self._waiting -= self._outgoing[key].memory
        return self._outgoing[key].give_away()

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    def arrivals(self, key: Key, resume: Resume) -> ConnectionPart:
        """A connection begins so; return what counts its events."""
        incoming = self._incoming.pop(key, None)
        if incoming is None or not incoming.is_of(resume):
            incoming = Incoming(resume)
        self._incoming[key] = incoming
        # What was acknowledged may not have been heard: it is said again.
        incoming.acknowledged = min(incoming.acknowledged, resume.first)
        if len(self._incoming) > MAX_STREAMS:
            # Not one of a link that is up: on the next connection it would be forgotten what came.
            idle = (other for other in self._incoming if other not in self._used)
            del self._incoming[next(idle, next(iter(self._incoming)))]
        return ConnectionPart(incoming, resume.first)

    def _trim(self) -> None:
        for key in list(self._outgoing) if len(self._outgoing) > MAX_STREAMS else ():
            if key not in self._used and not self._outgoing[key].count:
                del self._outgoing[key], self._peers[key]
