"""What becomes of events that have waited for a link.

The link is back: they are sent over it again, which :mod:`overlay.links.lifecycle` does. There is
a way round it: they take that, before all that is newer. Or the broker is dead, or will not be
linked: then those who stand in for it get them, *again* as it were. What it may have passed on
already comes there for a second time; it is passed on all the same, and delivered once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ges.routing.arc_plan import ArcTree
from ges.routing.forwarding import Forwarding
from ges.routing.holding import Holding, frames_of
from ges.wire.events import AGAIN_FLAG, FLOOD_FLAG, MARK_FLAG, SECURE_FLAG, Head, read_head
from ges.wire.source_route import read_route
from overlay.ids import LinkClass, Nanos
from overlay.links.link import Link
from overlay.queues.resend import Item
from overlay.queues.streams import RELIABLE, Key
from overlay.wire.frames import DETOUR, EVENT, frame
from ring.wire.messages import MAX_PATH

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE


class Rerouting:
    """Decides for each broker that events are held for, and sends them on."""

    def __init__(
        self,
        holding: Holding,
        forwarding: Forwarding,
        links: Mapping[Key, Link],
        detours: Mapping[str, tuple[str, ...]],
        tree: ArcTree,
        counters: Counter[str],
        *,
        plan: Callable[[], Sequence[str]],
        on_passed: Callable[[Head, bytes, int, LinkClass, str], None],
        on_loss: Callable[[Head | None], None],
    ) -> None:
        """``plan`` lays the trees anew, and returns the uids at the other end of secure links;
        ``on_passed``: an event with these flags, for links of that class, goes to others than the
        broker of that uid, which may be back; ``on_loss``: this event is lost, or nobody knows
        which ones.
        """
        self._holding = holding
        self._forwarding = forwarding
        self._links = links
        self._detours = detours
        self._tree = tree
        self._counters = counters
        self._plan = plan
        self._on_passed = on_passed
        self._on_loss = on_loss
        self._is_standing_in = False

    def on_cut(self, key: Key, now: Nanos) -> None:
        """A link broke, or a way round one: events for the broker there wait.

        Where it has left, or was declared dead, there is nothing to wait for.
        """
        if key[1] in RELIABLE and not self._holding.hold(key, now):
            self.on_orphans(key, self._holding.release(key))
            self._on_loss(None)

    def on_orphans(self, key: Key, items: list[Item]) -> None:
        """Events for a broker that will not get them from us.

        Nor does it get what comes after them, should its link be down or that of a later life:
        that one may have another place, or none yet, and would pass on nothing.
        """
        place = self._holding.place(key[0])
        self._send_on([*items, *self._holding.release(key)], key, place)

    def on_stranded(self, uid: str, event: bytes, link_class: LinkClass) -> None:
        """No way leads to the broker that an event on its way round is for.

        It may have left while the event was under way: then others get it in its place, but not
        in place of these once more.
        """
        place = self._holding.place(uid)
        if place is None or uid in self._holding.linked or self._is_standing_in:
            self._counters["events_without_link"] += 1
            self._on_loss(read_head(event))
            return
        self._is_standing_in = True
        try:
            self._send_on([(frame(EVENT, event), 1)], (uid, link_class), place)
        finally:
            self._is_standing_in = False

    def settle(self, now: Nanos) -> None:
        """Send on what has waited, where it is known by now what became of the link."""
        for key, held in list(self._holding.held.items()):
            uid, link_class = key
            if key in self._links:
                is_later = self._links[key].peer.incarnation > held.peer.incarnation
                if uid in self._holding.linked or is_later:  # else its place is not known yet
                    self._holding.release(key)
            elif link_class is NORMAL and uid in self._detours:
                self._go_round(self._holding.release(key), self._detours[uid][1:], NORMAL)
            elif (
                link_class is SECURE
                and self._holding.may_go_round(key, now)
                and (way := self._forwarding.way_round(key)) is not None
            ):
                self._go_round(self._holding.release(key), way, SECURE)
            elif self._holding.is_over(key, now):
                items = self._holding.release(key)
                self._send_on(items, key, held.place)
                self._on_loss(None)  # what it had taken it may not have passed on

    def give_up(self) -> None:
        """Wait for no link any more: this broker leaves, and others stand in for those beyond."""
        for key, held in list(self._holding.held.items()):
            self._send_on(self._holding.release(key), key, held.place)

    def _go_round(self, items: list[Item], path: tuple[str, ...], link_class: LinkClass) -> None:
        for kind, body in frames_of(items):
            way, event = read_route(body) if kind == DETOUR else ((), body)
            whole = path + way
            whole = whole if len(whole) < MAX_PATH else way
            self._forwarding.send_round(whole, event, b"", link_class)

    def _send_on(self, items: list[Item], key: Key, place: int | None) -> None:
        uid, link_class = key
        secured = self._plan() if items else ()
        for kind, body in frames_of(items):
            way, event = read_route(body) if kind == DETOUR else ((), body)
            head = read_head(event)
            flags = MARK_FLAG if head.marked else 0
            onward: Sequence[tuple[str, int]] = ()
            if head.secure:
                flags |= SECURE_FLAG | FLOOD_FLAG
                onward = [(uid, head.limit) for uid in secured]
            elif way:
                flags |= AGAIN_FLAG
                onward = ((way[-1], head.limit),)
            elif place is not None:
                flags |= AGAIN_FLAG
                onward = self._tree.instead(place, head.limit)
            if not way:
                self._on_passed(head, event, flags, link_class, uid)
            if onward:
                self._counters["events_sent_on"] += 1
                self._forwarding.forward(head, event, onward, flags, link_class)
            elif place is None or (head.secure and not self._tree.is_empty):
                self._counters["events_unacknowledged_dropped"] += 1
                self._on_loss(head)
            # else nobody but that broker was in its part of the ring
