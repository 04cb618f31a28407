"""How long a silent broker is waited for: soon enough if it is gone, long enough if it is slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.client.keepalive import (
    HALF_LIFE_SECONDS,
    KEEP_ALIVE_SECONDS,
    SILENCE_MAX_SECONDS,
    SILENCE_SECONDS,
    TIMES_SLOWEST,
    Keepalive,
)


def looks(keepalive: Keepalive, now: float, seconds: float) -> tuple[float, bool]:
    """Look at the right times for so long; returns when it was, and whether the broker is lost."""
    until = now + seconds
    while now < until:
        now += KEEP_ALIVE_SECONDS
        if keepalive.is_over(now):
            return now, True
    return now, False


def test_a_silent_broker_is_lost_soon() -> None:
    keepalive = Keepalive(100.0)
    keepalive.heard(103.0)
    now, is_lost = looks(keepalive, 100.0, 60.0)
    assert is_lost
    latest = 103.0 + SILENCE_SECONDS + KEEP_ALIVE_SECONDS
    assert 103.0 + SILENCE_SECONDS < now <= latest + 1e-6


def test_one_that_answered_slowly_is_given_more_time() -> None:
    keepalive = Keepalive(0.0)
    keepalive.asked(1, 0.5)
    assert not keepalive.is_over(0.5)
    assert not keepalive.is_over(1.0)
    assert not keepalive.is_over(1.5)
    keepalive.heard(1.5)
    keepalive.answered(1, 1.5)
    assert keepalive.limit == TIMES_SLOWEST * 1.0
    now, is_lost = looks(keepalive, 1.5, 60.0)
    assert is_lost
    assert 1.5 + 3.0 < now < 1.5 + 5.0


def test_a_slow_answer_is_forgotten_by_and_by() -> None:
    keepalive = Keepalive(0.0)
    keepalive.asked(1, 0.0)
    keepalive.answered(1, 2.0)
    assert keepalive.limit == 8.0
    now = 2.0
    while now < 2.0 + 3 * HALF_LIFE_SECONDS:
        now += KEEP_ALIVE_SECONDS
        keepalive.heard(now)
        assert not keepalive.is_over(now)
    assert keepalive.limit == SILENCE_SECONDS


def test_the_time_of_an_answer_counts_from_the_oldest_question() -> None:
    keepalive = Keepalive(0.0)
    for token in range(1, 5):
        keepalive.asked(token, token / 2)
    keepalive.answered(2, 2.5)
    assert keepalive.limit == TIMES_SLOWEST * 2.0
    keepalive.answered(3, 2.6)  # of no question that is still open
    assert keepalive.limit == TIMES_SLOWEST * 2.0


@pytest.mark.parametrize("stood_still", [3.0, 600.0])
def test_time_in_which_we_did_not_run_is_not_the_brokers(stood_still: float) -> None:
    keepalive = Keepalive(0.0)
    assert not keepalive.is_over(0.5)
    keepalive.heard(0.6)
    keepalive.asked(1, 0.7)
    now = 1.0 + stood_still
    assert not keepalive.is_over(now)
    keepalive.answered(1, now)
    assert keepalive.limit == SILENCE_SECONDS
    now, is_lost = looks(keepalive, now, 60.0)
    assert is_lost
    assert now <= 1.0 + stood_still + SILENCE_SECONDS + KEEP_ALIVE_SECONDS + 1e-6
    assert keepalive.heard_at == 0.6  # for which time events may be missing is another question


@given(
    st.lists(
        st.tuples(st.sampled_from(["asked", "answered", "heard"]), st.floats(0, 4)), max_size=40
    )
)
def test_whatever_came_before_a_broker_that_is_gone_is_lost_in_time(
    steps: list[tuple[str, float]],
) -> None:
    keepalive, now, token = Keepalive(0.0), 0.0, 0
    for step, pause in steps:
        now += pause
        if step == "asked":
            token += 1
            keepalive.asked(token, now)
        elif step == "answered":
            keepalive.answered(token, now)
        else:
            keepalive.heard(now)
        assert SILENCE_SECONDS <= keepalive.limit <= SILENCE_MAX_SECONDS
    keepalive.is_over(now)
    since, is_lost = now, False
    now, is_lost = looks(keepalive, now, SILENCE_MAX_SECONDS + 1)
    assert is_lost
    assert now - since <= SILENCE_MAX_SECONDS + KEEP_ALIVE_SECONDS + 1e-6
