"""The table of links, without I/O: what is done when one comes up, is given up, or ends.

Trio drives it by :class:`overlay.links.lifecycle.Links`, the simulator by
:mod:`sims.world.links`. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from overlay.ids import LinkClass, Peer, short
from overlay.links.counted_log import CountedLog
from overlay.machine import Closed, CloseLink, Input, LinkDown, LinkUp
from overlay.queues.outbox import FINISH_SECONDS, Outbox
from overlay.queues.resend import ConnectionPart, Item
from overlay.queues.streams import Key, Streams
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import Bytes
from overlay.wire.greetings import Goodbye, LinkTable
from overlay.wire.versions import Agreement

PARTING_SECONDS = 10.0  #: for both ends of a link given up in peace to send what they have queued

#: Ends of a link that lose nothing: both ends go on, and send what they have queued.
PEACEFUL = frozenset({Closed.UNWANTED, Closed.REPLACED})


class KeptConnection(Protocol):
    """A connection with its queue; on trio an :class:`overlay.net.connection.Connection`."""

    @property
    def outbox(self) -> Outbox:
        """What waits to be sent."""

    @property
    def is_closing(self) -> bool:
        """Nothing more can be queued but acknowledgements."""

    @property
    def overflowed(self) -> bool:
        """It was given up, as the other end takes too little."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that the kernel has taken so far."""

    def send(self, item: Bytes, events: int = 0) -> None:
        """Queue whole frames that hold so many events."""

    def send_again(self, items: Iterable[Item]) -> None:
        """Queue what an earlier connection has not brought over, however much it is."""

    def send_ack(self, item: Bytes) -> None:
        """Queue an acknowledgement before all else."""

    def go_on(self) -> None:
        """Send what had to wait for an acknowledgement."""

    def finish(self, seconds: float = FINISH_SECONDS, *, is_over: bool = True) -> None:
        """Close after what is queued has been sent, if the other end takes it in time."""

    def end(self) -> None:
        """There is nothing more to acknowledge."""


class Flag(Protocol):
    """Something that happens once; on trio a ``trio.Event``."""

    def is_set(self) -> bool:
        """Say whether it has happened."""

    def set(self) -> None:
        """It happens now."""


class KeptLink(Protocol):
    """A link that is up, or parts; on trio an :class:`overlay.links.link.Link`."""

    arrivals: ConnectionPart | None

    @property
    def peer(self) -> Peer:
        """The broker at its other end."""

    @property
    def link_class(self) -> LinkClass:
        """Normal, express or secure."""

    @property
    def connection(self) -> KeptConnection:
        """What it runs over."""

    @property
    def agreed(self) -> Agreement:
        """Version, and the capabilities of both ends."""

    @property
    def parted(self) -> Flag:
        """The other end has said good-bye."""


L = TypeVar("L", bound=KeptLink)
L_in = TypeVar("L_in", bound=KeptLink, contravariant=True)


class KeepingUpper(Protocol[L_in]):
    """What the layer above does with links that end."""

    def on_changes(self) -> None:
        """Links came up or went down."""

    def on_cut(self, link: L_in) -> None:
        """A link ended otherwise than in peace; what was under way on it waits for the next."""

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """These events were for ``peer``, which will not get them."""


class PartingLinks(Protocol[L_in]):
    """Who watches links that are given up in peace."""

    def note(self, link: L_in) -> None:
        """A link is given up in peace, by us or the other end."""

    def forget(self, link: L_in) -> None:
        """It has ended."""


