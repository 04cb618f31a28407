"""Express events: no waiting, no order to restore, and an account of the time they take.

They take the same tree as normal events, over express links where there are any. Where a hop has
none they go over the normal link, before all that waits there, and are marked as *rough*.

Nothing holds an express event back, not even one of its publisher that is missing: they come in the
order they were sent while no link fails, and each once.

**Time.** An event carries its budget and what is spent of it in microseconds. Each broker adds half
the round trip of the link it came over, and what the event has waited in its own queue
(:mod:`overlay.queues.lanes`). The round trip is the smallest that the kernel has seen, but that may
be five minutes old, or lead to a proxy only; so it is at least the smallest of the latest quick
probes (:mod:`overlay.multigraph.quick_probes`), whatever the class of the link. Not a mean: in that
is what brokers were late themselves. Clocks are not compared. The broker that first finds the
budget exceeded counts a miss for the link the event came over.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence

from ges.sessions.session import Targets
from ges.wire.events import (
    BUDGET,
    BUDGET_AT,
    DEFAULT_BUDGET_US,
    LATE_FLAG,
    MAX_BUDGET_US,
    MAX_HOPS,
    PATCH,
    PATCH_AT,
    PATCH_END,
    ROUGH_FLAG,
    SPENT_AT,
    Head,
)
from ges.wire.source_route import pack_route
from overlay.ids import LinkClass
from overlay.links.link import Link
from overlay.multigraph.weights import LinkKey
from overlay.wire.frames import DELIVERY, DETOUR, EVENT, frame_start
from overlay.wire.frames import HEADER as FRAME_HEADER

MAX_PUBLISHERS = 65536
WINDOW = 4096  #: sequences below the highest seen, of which it is known which have come

Path = tuple[str, ...]
Onward = Sequence[tuple[str, int]]


class Recent:
    """Which sequences of each publisher have come of late."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[bytes, int], tuple[int, int]] = OrderedDict()

    def first(self, publisher: bytes, incarnation: int, sequence: int) -> bool:
        """Note a sequence; False if it has come before, or is too old to know."""
        key = (publisher, incarnation)
        highest, bits = self._seen.get(key, (sequence - 1, 0))
        behind = highest - sequence
        if behind < 0:
            bits = (bits << -behind | 1) & ((1 << WINDOW) - 1) if -behind < WINDOW else 1
            highest = sequence
        elif behind >= WINDOW or bits >> behind & 1:
            return False
        else:
            bits |= 1 << behind
        self._seen[key] = highest, bits
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_PUBLISHERS:
            self._seen.popitem(last=False)
        return True


class ExpressHops:
    """Which link an express event takes to a broker it is to reach."""

    def __init__(
        self,
        links: Mapping[LinkKey, Link],
        ways: Mapping[LinkKey, Path],
        detours: Mapping[str, Path],
        is_express: Callable[[str], bool],
    ) -> None:
        """``ways`` and ``detours`` as the router has them; ``is_express``: not demoted."""
        self._links = links
        self._ways = ways
        self._detours = detours
        self._is_express = is_express

    def to(self, uid: str) -> tuple[Path, LinkClass]:
        """Return the brokers to pass, that one last, and over links of which class; () if none.

        A relay over express links that is faster than the direct one; the direct one; the fastest
        way over normal links.
        """
        way = self._ways.get((uid, LinkClass.EXPRESS))
        if way is not None:
            return way, LinkClass.EXPRESS
        if (uid, LinkClass.EXPRESS) in self._links and self._is_express(uid):
            return (uid,), LinkClass.EXPRESS
        way = self._ways.get((uid, LinkClass.NORMAL))
        if way is not None:
            return way, LinkClass.NORMAL
        if (uid, LinkClass.NORMAL) in self._links:
            return (uid,), LinkClass.NORMAL
        return self._detours.get(uid, ())[1:], LinkClass.NORMAL

    def first(self, way: Path, link_class: LinkClass) -> tuple[Link | None, Path]:
        """Return the link to the first on the way that is linked, and the way behind it."""
        for index, uid in enumerate(way):
            link = self._links.get((uid, link_class))
            if link is not None:
                return link, way[index + 1 :]
        return None, ()


