"""Telling again of what changes: soon after a rest, seldom if it never stops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ges.topology.update_rate import Rate, RateLimit
from overlay.ids import nanos

RATE = Rate(least_ns=nanos(1), rest_ns=nanos(8), burst=3)


def test_the_first_times_are_soon_and_those_after_them_seldom() -> None:
    limit = RateLimit(RATE)
    times = [0]
    for _ in range(5):
        times.append(limit.next(times[-1]))
    assert times == [nanos(at) for at in (0, 0, 1, 2, 8, 16)]


def test_after_a_rest_it_is_soon_again() -> None:
    limit = RateLimit(RATE)
    for _ in range(9):
        at = limit.next(0)
    rested = at + RATE.burst * RATE.rest_ns
    assert [limit.next(rested) - rested for _ in range(3)] == [0, nanos(1), nanos(2)]


@given(st.lists(st.integers(0, nanos(20)), min_size=1, max_size=60))
def test_whatever_is_asked_for_the_rate_holds(pauses: list[int]) -> None:
    limit = RateLimit(RATE)
    now = 0
    done: list[int] = []
    for pause in pauses:
        now = max(now, done[-1] if done else 0) + pause
        at = limit.next(now)
        assert at >= now
        done.append(at)
    for first, at in enumerate(done):
        for later in range(first + 1, len(done)):
            times = later - first + 1
            assert done[later] - at >= (later - first) * RATE.least_ns
            assert times <= RATE.burst + (done[later] - at) / RATE.rest_ns + 1
