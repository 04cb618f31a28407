"""Retained events and events that end, on the way through one broker.

The broker where such an event is published stamps it: when that was, and when it ends, by its own
clock. A retained event goes to all members, and each keeps it as it comes, in whatever order. A
member that lacks some gets them as events that are flagged as stored, for itself alone
(:mod:`ges.retained.retained_part`). Clients here that have subscribed before such a value came have
missed the event, and get the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ges.delivery.audience import Audience
from ges.delivery.first_values import FirstValues, class_of, send_value
from ges.delivery.realms import Realms
from ges.retained.values import MAX_VALUES, NANOS_PER_MILLI, RetainedValues
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_TTL_MS, Head, read_head
from ges.wire.matter import Matter
from overlay.ids import Nanos
from overlay.shares import Source
from overlay.wire.frames import HEADER as FRAME_HEADER

ANSWER_BYTES = 4 * 1024 * 1024  #: sent to a member at once; it asks again for the rest


class Retaining:
    """What one broker keeps for those who subscribe later, and the ends of events."""

    def __init__(
        self,
        values: RetainedValues,
        audience: Audience,
        counters: Counter[str],
        realms: Realms,
        wall_ns: Callable[[], int],
        now: Callable[[], Nanos],
    ) -> None:
        """``values``: as the machine compares them; ``wall_ns`` returns unix time."""
        self.values = values
        values.counters = counters  # what is forgotten there shows with all that is counted
        self.first = FirstValues(values, counters, realms, wall_ns, now)
        self._realms = realms
        self._audience = audience
        self._counters = counters
        self._wall_ns = wall_ns

    # ── where an event is published ───────────────────────────────────────────────────────────

    def why_not(self, run: EventRun, source: Source, most: int = MAX_VALUES) -> str | None:
        """Return why an event of a client cannot be retained, or None.

        ``source``: of the client; ``most``: values beyond which none is added. An event that clears
        a topic is kept for a while, too.
        """
        return self.values.why_not(run, source, most) if run.head.retain else None

    def stamped(self, run: EventRun) -> EventRun:
        """Return an event of a client with its stamp and its end."""
        head, wall_ns = run.head, self._wall_ns()
        stamp = self.values.stamp_for(head, wall_ns) if head.retain else 0
        ttl_ms = min(head.ends_ms, MAX_TTL_MS)
        return run.timed(stamp, wall_ns // NANOS_PER_MILLI + ttl_ms if ttl_ms else 0)

    def restamped(self, run: EventRun) -> EventRun:
        """Return an event that has waited here with the stamp of now; its end stays."""
        head = run.head
        if not head.retain:
            return run
        return run.timed(self.values.stamp_for(head, self._wall_ns()), head.ends_ms)

    # ── everywhere ────────────────────────────────────────────────────────────────────────────

    def is_over(self, head: Head) -> bool:
        """Say whether an event has ended."""
        return bool(head.ends_ms) and head.ends_ms * NANOS_PER_MILLI <= self._wall_ns()

    def keep(self, run: EventRun) -> None:
        """An event that is to be retained has come."""
        if not self._realms.allow(run.head):
            return
        if self.values.take(run, self._wall_ns()) is not None:
            self._counters["retained_kept"] += 1

    def take_stored(self, run: EventRun) -> None:
        """A value has come from a member, for this broker alone."""
        common = self._realms.common_at(run.head.source)
        if run.head.realm < common:
            return
        value = self.values.take(run, self._wall_ns())
        if value is None:
            return
        self._counters["retained_learnt"] += 1
        if value.is_cleared:
            return
        for row in self._audience.of(Matter(class_of(value), value.key[1], common=common)):
            client = row.recipient.client
            if client is not None:
                send_value(client, row.matches, value)
                self._counters["retained_delivered"] += 1

    def answer(self, marks: Iterable[int], *, secure: bool) -> Iterator[EventRun]:
        """Yield what a member lacks, that keeps other values in some buckets; not too much."""
        size = 0
        for value in self.values.differing(marks, secure=secure):
            size += len(value.frame)
            if size > ANSWER_BYTES and size > len(value.frame):
                return
            head = read_head(value.frame, FRAME_HEADER.size)
            yield EventRun(head, value.frame, [0, len(value.frame)], 1)
            self._counters["retained_told"] += 1

    def forget(self) -> None:
        """Forget what has ended, and what is of other units now. Called now and then."""
        self.values.forget(self._wall_ns())
        self.values.forget_beyond(self._realms.common_at)
