"""One hop onward: events that are not express, to the brokers that come next.

Over the direct link, by the relay path that is faster, or round a link that has failed. Where there
is none of these for the moment, they wait (:mod:`ges.routing.holding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ges.routing.holding import Holding
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_HOPS, PATCH, PATCH_AT, PATCH_END, Head, read_head
from ges.wire.source_route import pack_route
from overlay.ids import LinkClass, Nanos
from overlay.links.link import Link
from overlay.multigraph.weights import LinkKey
from overlay.net.connection import Connection
from overlay.wire.frames import DETOUR, EVENT, frame_start

MAX_REROUTED_HOPS = 32  #: an event that came so far is not sent yet another way; no tree is so deep


class Forwarding:
    """The links and ways of one broker, and what is appended to their queues."""

    def __init__(
        self,
        links: Mapping[LinkKey, Link],
        ways: Mapping[LinkKey, tuple[str, ...]],
        detours: Mapping[str, tuple[str, ...]],
        counters: Counter[str],
        crowded: set[Connection],
        told: dict[str, int],
        holding: Holding,
        *,
        now: Callable[[], Nanos],
        path: Callable[[LinkKey], tuple[str, ...] | None],
        on_loss: Callable[[Head], None],
        on_stranded: Callable[[str, bytes, LinkClass], None],
    ) -> None:
        """``ways``: relay paths in use; ``detours``: ways round failed links; ``path``: the way
        there as it is known here, both ends included; ``on_loss``: an event is lost;
        ``on_stranded``: no way leads to the broker of that uid, for whom it is; the rest is noted.
        """
        self._links = links
        self._ways = ways
        self._detours = detours
        self._counters = counters
        self._crowded = crowded
        self._told = told
        self._holding = holding
        self._now = now
        self._path = path
        self._on_loss = on_loss
        self._on_stranded = on_stranded

    def forward_run(self, run: EventRun, onward: Sequence[tuple[str, int]]) -> None:
        """Send a run of normal events to each (uid, limit)."""
        head = run.head
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += run.count
            self._on_loss(head)
            return
        for uid, limit in onward:
            link = self._links.get((uid, LinkClass.NORMAL))
            if link is None or (uid, LinkClass.NORMAL) in self._ways:
                for each, body in run.singles():
                    self.forward(each, body, ((uid, limit),), 0, LinkClass.NORMAL)
            else:
                self._told[uid] = limit
                self._send(link, run.patched(0, head.hops + 1, limit), run.count)
                self._counters["events_forwarded"] += run.count

    def forward(
        self,
        head: Head,
        body: bytes,
        onward: Sequence[tuple[str, int]],
        flags: int,
        link_class: LinkClass,
    ) -> None:
        """Send one event to each (uid, limit), with these flags, over links of that class."""
        if not onward:
            return
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += 1
            self._on_loss(head)
            return
        start = frame_start(EVENT, len(body)) + bytes((flags,))
        rest = body[PATCH_END:]
        for uid, limit in onward:
            link = self._links.get((uid, link_class))
            way = self._ways.get((uid, link_class))
            if way is not None:
                first = bytes((flags,)) + PATCH.pack(head.hops + 1, limit)
                self.send_round(way, first, rest, link_class)
                self._counters["events_forwarded"] += 1
            elif link is not None:
                self._send(link, start + PATCH.pack(head.hops + 1, limit) + rest)
                self._counters["events_forwarded"] += 1
                if link_class is LinkClass.NORMAL:
                    self._told[uid] = limit
            elif link_class is LinkClass.NORMAL and uid in self._detours:
                first = bytes((flags,)) + PATCH.pack(head.hops + 1, limit)
                self.send_round(self._detours[uid][1:], first, rest, link_class)
            else:
                first = bytes((flags,)) + PATCH.pack(head.hops + 1, limit)
                self._send_otherwise((uid,), first + rest, link_class)

    def send_round(
        self,
        way: tuple[str, ...],
        first: bytes,
        rest: bytes,
        link_class: LinkClass,
    ) -> None:
        """Send an event to the first broker on ``way``, for the last one.

        Where the link to the first has just gone, the next on the way that is linked will do: the
        way only gets shorter.
        """
        for at, uid in enumerate(way, start=1):
            link = self._links.get((uid, link_class))
            if link is not None:
                self._send(link, _on_its_way(way[at:], first, rest))
                self._counters["events_sent_round"] += 1
                return
        self._send_otherwise(way, first + rest, link_class)

    def way_round(self, key: LinkKey) -> tuple[str, ...] | None:
        """Return a way to a broker whose own link is down, over links of that class that are up."""
        uid, link_class = key
        for other in self._others(uid, link_class):
            if other[0] != uid and (other[0], link_class) in self._links:
                return other
        return None

    def _send_otherwise(self, way: tuple[str, ...], event: bytes, link_class: LinkClass) -> None:
        """None of the brokers on the way is linked: take another way, or wait for a link.

        Whoever chose the way may have heard late that a link on it was given up. The one who gave
        it up knows better, and the way it takes may well begin with where the event came from.
        Each such turn counts as a hop, so none goes on for ever.
        """
        if self._keep(way, event, link_class, only_held=True):
            return
        head = read_head(event)
        if head.hops < MAX_REROUTED_HOPS:
            patched = event[:PATCH_AT] + PATCH.pack(head.hops + 1, head.limit) + event[PATCH_END:]
            for other in self._others(way[-1], link_class):
                if any((uid, link_class) in self._links for uid in other):
                    self._counters["events_rerouted"] += 1
                    self.send_round(other, patched, b"", link_class)
                    return
        if self._keep(way, event, link_class):
            return
        self._on_stranded(way[-1], event, link_class)

    def _keep(
        self, way: tuple[str, ...], event: bytes, link_class: LinkClass, *, only_held: bool = False
    ) -> bool:
        """Let an event wait for a link to any broker on the way; False if there is none to come."""
        now, held = self._now(), self._holding.held
        return any(
            self._holding.keep((uid, link_class), _on_its_way(way[at:], event, b""), now)
            for at, uid in enumerate(way, start=1)
            if not only_held or (uid, link_class) in held
        )

    def _others(self, uid: str, link_class: LinkClass) -> Iterator[tuple[str, ...]]:
        """Yield the ways to a broker that are known here."""
        if link_class is LinkClass.NORMAL and uid in self._detours:
            yield self._detours[uid][1:]
        path = self._path((uid, link_class))
        if path is not None and len(path) > 1:
            yield path[1:]

    def _send(self, link: Link, frames: bytes | bytearray, count: int = 1) -> None:
        connection = link.connection
        connection.send(frames, count)
        if connection.crowded:
            self._crowded.add(connection)


def _on_its_way(way: tuple[str, ...], first: bytes, rest: bytes) -> bytes:
    """Return the frame of an event that has these brokers to pass after the next."""
    kind, start = (DETOUR, pack_route(way) + first) if way else (EVENT, first)
    return frame_start(kind, len(start) + len(rest)) + start + rest