class Keeping(Generic[L]):
    """All links of one broker, by uid and class, and the streams that outlive them."""

    def __init__(
        self,
        table: LinkTable,
        codec: MessageCodec,
        upper: KeepingUpper[L],
        parting: PartingLinks[L],
        *,
        give: Callable[[Input], None],
        incarnation: Callable[[], int],
        counted_log: CountedLog,
    ) -> None:
        """``give`` hands the machine an input; ``incarnation`` returns this broker's, as it is."""
        self.up: dict[Key, L] = {}
        self.running: dict[L, None] = {}  #: links whose ends have not come; some are not up
        self.streams = Streams()
        self.parting = parting
        self._table = table
        self._codec = codec
        self._upper = upper
        self._give = give
        self._incarnation = incarnation
        self._counted_log = counted_log

    def enter(self, link: L, url: str) -> None:
        """A link comes up; one that there was is replaced. ``url``: see ``LinkUp``."""
        key = (link.peer.uid, link.link_class)
        old = self.up.get(key)
        self.up[key] = link
        if link.link_class.is_reliable:
            self._go_on(key, link)
        if old is not None:
            self._say_goodbye(old, Closed.REPLACED)
        self.running[link] = None
        self._give(LinkUp(link.peer, url, link.link_class))
        self._upper.on_changes()

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

    def stay(self, uid: str, link_class: LinkClass) -> None:
        """A call that was to replace a link has led nowhere; the link stays if it still can."""
        link = self.up.get((uid, link_class))
        if link is not None and link.parted.is_set():
            self.part(link, Closed.REPLACED)

    def part(self, link: L, reason: Closed) -> None:
        """The other end said good-bye: nothing new goes this way, but what is queued still does.

        It reads on until we close, so no event is lost where a link is given up in peace.
        """
        link.parted.set()
        if reason is Closed.REPLACED and self._table.is_calling(link.peer.uid, link.link_class):
            return  # the other end has taken our call, but we have not heard so: `enter` or `stay`
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

    def wind_up(self, link: L) -> bool:
        """The connection of a link has ended; say whether the link was still in use.

        If so, it broke, and :meth:`tell_end` is to follow at once.
        """
        connection = link.connection
        connection.end()
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
        ended_by_itself = self._forget(link)
        self._take_back(link, is_over=not ended_by_itself)
        if ended_by_itself:
            self._upper.on_cut(link)
        return ended_by_itself

    def tell_end(self, link: L, reason: Closed | None) -> None:
        """Tell the machine that a link broke; ``reason``: what its conversation ended with.

        The machine hears of it before anything is waited for, as the next link may come up any
        moment, and would be taken for the one that broke.
        """
        if reason is None or reason in PEACEFUL:
            # Who parts in peace forgets the link first: here it broke before the end.
            reason = Closed.LOST
        self._tell_end(link, reason)

    def go_another_way(self, link: L) -> None:
        """A link that was given up does not bring over what is under way on it."""
        self._take_back(link, is_over=True)
        if link.parted.is_set():
            link.connection.end()  # nor is there anything left to hear of

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, key: Key, link: L) -> None:
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

    def _take_back(self, link: L, *, is_over: bool = False) -> None:
        """Keep what a connection has not brought over, for the next one.

        ``is_over``: the link was given up, and there is no next one.
        """
        key = (link.peer.uid, link.link_class)
        is_taken = self.streams.detach(key, link.connection.outbox)
        if is_taken and (is_over or link.connection.overflowed):
            orphans = self.streams.give_away(key)
            if orphans:
                self._upper.on_orphans(link.peer, link.link_class, orphans)
        if is_taken:
            self.relieve()

    def relieve(self, most_bytes: int | None = None) -> None:
        """Keep no more than so much for links that are lost: the rest goes another way."""
        while (too_many := self.streams.relieve(most_bytes)) is not None:
            peer, link_class, items = too_many
            self._counted_log.count("events_kept_given_up", sum(events for _, events in items))
            self._upper.on_orphans(peer, link_class, items)

    def _say_goodbye(self, link: L, reason: Closed) -> None:
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

    def _acknowledge(self, link: L) -> None:
        """Say what has come, if it can be said yet."""
        if link.arrivals is not None:
            ack = link.arrivals.incoming.ack()
            link.connection.send_ack(self._codec.encode(ack, link.agreed.version))

    def _forget(self, link: L) -> bool:
        """Take a link out of the tables; False if it is out already, or another in its place."""
        key = (link.peer.uid, link.link_class)
        if self.up.get(key) is not link:
            return False
        del self.up[key]
        self._table.closed(*key)
        return True

    def _end(self, link: L, reason: Closed) -> None:
        if self._forget(link):
            if reason is not Closed.UNWANTED:
                self._upper.on_cut(link)
            self._tell_end(link, reason)

    def _tell_end(self, link: L, reason: Closed) -> None:
        self._give(LinkDown(link.peer.uid, reason, link.link_class))
        self._upper.on_changes()
