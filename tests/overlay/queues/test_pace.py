"""Who is known as a fast reader, who as a slow one, and since when; and how long others wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.queues.pace import (
    CROWD_BYTES,
    MOST_SECONDS,
    NEW_SECONDS,
    QUICK_EVENTS,
    QUICK_SHARE,
    WAIT_SECONDS,
    WAIT_SHARE,
    Allowance,
    Pace,
    Standing,
    crowd_bytes,
)

LIMIT = 16 * 1024 * 1024
QUICK = LIMIT * QUICK_SHARE  #: bytes a second
STEP = 0.05  #: seconds


def watched(at: float = 0.0) -> Pace:
    """Return the pace of a reader whose queue is crowded since then."""
    pace = Pace(LIMIT)
    pace.took(0, 0, LIMIT // 2, at, is_full=True)
    return pace


def read(pace: Pace, share: float, seconds: float, began: float = 0.0) -> float:
    """Let a reader take that share of what is fast enough; return the time then."""
    now = began
    for _ in range(round(seconds / STEP)):
        now += STEP
        pace.took(round(share * QUICK * STEP), 0, LIMIT // 2, now, is_full=True)
    return now


def test_a_reader_that_takes_enough_is_fast() -> None:
    pace = watched()
    assert pace.standing(0.0) is Standing.NEW
    now = read(pace, 1.1, 1.0)
    assert pace.standing(now) is Standing.FAST


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_one_that_takes_too_little_is_slow_within_a_second(share: float) -> None:
    pace = watched()
    assert pace.standing(read(pace, share, 0.9)) is Standing.SLOW


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_whatever_it_took_before(share: float) -> None:
    pace = watched()
    now = read(pace, 5.0, 10.0)
    assert pace.standing(now) is Standing.FAST
    now = read(pace, share, 1.0 + MOST_SECONDS * share, now)
    assert pace.standing(now) is not Standing.FAST


def test_many_small_events_are_enough() -> None:
    pace = watched()
    for turn in range(1, 21):
        pace.took(1, round(turn * 1.1 * QUICK_EVENTS * STEP), LIMIT // 2, turn * STEP, is_full=True)
    assert pace.standing(1.0) is Standing.FAST


def test_a_slow_one_that_takes_enough_is_fast_again() -> None:
    pace = watched()
    now = read(pace, 0.0, 1.0)
    assert pace.standing(now) is Standing.SLOW
    now = read(pace, 2.0, MOST_SECONDS, now)
    assert pace.standing(now) is Standing.SLOW, "it owes time yet"
    assert pace.standing(read(pace, 2.0, 2 * STEP, now)) is Standing.FAST


def test_what_the_kernel_keeps_says_nothing() -> None:
    """It takes some megabytes at once for a reader that stands still."""
    pace = Pace(LIMIT)
    pace.took(8 * 1024 * 1024, 1000, LIMIT // 2, 0.0, is_full=False)
    assert not pace.is_watched
    pace.took(0, 1000, LIMIT // 2, 0.1, is_full=True)
    assert pace.is_watched
    assert pace.standing(0.2 + NEW_SECONDS) is Standing.SLOW


def test_a_queue_that_is_not_crowded_says_nothing() -> None:
    pace = Pace(LIMIT)
    pace.took(0, 0, CROWD_BYTES, 0.0, is_full=True)
    assert not pace.is_watched
    assert pace.standing(100.0) is Standing.NEW


def test_a_debt_is_forgiven_while_nothing_waits() -> None:
    pace = watched()
    now = read(pace, 0.0, 1.0)
    pace.took(0, 0, 0, now, is_full=False)
    assert not pace.is_watched
    pace.took(0, 0, LIMIT // 2, now + MOST_SECONDS / 10, is_full=True)
    assert pace.standing(now + MOST_SECONDS / 10) is Standing.SLOW
    pace.took(0, 0, 0, now + MOST_SECONDS / 10, is_full=False)
    pace.took(0, 0, LIMIT // 2, now + 10.0, is_full=True)
    assert pace.standing(now + 10.0) is Standing.NEW


@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.floats(0, 10 * QUICK)), max_size=40))
def test_what_is_earned_or_owed_is_bounded(steps: list[tuple[float, float]]) -> None:
    pace, now = watched(), 0.0
    for seconds, size in steps:
        now += seconds
        pace.took(int(size), 0, LIMIT // 2, now, is_full=True)
        assert -MOST_SECONDS <= pace.left(now) <= MOST_SECONDS


def test_a_small_queue_is_crowded_when_half_full() -> None:
    assert crowd_bytes(LIMIT) == CROWD_BYTES
    assert crowd_bytes(1000) == 500


def test_an_allowance_is_a_share_of_the_time() -> None:
    """Whoever always waits as long as it may waits that share of it."""
    allowance, now, waited = Allowance(), 0.0, 0.0
    while now < 100.0:
        left = allowance.left(now)
        allowance.spend(left)
        waited += left
        now += left + 0.01
    assert waited <= WAIT_SECONDS + WAIT_SHARE * now
    assert waited >= 0.9 * WAIT_SHARE * now


def test_an_allowance_that_is_not_used_does_not_grow() -> None:
    assert Allowance().left(1000.0) == WAIT_SECONDS
