"""The table of links: they come up, are replaced, and end, in peace or not.

What is said over one of them while it is up: :mod:`overlay.links.conversation`.
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
from overlay.links.link import Greeted, Link, Upper
from overlay.links.parting import Parting
from overlay.machine import Closed, CloseLink, Input, LinkDown, LinkUp
from overlay.net.connection import BROKEN, FINISH_SECONDS, Connection
from overlay.net.precedence import Precedence
from overlay.net.transport import Wire, close
from overlay.net.turn import Turn
from overlay.queues.outbox import WRITE_BYTES
from overlay.queues.streams import RELIABLE, Key, Streams
from overlay.wire.codec import READ_BYTES, MessageCodec
from overlay.wire.frames import MAX_FRAME_BYTES
from overlay.wire.greetings import GREETINGS, Goodbye, LinkTable
from overlay.wire.versions import STREAMS

SECURE_WRITE_BYTES = 256 * 1024  #: no express event goes that way; TLS gains by larger writes
LINK_QUEUE_BYTES = 64 * 1024 * 1024
PARTING_SECONDS = 10.0  #: for both ends of a link given up in peace to send what they have queued

#: Ends of a link that lose nothing: both ends go on, and send what they have queued.
PEACEFUL = frozenset({Closed.UNWANTED, Closed.REPLACED})


class Links:
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
    ) -> None:
        """``give`` hands the machine an input; ``incarnation`` returns this broker's, as it is."""
        self.up: dict[Key, Link] = {}
        self.parting = Parting(partial(bulkhead.contain, self._go_another_way))
        self.streams = Streams()
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
            on_goodbye=self._part,
        )
        self._table = table
        self._codec = codec
        self._upper = upper
        self._give = give
        self._now = now
        self._incarnation = incarnation
        self._bulkhead = bulkhead
        self._counted_log = counted_log
        self.running: dict[Link, None] = {}  #: links whose tasks have not ended; some are not up
        self._quiet = trio.Event()

    async def run(self, greeted: Greeted) -> None:
        """Read and write until the link ends; the machine is told when it comes up and ends."""
        peer, link_class, wire = greeted.peer, greeted.link_class, greeted.wire
        reader, agreed = greeted.reader, greeted.agreed
        connection = Connection(
            wire.stream,
            secure=wire.identity is not None,
            limit_bytes=LINK_QUEUE_BYTES,
            turn=self.turn,
            write_bytes=WRITE_BYTES if link_class is not LinkClass.SECURE else SECURE_WRITE_BYTES,
        )
        if greeted.welcome is not None:
            # An acknowledgement of what came over an earlier connection must not overtake it.
            connection.outbox.first = GREETINGS.encode(greeted.welcome)
        reader.limit(MAX_FRAME_BYTES)
        reader.agree(agreed.version)
        link = Link(peer, link_class, connection, self._now(), agreed, wire.identity, reader)
        key = (peer.uid, link_class)
        old = self.up.get(key)
        self.up[key] = link
        if link_class in RELIABLE and STREAMS in agreed.capabilities:
            self._go_on(key, link)
        if old is not None:
            self._say_goodbye(old, Closed.REPLACED)
        if link_class is LinkClass.EXPRESS:
            self.precedence.enter(connection.fileno)
        self.running[link] = None
        self._give(LinkUp(peer, greeted.url, link_class))
        self._upper.on_changes()
        reason: Closed | None = None
        try:
            try:
                reason = await self._bulkhead.contain(
                    partial(self._conversation.hold, link), reader
                )
            finally:
                ended_by_itself = self._wind_up(link)
            if ended_by_itself:
                # Who parts in peace forgets the link first: here it broke before the end. The
                # machine hears of it before anything is waited for, as the next link may come up
                # any moment, and would be taken for the one that broke.
                if reason is None or reason in PEACEFUL:
                    reason = Closed.LOST
                self._tell_end(link, reason)
        finally:
            await close(wire.stream)

    def close(self, effect: CloseLink) -> None:
        """Give a link up, after what is queued; the machine, which wants it so, is not told."""
        link = self.up.pop((effect.uid, effect.link_class), None)
        if link is not None:
            self._table.closed(effect.uid, effect.link_class)
            self._say_goodbye(link, effect.reason)
            if effect.reason not in PEACEFUL:
                if effect.reason is not Closed.LEAVING:
                    self._take_back(link)
                self._upper.on_cut(link)

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
        is told that the link is replaced, and closes it. What it sends it sends again.
        """
        with trio.move_on_after(PARTING_SECONDS), contextlib.suppress(*BROKEN):
            await wire.stream.send_all(self._codec.encode(Goodbye(Closed.REPLACED), version))
            while await wire.stream.receive_some(READ_BYTES):
                pass

    def stay(self, uid: str, link_class: LinkClass) -> None:
        """A call that was to replace a link has led nowhere; the link stays if it still can."""
        link = self.up.get((uid, link_class))
        if link is not None and link.parted.is_set():
            self._part(link, Closed.REPLACED)

    async def drained(self) -> None:
        """Wait until no link is left, as after a machine has left."""
        while self.running:
            self._quiet = trio.Event()
            await self._quiet.wait()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, key: Key, link: Link) -> None:
        """Go on with the stream to the other end where it has got to."""
        connection, peer = link.connection, link.peer
        resume, again, orphans = self.streams.attach(
            key, peer, self._incarnation(), connection.outbox
        )
        connection.send(self._codec.encode(resume, link.agreed.version))
        connection.send_again(again)
        if again:
            self._counted_log.count("events_sent_again", sum(events for _, events in again))
        if orphans:
            self._upper.on_orphans(peer, link.link_class, orphans)

    def _take_back(self, link: Link, *, is_over: bool = False) -> None:
        """Keep what a connection has not brought over, for the next one.

        ``is_over``: the link was given up, and there is no next one.
        """
        key = (link.peer.uid, link.link_class)
        is_taken = self.streams.detach(key, link.connection.outbox)
        if is_taken and (is_over or link.connection.overflowed):
            orphans = self.streams.give_away(key)
            if orphans:
                self._upper.on_orphans(link.peer, link.link_class, orphans)
        while is_taken and (too_many := self.streams.relieve()) is not None:
            peer, link_class, items = too_many
            self._counted_log.count("events_kept_given_up", sum(events for _, events in items))
            self._upper.on_orphans(peer, link_class, items)

    async def _go_another_way(self, link: Link) -> None:
        """A link that was given up does not bring over what is under way on it."""
        self._take_back(link, is_over=True)
        if link.parted.is_set():
            link.connection.end()  # nor is there anything left to hear of

    def _say_goodbye(self, link: Link, reason: Closed) -> None:
        """Send this last; the other end then sends what it has queued, and closes.

        Where nobody has use for the link any more, each end says so, and the other acknowledges
        what came before: so that neither sends it once more, another way.
        """
        self._acknowledge(link)
        link.connection.send(self._codec.encode(Goodbye(reason), link.agreed.version))
        seconds = PARTING_SECONDS if reason in PEACEFUL else FINISH_SECONDS
        link.connection.finish(seconds, is_over=reason is not Closed.UNWANTED)
        if reason in PEACEFUL:
            self.parting.note(link)

    def _acknowledge(self, link: Link) -> None:
        """Say what has come, if it can be said yet."""
        if link.arrivals is not None:
            ack = link.arrivals.incoming.ack()
            link.connection.send_ack(self._codec.encode(ack, link.agreed.version))

    def _wind_up(self, link: Link) -> bool:
        """The tasks of a link have ended; say whether it was still in use."""
        connection = link.connection
        connection.end()
        self.precedence.leave(connection.fileno)
        self._counted_log.count("express_dropped", connection.outbox.express.dropped)
        if connection.overflowed:
            self._counted_log.note(
                "links_given_up",
                "link given up, too much is held for its other end or of it",
                peer=short(link.peer.uid),
                link_class=link.link_class.value,
            )
        del self.running[link]
        self.parting.forget(link)
        self._quiet.set()
        ended_by_itself = self._forget(link)
        self._take_back(link, is_over=not ended_by_itself)
        if ended_by_itself:
            self._upper.on_cut(link)
        return ended_by_itself

    def _forget(self, link: Link) -> bool:
        """Take a link out of the tables; False if it is out already, or another in its place."""
        key = (link.peer.uid, link.link_class)
        if self.up.get(key) is not link:
            return False
        del self.up[key]
        self._table.closed(*key)
        return True

    def _part(self, link: Link, reason: Closed) -> None:
        """The other end said good-bye: nothing new goes this way, but what is queued still does.

        It reads on until we close, so no event is lost where a link is given up in peace.
        """
        link.parted.set()
        if reason is Closed.REPLACED and self._table.is_calling(link.peer.uid, link.link_class):
            return  # the other end has taken our call, but we have not heard so: `run` or `stay`
        if reason is not Closed.UNWANTED:
            # One that leaves would not pass on what comes now; and where it holds this link for
            # lost, or for replaced by one that has not come up here, the next one brings it over.
            self._take_back(link)
        self._end(link, reason)
        if reason is Closed.UNWANTED and not link.connection.is_closing:
            self._say_goodbye(link, reason)
            return
        self._acknowledge(link)
        link.connection.finish(PARTING_SECONDS, is_over=reason is not Closed.UNWANTED)
        if reason in PEACEFUL:
            self.parting.note(link)

    def _end(self, link: Link, reason: Closed) -> None:
        if self._forget(link):
            if reason is not Closed.UNWANTED:
                self._upper.on_cut(link)
            self._tell_end(link, reason)

    def _tell_end(self, link: Link, reason: Closed) -> None:
        self._give(LinkDown(link.peer.uid, reason, link.link_class))
        self._upper.on_changes()
