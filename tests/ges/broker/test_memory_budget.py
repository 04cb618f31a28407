"""One budget for all that is held: who loses something, how much, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import structlog

from ges.broker.memory_budget import ALARM_NS, LOOK_NS, LOOK_SHARE, MEASURE_NS, MemoryBudget, Pool
from overlay.ids import Nanos
from overlay.links.counted_log import CountedLog

SIZE = 2000  #: of which pools may hold 1000


class Bench:
    """Pools that lose all that they are asked to, and note it."""

    def __init__(self, measured: int | None = None, **held: int) -> None:
        self.held = held
        self.measured = measured
        self.now: Nanos = 0
        self.lost: list[tuple[str, int]] = []
        self.fixed: set[str] = set()
        self.tidied = self.trimmed = 0
        self.after_trim: int | None = None  #: what is measured then
        self.counters: Counter[str] = Counter()

    def budget(self, *shares: float) -> MemoryBudget:
        def tidy() -> None:
            self.tidied += 1

        def now() -> Nanos:
            return self.now

        def trim() -> None:
            self.trimmed += 1
            if self.after_trim is not None:
                self.measured = self.after_trim

        def measure() -> int:
            assert self.measured is not None
            return self.measured

        return MemoryBudget(
            SIZE,
            [self._pool(name, share) for name, share in zip(self.held, shares, strict=True)],
            CountedLog(self.counters, structlog.get_logger(), now),
            now,
            measure=measure if self.measured is not None else None,
            trim=trim,
            tidy=tidy,
        )

    def _pool(self, name: str, share: float) -> Pool:
        def shed(most: int) -> None:
            if name not in self.fixed:
                self.lost.append((name, self.held[name] - most))
                self.held[name] = most

        return Pool(name, share, lambda: self.held[name], shed)


def test_within_the_budget_nothing_is_lost() -> None:
    bench = Bench(caches=600, links=400)
    bench.budget(0.5, 0.5).look()
    assert bench.lost == []
    assert bench.tidied == 0
    assert bench.counters["memory_relieved"] == 0


def test_the_cheapest_that_holds_more_than_its_share_loses_first() -> None:
    bench = Bench(caches=200, clients=700, links=700)
    bench.budget(0.25, 0.25, 0.5).look()
    # 600 are too much, and 62 more are lost, so as not to be here again at once.
    assert bench.lost == [("clients", 450), ("links", 200), ("caches", 12)]
    assert bench.tidied == 1


def test_a_cache_beyond_its_share_goes_before_any_connection() -> None:
    bench = Bench(caches=800, clients=250)
    bench.budget(0.1, 0.25).look()
    assert bench.lost == [("caches", 112)]


def test_where_one_cannot_lose_the_others_do() -> None:
    bench = Bench(lists=900, links=300)
    bench.fixed = {"lists"}
    bench.budget(0.125, 0.5).look()
    assert bench.lost == [("links", 262)]


def test_it_is_looked_at_now_and_then() -> None:
    bench = Bench(links=2000)
    budget = bench.budget(0.5)
    budget.look()
    bench.held["links"] = 2000
    budget.look()
    assert len(bench.lost) == 1
    bench.now = LOOK_NS
    budget.look()
    assert len(bench.lost) == 2


def test_looks_that_take_long_are_rare() -> None:
    """One alone may have been held up by another process: the next one follows soon."""
    bench = Bench(links=2000)
    budget = bench.budget(0.5)
    budget.pools = (Pool("links", 0.5, slow_to_say(bench), lambda most: None),)
    budget.look()
    bench.now = 2 * LOOK_NS
    budget.look()
    assert bench.counters["memory_relieved"] == 2
    bench.now = (3 + LOOK_SHARE) * LOOK_NS - 1
    budget.look()
    assert bench.counters["memory_relieved"] == 2
    bench.now += 1
    budget.look()
    assert bench.counters["memory_relieved"] == 3


def slow_to_say(bench: Bench) -> Callable[[], int]:
    def say() -> int:
        bench.now += LOOK_NS
        return 2000

    return say


def test_what_is_not_counted_is_measured_and_leaves_less_to_the_pools() -> None:
    bench = Bench(measured=1500, links=300)
    budget = bench.budget(1.0)
    assert budget.limit == 1000
    budget.look()
    assert budget.limit == 800, "1500 were measured, and 300 counted"
    bench.held["links"] = 900
    bench.now = LOOK_NS
    budget.look()
    assert bench.lost == [("links", 100), ("links", 50)]
    bench.measured = 500
    bench.now = 2 * MEASURE_NS
    budget.look()
    assert budget.limit == 1000


def test_after_a_loss_nothing_is_measured_before_it_is_given_back() -> None:
    """Else what was just freed would count as what nobody counts, and cost the next one."""
    bench = Bench(measured=1749, links=1100)
    budget = bench.budget(0.5)
    budget.look()
    assert bench.lost == [("links", 162)]
    bench.now = MEASURE_NS - 1
    bench.held["links"] = 500
    budget.look()
    assert budget.limit == 1000
    bench.now = MEASURE_NS + LOOK_NS
    budget.look()
    assert budget.limit == 751
    assert len(bench.lost) == 1


def test_where_the_process_takes_nearly_all_something_is_lost_whatever_was_counted() -> None:
    bench = Bench(measured=1900, caches=50, links=600)
    budget = bench.budget(0.5, 0.5)
    budget.look()
    assert bench.trimmed == 1
    assert sum(size for _, size in bench.lost) == 150, "a quarter of the budget is theirs"


def test_memory_that_is_only_free_costs_nobody_anything() -> None:
    bench = Bench(measured=1900, links=600)
    bench.after_trim = 1200
    budget = bench.budget(0.5)
    budget.look()
    assert bench.trimmed == 1
    assert bench.lost == []


def test_the_alarm_is_not_raised_again_at_once() -> None:
    bench = Bench(measured=1900, links=900)
    budget = bench.budget(0.1)
    budget.look()
    lost = len(bench.lost)
    assert lost
    bench.now = ALARM_NS - 1
    budget.look()
    assert len(bench.lost) == lost
    bench.now += LOOK_NS
    bench.held["links"] = 900
    budget.look()
    assert len(bench.lost) > lost


def test_a_loss_is_counted_and_logged_with_what_was_lost() -> None:
    bench = Bench(caches=100, links=2000)
    with structlog.testing.capture_logs() as lines:
        bench.budget(0.5, 0.5).look()
    assert bench.counters["memory_relieved"] == 1
    (line,) = lines
    assert line["log_level"] == "warning"
    assert line["links_bytes"] == 1162
    assert "caches_bytes" not in line


@pytest.mark.parametrize("held", [{}, {"links": 5}])
def test_what_is_held_is_told_by_name(held: dict[str, int]) -> None:
    assert Bench(**held).budget(*[1.0] * len(held)).held == held
