"""Clocks that run fast or slow, and links that carry so many bytes in a second."""

from __future__ import annotations

import pytest

from overlay.ids import nanos
from sims.world.bandwidth import OVERHEAD, Bandwidth
from sims.world.clocks import SkewedClock
from sims.world.timeline import Timeline

S = nanos(1)


def test_a_fast_clock_counts_more_and_a_slow_one_less_and_none_jumps() -> None:
    timeline = Timeline()
    clock = SkewedClock(timeline)
    timeline.run(10 * S)
    clock.run_at(2.0)
    assert clock.now == 10 * S
    timeline.run(15 * S)
    assert clock.now == 20 * S
    clock.run_at(0.5)
    timeline.run(25 * S)
    assert clock.now == 25 * S


@pytest.mark.parametrize("rate", [0.3, 0.7, 1.0, 1.1, 3.0])
def test_what_is_asked_for_happens_when_the_clock_shows_that_time(rate: float) -> None:
    timeline = Timeline()
    clock = SkewedClock(timeline)
    clock.run_at(rate)
    seen: list[tuple[int, int]] = []
    for shown in (S, 2 * S + 1, 7 * S + 123_457):
        clock.at(shown, lambda shown=shown: seen.append((shown, clock.now)))
    timeline.run(40 * S)
    assert [shown for shown, _ in seen] == [S, 2 * S + 1, 7 * S + 123_457]
    assert all(0 <= now - shown <= 3 for shown, now in seen)  # to the nanosecond of true time


def test_what_has_been_shown_is_due_now() -> None:
    timeline = Timeline()
    timeline.run(5 * S)
    clock = SkewedClock(timeline)
    clock.run_at(0.5)
    assert clock.true_time(S) == 5 * S


def test_what_is_sent_waits_behind_what_was_sent_before() -> None:
    wire = Bandwidth(8e6)  # a byte in a microsecond
    size = 1000 - OVERHEAD
    first = wire.leave("a", "b", size, 0)
    assert first == nanos(0.001)
    assert wire.leave("a", "b", size, 0) == 2 * first
    assert wire.leave("b", "a", size, 0) == first  # the other way is free
    assert wire.leave("a", "c", size, 0) == first
    assert wire.leave("a", "b", size, 10 * first) == 11 * first