class Express:
    """Passes express events on and delivers them."""

    def __init__(
        self,
        hops: ExpressHops,
        counters: Counter[str],
        targets_of: Callable[[bytes], Targets],
        *,
        one_way_us: Callable[[LinkKey, int], int],
        budget_us: int = DEFAULT_BUDGET_US,
    ) -> None:
        """``one_way_us``: how long a link takes that an event has come over.

        It is told the least that the kernel has seen; 0: not known.
        """
        self.misses: Counter[LinkKey] = Counter()  #: found late here, by their last link
        self._recent = Recent()
        self._hops = hops
        self._counters = counters
        self._targets_of = targets_of
        self._one_way_us = one_way_us
        self._budget_us = budget_us

    def publish(self, head: Head, body: bytes, hop_us: int, onward: Onward) -> None:
        """Take an event from a client; ``hop_us`` is the way from it."""
        self._counters["events_published"] += 1
        budget = head.budget_us or self._budget_us
        self._take(head, body, budget, head.spent_us + hop_us, onward)

    def relay(self, link: Link, head: Head, body: bytes, onward: Onward) -> None:
        """Take an event from another broker."""
        self._counters["events_received"] += 1
        key = link.peer.uid, link.link_class
        self._take(head, body, head.budget_us, head.spent_us + self._hop_us(link), onward, key)

    def pass_on(self, link: Link, way: Path, head: Head, body: bytes) -> None:
        """Pass on an event between two others that came over ``link``, over links of its class."""
        event = _body(body, head.budget_us, head.spent_us + self._hop_us(link))
        if link.link_class is not LinkClass.EXPRESS:
            event[0] |= ROUGH_FLAG
        self._send(way, event, link.link_class)

    def _hop_us(self, link: Link) -> int:
        """Return what the link takes without any queue, as waiting in its queue is stamped."""
        return self._one_way_us((link.peer.uid, link.link_class), link.connection.one_way_us)

    def _take(
        self,
        head: Head,
        body: bytes,
        budget: int,
        spent: int,
        onward: Onward,
        came_over: LinkKey | None = None,
    ) -> None:
        if not self._recent.first(head.publisher, head.incarnation, head.sequence):
            self._counters["events_duplicate"] += 1
            return
        event = _body(body, budget, spent)
        if spent > budget and not head.late:
            event[0] |= LATE_FLAG
            if came_over is not None:
                self.misses[came_over] += 1
            self._counters["express_misses"] += 1
        self._forward(head, event, onward)
        frame = frame_start(EVENT, len(event)) + event
        for session, matches in self._targets_of(head.topic):
            start = frame_start(DELIVERY, len(matches) + len(frame)) + matches
            at = len(start) + FRAME_HEADER.size + SPENT_AT
            session.connection.send_express(bytearray(start) + frame, at)
            self._counters["events_delivered"] += 1

    def _forward(self, head: Head, event: bytearray, onward: Onward) -> None:
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += bool(onward)
            return
        for uid, limit in onward:
            way, link_class = self._hops.to(uid)
            copy = bytearray(event)
            copy[PATCH_AT:PATCH_END] = PATCH.pack(head.hops + 1, limit)
            if link_class is not LinkClass.EXPRESS:
                copy[0] |= ROUGH_FLAG
                self._counters["express_over_normal"] += 1
            self._send(way, copy, link_class)

    def _send(self, way: Path, event: bytearray, link_class: LinkClass) -> None:
        link, rest = self._hops.first(way, link_class)
        if link is None:
            self._counters["events_without_link"] += 1
            return
        kind, before = (DETOUR, pack_route(rest)) if rest else (EVENT, b"")
        start = frame_start(kind, len(before) + len(event)) + before
        link.connection.send_express(bytearray(start) + event, len(start) + SPENT_AT)
        self._counters["events_forwarded"] += 1


def _body(body: bytes, budget: int, spent: int) -> bytearray:
    """Return an event with its budget, and what is spent of it."""
    event = bytearray(body)
    BUDGET.pack_into(event, BUDGET_AT, budget, min(spent, MAX_BUDGET_US))
    return event
