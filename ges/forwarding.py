"""One hop onward: events that are not express, to the brokers that come next.

Over the direct link, by the relay path that is faster, or round a link that has failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ges.events import MAX_HOPS, PATCH, PATCH_END, Head
from ges.roundabout import pack_way
from ges.runs import EventRun
from overlay.codec import DETOUR, EVENT, HEADER, PROTOCOL_VERSION
from overlay.connection import Connection
from overlay.ids import LinkClass
from overlay.link import Link
from overlay.weights import LinkKey


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
    ) -> None:
        """``ways``: relay paths in use; ``detours``: ways round failed links; the rest is noted."""
        self._links = links
        self._ways = ways
        self._detours = detours
        self._counters = counters
        self._crowded = crowded
        self._told = told

    def forward_run(self, run: EventRun, onward: Sequence[tuple[str, int]]) -> None:
        """Send a run of normal events to each (uid, limit)."""
        head = run.head
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += run.count
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
            return
        start = HEADER.pack(len(body) + 2, PROTOCOL_VERSION, EVENT) + bytes((flags,))
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
                self._counters["events_without_link"] += 1

    def send_round(
        self, way: tuple[str, ...], first: bytes, rest: bytes, link_class: LinkClass
    ) -> None:
        """Send an event to the first broker on ``way``, for the last one.

        Where the link to the first has just gone, the next on the way that is linked will do: the
        way only gets shorter.
        """
        while way and (way[0], link_class) not in self._links:
            way = way[1:]
        if not way:
            self._counters["events_without_link"] += 1
            return
        link = self._links[way[0], link_class]
        way = way[1:]
        kind, start = (DETOUR, pack_way(way) + first) if way else (EVENT, first)
        size = len(start) + len(rest) + 2
        self._send(link, HEADER.pack(size, PROTOCOL_VERSION, kind) + start + rest)
        self._counters["events_sent_round"] += 1

    def _send(self, link: Link, frames: bytes | bytearray, count: int = 1) -> None:
        connection = link.connection
        connection.send(frames, count)
        if connection.crowded:
            self._crowded.add(connection)
