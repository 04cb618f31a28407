"""What keeps sorted order best: the standard library, or sortedcontainers; both in one run.

    python -m benchmarks.speed.sorted_order [--rounds R]

Each line is one place where the project needs sorted order, with the sizes that it has there. See
``docs/decisions/0025-sorted-containers.md``.
"""

from __future__ import annotations

import argparse
import heapq
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice

from sortedcontainers import SortedKeyList, SortedList

from benchmarks.arguments import at_least
from benchmarks.report import print_line
from overlay.machine import TimerTable
from overlay.rng import rng_for
from ring.geometry import RING_SIZE
from ring.wire.record_messages import MAX_ENTRIES

Work = Callable[[], object]

RNG = rng_for("sorted order")


class SortedTimers:
    """What :class:`overlay.machine.TimerTable` does, with a sorted list for its heap."""

    def __init__(self) -> None:
        self._armed: dict[int, tuple[int, int, int]] = {}
        self._order = SortedList()
        self._count = 0

    def set(self, key: int, at: int) -> None:
        """Arm ``key``."""
        if key in self._armed:
            self._order.remove(self._armed[key])
        self._count += 1
        self._armed[key] = entry = (at, self._count, key)
        self._order.add(entry)

    def next_deadline(self) -> int | None:
        """Return the earliest deadline."""
        return self._order[0][0] if self._order else None


def main() -> None:
    """Print a line for each place and size: microseconds by either way, and their ratio."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.sorted_order", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=at_least(1), default=9, help="the best of so many counts")
    options = parser.parse_args()
    print_line(f"{'':44}{'library us':>12}{'sorted us':>12}{'ratio':>8}")
    for title, *ways in _duels():
        library, ordered = (1e6 * min(_seconds(way) for _ in range(options.rounds)) for way in ways)
        print_line(f"{title:44}{library:12.2f}{ordered:12.2f}{ordered / library:8.3f}")


def _seconds(work: Work) -> float:
    """Return how long one call takes, from as many as take a few milliseconds."""
    start, calls = time.perf_counter(), 0
    while (took := time.perf_counter() - start) < 0.005:
        work()
        calls += 1
    return took / calls


def _duels() -> Iterator[tuple[str, Work, Work]]:
    for n in (10, 2_000):
        yield f"timers, {n}: set one anew, look", _rearm(TimerTable(), n), _rearm(SortedTimers(), n)
    for n in (100, 20_000):
        yield f"event queue of {n}: take one, put one", *_queues(n)
    for n in (6, 22):
        yield f"row of {n}: sort it, or change one of it", *_rows(n)
    for n in (100, 1_000, 16_384):
        yield f"index of {n} records, in all its parts", *_indexes(n)
    for n in (100, 10_000):
        yield f"ledger of {n}: one goes and comes", *_ledgers(n)


def _rearm(table: TimerTable[int] | SortedTimers, n: int) -> Work:
    times = iter(range(0, 10**12, 1_000))

    def work() -> None:
        table.set(RNG.randrange(n), next(times) + RNG.randrange(10**6))
        table.next_deadline()

    for _ in range(2 * n):
        work()
    return work


def _queues(n: int) -> tuple[Work, Work]:
    heap = [(RNG.randrange(10**9), count) for count in range(n)]
    ordered = SortedList(heap)
    counts = iter(range(n, 10**12))
    heapq.heapify(heap)

    def by_heap() -> None:
        at, _ = heapq.heappop(heap)
        heapq.heappush(heap, (at + RNG.randrange(10**9), next(counts)))

    def by_list() -> None:
        at, _ = ordered.pop(0)
        ordered.add((at + RNG.randrange(10**9), next(counts)))

    return by_heap, by_list


def _rows(n: int) -> tuple[Work, Work]:
    members = [(RNG.randrange(RING_SIZE), str(number)) for number in range(n)]

    def place(member: tuple[int, str]) -> tuple[int, str]:
        return (member[0] - 5) % RING_SIZE, member[1]

    row = SortedKeyList(members, key=place)

    def by_list() -> None:
        row.remove(members[3])
        row.add(members[3])

    return lambda: sorted(members, key=place), by_list


def _indexes(n: int) -> tuple[Work, Work]:
    keys = dict.fromkeys(f"record-{RNG.getrandbits(60):x}" for _ in range(n))
    ordered = SortedList(keys)

    def after_sorting(after: str) -> list[str]:
        return sorted(key for key in keys if key > after)[: MAX_ENTRIES + 1]

    def in_order(after: str) -> list[str]:
        return list(islice(ordered.irange(after, inclusive=(False, False)), MAX_ENTRIES + 1))

    def whole(part: Callable[[str], list[str]]) -> Work:
        def work() -> None:
            found = part("")
            while len(found) > MAX_ENTRIES:
                found = part(found[MAX_ENTRIES - 1])

        return work

    return whole(after_sorting), whole(in_order)


def _ledgers(n: int) -> tuple[Work, Work]:
    ring = sorted((RNG.randrange(RING_SIZE), str(number)) for number in range(n))
    ordered = SortedList(ring)
    victims = list(ring)

    def by_bisection() -> None:
        victim = RNG.choice(victims)
        del ring[bisect_left(ring, victim)]
        insort(ring, victim)
        at = bisect_left(ring, victim)
        for step in range(-4, 5):
            ring[(at + step) % n]

    def by_list() -> None:
        victim = RNG.choice(victims)
        ordered.remove(victim)
        ordered.add(victim)
        at = ordered.bisect_left(victim)
        for step in range(-4, 5):
            ordered[(at + step) % n]

    return by_bisection, by_list


if __name__ == "__main__":
    main()
