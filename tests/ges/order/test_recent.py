"""Each event once, whatever way it came."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.order import recent as module
from ges.order.recent import Recent
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import Flow, pack_event
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, frame

PUBLISHER = b"p" * 16
FLOW: Flow = (PUBLISHER, 1, LinkClass.NORMAL)


def run_of(first: int, count: int = 1, *, incarnation: int = 1) -> EventRun:
    """Return events with rising sequences."""
    bodies = [
        pack_event(False, PUBLISHER, incarnation, first + at, 0, b"t", b"", b"")
        for at in range(count)
    ]
    frames = [frame(EVENT, body) for body in bodies]
    bounds = [0]
    for each in frames:
        bounds.append(bounds[-1] + len(each))
    (run,) = event_runs(b"".join(frames), bounds)
    return run


def fresh(recent: Recent, first: int, count: int = 1) -> list[int]:
    """Let a run come; return the sequences that have not come before."""
    parts = recent.fresh(run_of(first, count))
    return [head.sequence for part in parts for head, _ in part.singles()]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 8)), max_size=60))
def test_each_is_fresh_once(runs: list[tuple[int, int]]) -> None:
    recent = Recent()
    seen: set[int] = set()
    for first, count in runs:
        numbers = set(range(first, first + count))
        assert fresh(recent, first, count) == sorted(numbers - seen)
        seen |= numbers
        assert {n for n in range(70) if recent.has_come(FLOW, n)} == seen


def test_a_run_that_is_fresh_as_a_whole_is_handed_on_as_it_is() -> None:
    recent = Recent()
    for first in (5, 10, 30, 1):
        run = run_of(first, 4)
        assert list(recent.fresh(run)) == [run]
        assert recent.fresh(run) == []


def test_lives_of_a_publisher_have_their_own_numbers() -> None:
    recent = Recent()
    assert recent.fresh(run_of(1))
    assert recent.fresh(run_of(1, incarnation=2))
    assert not recent.fresh(run_of(1, incarnation=2))


def test_how_far_behind_an_event_is_makes_no_difference() -> None:
    recent = Recent()
    assert fresh(recent, 10**12) == [10**12]
    assert fresh(recent, 1) == [1]
    assert fresh(recent, 10**12) == []


def test_gaps_are_bounded_and_the_oldest_counts_as_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BOUNDS", 6)
    recent = Recent()
    for number in (1, 3, 5, 7):
        fresh(recent, number)
    assert fresh(recent, 2) == [], "too old to know"
    assert fresh(recent, 4) == [4]


def test_gaps_of_all_flows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ALL_BOUNDS", 8)
    recent = Recent()
    for incarnation in (1, 2):
        for number in (1, 3, 5, 7):
            recent.fresh(run_of(number, incarnation=incarnation))
    assert sum(map(len, recent._come.values())) <= 8 + 2, "a flow has one range at least"


def test_flows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FLOWS", 3)
    recent = Recent()
    for incarnation in range(1, 5):
        recent.fresh(run_of(1, incarnation=incarnation))
    assert recent.fresh(run_of(1, incarnation=1)), "the oldest is forgotten"
    assert not recent.fresh(run_of(1, incarnation=4))


def test_the_flow_longest_without_an_event_is_forgotten_first() -> None:
    recent = Recent()
    for incarnation in (1, 2, 3, 1):
        recent.fresh(run_of(5, incarnation=incarnation))
    recent.shed(recent.memory - 1)
    assert recent.has_come((PUBLISHER, 1, LinkClass.NORMAL), 5)
    assert not recent.has_come((PUBLISHER, 2, LinkClass.NORMAL), 5)
    assert recent.has_come((PUBLISHER, 3, LinkClass.NORMAL), 5)
    recent.shed(0)
    assert recent.memory == 0
    assert recent.fresh(run_of(5))


@pytest.mark.parametrize(("flows", "gaps"), [(2000, 0), (10, 500)])
def test_the_memory_that_it_tells_is_what_it_takes(flows: int, gaps: int) -> None:
    recent = Recent()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for flow in range(flows):
            for gap in range(gaps + 1):
                recent.fresh(run_of(2**40 + 2 * gap, incarnation=2**40 + flow))
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.8 < recent.memory / taken < 1.4
