"""Express events: no waiting, no order to restore, and an account of the time they take.

They take the same tree as normal events, over express links where there are any. Where a hop has
none they go over the normal link, before all that waits there, and are marked as *rough*.

Nothing holds an express event back, not even one of its publisher that is missing: they come in the
order they were sent while no link fails, and each once.

**Time.** An event carries its budget and what is spent of it in microseconds. Each broker adds half
the round trip of the link it came over, as the kernel has measured it, and what the event has
waited in its own queue (:mod:`overlay.lanes`). Clocks are not compared. The broker that first
finds the budget exceeded counts a miss for the link the event came over.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence

from ges.events import (
    BUDGET,
    BUDGET_AT,
    EXPRESS_FLAG,
    LATE_FLAG,
    MAX_BUDGET_US,
    MAX_HOPS,
    PATCH,
    PATCH_END,
    ROUGH_FLAG,
    SPENT_AT,
    Head,
)
from ges.session import Targets
from overlay.codec import DELIVERY, EVENT, PROTOCOL_VERSION
from overlay.codec import HEADER as FRAME_HEADER
from overlay.ids import LinkClass
from overlay.link import Link

DEFAULT_BUDGET_US = 50_000
MAX_PUBLISHERS = 65536
WINDOW = 4096  #: sequences below the highest seen, of which it is known which have come

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


class Express:
    """Passes express events on and delivers them."""

    def __init__(
        self,
        links: Mapping[tuple[str, LinkClass], Link],
        counters: Counter[str],
        targets_of: Callable[[bytes], Targets],
        *,
        budget_us: int = DEFAULT_BUDGET_US,
    ) -> None:
        self.misses: Counter[str] = Counter()  #: by the uid at the other end of the link
        self._recent = Recent()
        self._links = links
        self._counters = counters
        self._targets_of = targets_of
        self._budget_us = budget_us

    def publish(self, head: Head, body: bytes, hop_us: int, onward: Onward) -> None:
        """Take an event from a client; ``hop_us`` is the way from it."""
        self._counters["events_published"] += 1
        budget = head.budget_us or self._budget_us
        self._take(head, body, budget, head.spent_us + hop_us, onward, came_over="a client")

    def relay(self, link: Link, head: Head, body: bytes, onward: Onward) -> None:
        """Take an event from another broker."""
        self._counters["events_received"] += 1
        spent = head.spent_us + link.connection.one_way_us
        self._take(head, body, head.budget_us, spent, onward, came_over=link.peer.uid)

    def _take(
        self, head: Head, body: bytes, budget: int, spent: int, onward: Onward, *, came_over: str
    ) -> None:
        if not self._recent.first(head.publisher, head.incarnation, head.sequence):
            self._counters["events_duplicate"] += 1
            return
        late = spent > budget
        if late and not head.late:
            self.misses[came_over] += 1
            self._counters["express_misses"] += 1
        frame = _frame(body, budget, min(spent, MAX_BUDGET_US))
        flags = EXPRESS_FLAG | (LATE_FLAG if late else 0)
        self._forward(head, frame, flags, onward)
        for session, matches in self._targets_of(head.topic):
            size = len(matches) + len(frame) + 2
            start = FRAME_HEADER.pack(size, PROTOCOL_VERSION, DELIVERY) + matches
            at = len(start) + FRAME_HEADER.size + SPENT_AT
            session.connection.send_express(bytearray(start) + frame, at)
            self._counters["events_delivered"] += 1

    def _forward(self, head: Head, frame: bytearray, flags: int, onward: Onward) -> None:
        if head.hops >= MAX_HOPS:
            self._counters["events_too_many_hops"] += bool(onward)
            return
        for uid, limit in onward:
            link = self._links.get((uid, LinkClass.EXPRESS))
            rough = ROUGH_FLAG if head.rough or link is None else 0
            if link is None:
                link = self._links.get((uid, LinkClass.NORMAL))
                self._counters["express_over_normal"] += 1
            if link is None:
                self._counters["events_without_link"] += 1
                continue
            copy = bytearray(frame)
            patch = bytes((flags | rough,)) + PATCH.pack(head.hops + 1, limit)
            copy[FRAME_HEADER.size : FRAME_HEADER.size + PATCH_END] = patch
            link.connection.send_express(copy, FRAME_HEADER.size + SPENT_AT)
            self._counters["events_forwarded"] += 1


def _frame(body: bytes, budget: int, spent: int) -> bytearray:
    """Return the frame of an event with its budget, and what is spent of it."""
    start = FRAME_HEADER.pack(len(body) + 2, PROTOCOL_VERSION, EVENT)
    rest = body[BUDGET_AT + BUDGET.size :]
    return bytearray(b"".join((start, body[:BUDGET_AT], BUDGET.pack(budget, spent), rest)))
