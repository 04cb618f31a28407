"""Links on trio: they come up, are replaced, and end, in peace or not.

The decisions are in :mod:`overlay.links.keeping`; what is said over one of them while it is up, in
:mod:`overlay.links.conversation`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import trio

from overlay.ids import LinkClass, Nanos, short
from overlay.links.acknowledging import Acknowledging
from overlay.links.bulkhead import Bulkhead
from overlay.links.conversation import Conversation
from overlay.links.counted_log import CountedLog
from overlay.links.first_seen import FirstSeen
from overlay.links.keeping import PARTING_SECONDS, Keeping
from overlay.links.link import Greeted, Link, Upper
from overlay.links.parting import Parting
from overlay.machine import Closed, Input
from overlay.net.connection import BROKEN, Connection
from overlay.net.precedence import Precedence
from overlay.net.transport import Wire, close
from overlay.net.turn import Turn
from overlay.queues.outbox import WRITE_BYTES
from overlay.shares import source_of
from overlay.wire.codec import READ_BYTES, MessageCodec
from overlay.wire.frames import MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Goodbye, LinkTable

SECURE_WRITE_BYTES = 256 * 1024  #: no express event goes that way; TLS gains by larger writes
LINK_QUEUE_BYTES = 64 * 1024 * 1024


class Links(Keeping[Link]):
    """All links of one broker. The tasks that found a link stay in :meth:`run` while it lives."""

    def __init__(
        self,
        table: LinkTable,
        codec: MessageCodec,
        upper: Upper,
        *,
        give: Callable[[Input], None],
        now: Callable[[], Nanos],
        incarnation: Callable[[], int],
        bulkhead: Bulkhead,
        counted_log: CountedLog,
        first_seen: FirstSeen,
    ) -> None:
        """``give`` hands the machine an input; ``incarnation`` returns this broker's, as it is."""
        parting = Parting(partial(bulkhead.contain, self._go_another_way))
        super().__init__(
            table,
            codec,
            upper,
            parting,
            give=give,
            incarnation=incarnation,
            counted_log=counted_log,
        )
        self.parting: Parting = parting
        self.turn = Turn()
        self.acknowledging = Acknowledging(self.up, self.streams, codec, self.turn)
        self.precedence = Precedence()
        self._conversation = Conversation(
            codec,
            upper,
            self.turn,
            self.precedence,
            self.acknowledging,
            counted_log,
            give=give,
            on_goodbye=self.part,
        )
        self._now = now
        self._bulkhead = bulkhead
        self._quiet = trio.Event()
        self._first_seen = first_seen

    async def run(self, greeted: Greeted) -> None:
        """Read and write until the link ends; the machine is told when it comes up and ends."""
        peer, link_class, wire = greeted.peer, greeted.link_class, greeted.wire
        reader, agreed = greeted.reader, greeted.agreed
        connection = Connection(
            wire.stream,
            secure=wire.identity is not None,
            limit_bytes=LINK_QUEUE_BYTES,
            turn=self.turn,
            write_bytes=WRITE_BYTES if not link_class.is_secret else SECURE_WRITE_BYTES,
        )
        if greeted.welcome is not None:
            # An acknowledgement of what came over an earlier connection must not overtake it.
            connection.outbox.first = GREETINGS.encode(greeted.welcome)
        reader.limit(MAX_FRAME_BYTES)
        reader.agree(agreed.version)
        source = source_of(wire.remote, wire.identity.uid if wire.identity is not None else None)
        link = Link(
            peer,
            link_class,
            connection,
            self._now(),
            agreed,
            wire.identity,
            reader,
            source,
            greeted.name,
        )
        if link_class.is_timed:
            self.precedence.enter(connection.fileno)
        self._first_seen.note(
            "a broker is linked",
            (peer.uid, source, wire.identity is not None),
            peer=short(peer.uid),
            host=wire.remote,
            certified=wire.identity is not None,
        )
        self.enter(link, greeted.url)
        reason: Closed | None = None
        try:
            try:
                reason = await self._bulkhead.contain(
                    partial(self._conversation.hold, link), reader
                )
            finally:
                self.precedence.leave(connection.fileno)
                ended_by_itself = self.wind_up(link)
                self._quiet.set()
            if ended_by_itself:
                self.tell_end(link, reason)
        finally:
            await close(wire.stream)

    def cut(self, uid: str, link_class: LinkClass, reason: Closed) -> None:
        """End a link at once: what is queued is not sent, and nothing more is read from it."""
        link = self.up.get((uid, link_class))
        if link is not None:
            self._take_back(link)
            link.connection.abort()
            link.running.cancel()
            self._end(link, reason)

    async def decline(self, wire: Wire, version: int) -> None:
        """Do without a link that the other end has made, as its own call has won meanwhile.

        Until that is answered it holds this one for its link, and must not take it for broken: it
        is told that the link is replaced, and closes it. It sends its events again.
        """
        with trio.move_on_after(PARTING_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(self._codec.encode(Goodbye(Closed.REPLACED), version))
            while await wire.stream.receive_some(READ_BYTES):
                pass

    async def drained(self) -> None:
        """Wait until no link is left, as after a machine has left."""
        while self.running:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def _go_another_way(self, link: Link) -> None:
        self.go_another_way(link)
