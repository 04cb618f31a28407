"""Events that are for this broker: values are kept, the rest goes to clients in order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ges.delivery.delivery import Deliveries
from ges.delivery.past import Past
from ges.order.recalls import Recalls
from ges.order.recent import Recent
from ges.routing.handing_on import HandingOn
from ges.wire.event_flags import GROUPS_FLAG
from ges.wire.event_runs import EventRun
from overlay.ids import Nanos


class Arrivals:
    """The last station of an event before its clients."""

    def __init__(
        self,
        recalls: Recalls,
        past: Past,
        deliveries: Deliveries,
        handing_on: HandingOn,
        counters: Counter[str],
    ) -> None:
        self.recent = Recent()  #: what has come
        self._recalls = recalls
        self._ordering = recalls.ordering
        self._past = past
        self._deliveries = deliveries
        self._retaining = deliveries.retaining
        self._handing_on = handing_on
        self._counters = counters

    def take_run(self, run: EventRun, now: Nanos) -> None:
        """Take events that name this broker among their destinations."""
        run = run.flat()
        head = run.head
        if head.flags & GROUPS_FLAG and (serving := run.serving()) and serving.tried:
            self._deliveries.deliver_handed(run, serving)
            self._handing_on.hand_on_unserved(now)
            return
        if self.keep_value(run):
            return
        if head.recalled:
            self.take_recalled(run, now)
            return
        if head.secure:
            self.recent.fresh(run)
        is_again = head.is_named and head.again
        self.take_news(run, head.marked, head.via, head.source, now, is_again=is_again)

    def take_recalled(self, run: EventRun, now: Nanos) -> None:
        """Take what this broker has asked for, or what its clients have missed."""
        if age_ms := run.head.duty.millis:
            self._past.take(run, age_ms - 1, now)
        self.deliver(self._recalls.take(run, now), now)

    def regain(self, runs: Iterable[EventRun], now: Nanos) -> None:
        """Take what was published while this broker was off the ring; some may have come before."""
        for run in runs:
            self.take_news(run, True, run.head.via, run.head.source, now)

    def fresh_of(self, run: EventRun) -> Sequence[EventRun]:
        """Return the events that have not come before; the others are counted."""
        fresh = self.recent.fresh(run)
        if known := run.count - sum(part.count for part in fresh):
            self._counters["events_duplicate"] += known
        return fresh

    def keep_value(self, run: EventRun) -> bool:
        """Keep what is to be retained; says whether it is a value, and no news."""
        if run.head.stored:
            self._retaining.take_stored(run)
            return True
        if run.head.retain:
            self._retaining.keep(run)
        return False

    def take_news(
        self,
        run: EventRun,
        marked: bool,
        via: int,
        source: int,
        now: Nanos,
        *,
        is_again: bool = False,
    ) -> None:
        """Give clients what they may have now, in order: these events, or others as well.

        ``marked``: events before them may come another way; ``via``: the way that they have come
        from the place ``source``. ``is_again``: a single event follows named clients to here. It
        may have come before, for others that have names here; a client drops what it has had.
        """
        ordering = self._ordering
        before = ordering.too_late
        ready = ordering.admit(run, now, marked=marked, via=via, source=source)
        if ordering.too_late != before:
            self._counters["events_duplicate"] += ordering.too_late - before
            ready = (run,) if is_again else ready
        self.deliver(ready, now)

    def deliver(self, runs: Iterable[EventRun], now: Nanos) -> None:
        """Give clients what is in order now."""
        for run in runs:
            self._deliveries.deliver(run, now)
        self._handing_on.hand_on_unserved(now)
