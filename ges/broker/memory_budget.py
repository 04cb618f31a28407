"""What peers and clients make a broker hold, counted against one budget.

Everything that others can make grow stands in one of several *pools*: caches, events kept for
clients that move, events for lost links, parked events, queues. Each has a bound of its own, but
together these bounds are more than most machines give a broker. So there is a budget for all. Where
it is overdrawn the pools lose something, those first that hold more than their share, and of them
the cheapest to lose: a cache costs some time to fill again, a connection is a client's or a link.

What no pool counts (tables of bounded size, what Python takes beside, free memory between pieces in
use) is measured where the process can: the pools have what it leaves of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.ids import Nanos, nanos
from overlay.links.counted_log import CountedLog

DEFAULT_BYTES = 256 * 1024 * 1024
MIN_BYTES = 16 * 1024 * 1024

LOOK_NS = nanos(0.01)  #: between two looks at least ...
LOOK_SHARE = 20  #: ... and so many times what one takes: there may be thousands of connections
MEASURE_NS = nanos(2)  #: between two measurements of what no pool counts
ALARM = 7 / 8  #: where the process takes so much of the budget, something is lost ...
CALM = 3 / 4  #: ... until it takes no more than that, but ...
ALARM_NS = nanos(0.25)  #: ... not more often than this
UNCOUNTED = 1 / 2  #: of the budget is left to what no pool counts, and more if it takes more ...
LEAST = 1 / 4  #: ... but the pools have so much of it in any case
MARGIN = 1 / 16  #: of what the pools may hold is lost beyond what is too much


@dataclass(frozen=True, slots=True)
class Pool:
    """Something that others can make grow."""

    name: str
    share: float  #: of what the pools may hold; what it holds beyond goes first
    held_bytes: Callable[[], int]
    shed: Callable[[int], None]  #: lose something, until at most so many bytes are held


class MemoryBudget:
    """The pools of one broker, the cheapest to lose first."""

    def __init__(
        self,
        size: int,
        pools: Sequence[Pool],
        counted_log: CountedLog,
        now: Callable[[], Nanos],
        *,
        measure: Callable[[], int] | None = None,
        trim: Callable[[], None] = lambda: None,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the budget and what counts against it.

        Args:
            size: bytes above what the idle process takes.
            pools: the cheapest to lose first.
            measure: returns how many bytes the process takes above what it took idle; None: that
                is not to be known, as where several brokers share a process.
            trim: has memory given back that is free, before it is measured again.
            tidy: called after a loss, to have garbage collected before long.
        """
        self.size = size
        self.pools = tuple(pools)
        self._counted_log = counted_log
        self._now = now
        self._measure = measure
        self._trim = trim
        self._tidy = tidy
        self._uncounted = 0  #: bytes, as measured last
        self._look_at: Nanos = 0
        self._took: Nanos = 0  #: by the look before
        self._measure_at: Nanos = 0
        self._alarm_at: Nanos = 0

    @property
    def held(self) -> dict[str, int]:
        """Bytes that each pool holds, by name."""
        return {pool.name: pool.held_bytes() for pool in self.pools}

    @property
    def limit(self) -> int:
        """Bytes that all pools together may hold."""
        least = round(self.size * LEAST)
        return max(least, self.size - max(self._uncounted, round(self.size * UNCOUNTED)))

    def look(self) -> None:
        """Have the pools lose what is too much; does nothing if that was looked at just now."""
        now = self._now()
        if now < self._look_at:
            return
        held = {pool.name: pool.held_bytes() for pool in self.pools}
        total = sum(held.values())
        counted_at = self._now()
        # One look may seem long as the scheduler ran another process amid it: two do not lie alike.
        took, before = counted_at - now, self._took
        self._look_at = counted_at + max(LOOK_NS, LOOK_SHARE * min(took, before))
        self._took = took
        excess = self._alarm(total, now)
        limit = self.limit
        if total > limit:
            excess = max(excess, total - round(limit * (1 - MARGIN)))
        if excess > 0:
            self._shed(held, excess, limit)
            self._measure_at = now + MEASURE_NS  # until then what was freed may not be given back
            self._tidy()

    def _alarm(self, total: int, now: Nanos) -> int:
        """Measure what the process takes; return how much of ``total`` is to be lost for that."""
        if self._measure is None:
            return 0
        measured = self._measure()
        if measured > ALARM * self.size and now >= self._alarm_at:
            self._trim()
            measured = self._measure()
            self._alarm_at = now + ALARM_NS
            if measured > ALARM * self.size:
                least = round(LEAST * self.size)
                return max(0, min(measured - round(CALM * self.size), total - least))
        elif now >= self._measure_at:
            self._measure_at = now + MEASURE_NS
            self._uncounted = measured - total
        return 0

    def _shed(self, held: dict[str, int], excess: int, limit: int) -> None:
        lost: dict[str, int] = {}
        for has_share in (True, False):
            for pool in self.pools:
                size = held[pool.name]
                goal = max(size - excess, round(pool.share * limit) if has_share else 0)
                if excess <= 0 or size <= goal:
                    continue
                pool.shed(goal)
                held[pool.name] = pool.held_bytes()
                freed = size - held[pool.name]
                excess -= freed
                lost[pool.name] = lost.get(pool.name, 0) + freed
        self._counted_log.note(
            "memory_relieved",
            "too much memory is held for others, some of it is let go",
            **{f"{name}_bytes": size for name, size in lost.items() if size},
        )
