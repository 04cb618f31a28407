"""Session lengths: their means, and what is left of a session that is met under way."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from overlay.errors import ConfigError
from overlay.rng import rng_for
from sims.scenarios.laws import Law, Sessions

DRAWS = 40_000

#: Laws whose variance is small enough that a mean of so many draws is within a few percent.
TAME = [
    Sessions(Law.EXPONENTIAL, 100),
    Sessions(Law.WEIBULL, 100),
    Sessions(Law.WEIBULL, 100, 1.5),
    Sessions(Law.PARETO, 100, 4.5),
    Sessions(Law.LOG_NORMAL, 100, 0.5),
]


@pytest.mark.parametrize("sessions", TAME, ids=str)
def test_the_mean_is_what_was_asked_for(sessions: Sessions) -> None:
    rng = rng_for(1, "laws")
    assert fmean(sessions.draw(rng) for _ in range(DRAWS)) == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("sessions", TAME, ids=str)
def test_what_is_left_is_what_a_long_history_shows(sessions: Sessions) -> None:
    """Sessions follow each other for long; at random moments it is measured what is left."""
    rng = rng_for(2, "laws")
    ends: list[float] = []
    at = 0.0
    while len(ends) < DRAWS:
        at += sessions.draw(rng)
        ends.append(at)
    moments = sorted(rng.random() * at for _ in range(DRAWS))
    left, index = [], 0
    for moment in moments:
        while ends[index] < moment:
            index += 1
        left.append(ends[index] - moment)
    drawn = sorted(sessions.draw_residual(rng) for _ in range(DRAWS))
    left.sort()
    for share in (0.25, 0.5, 0.75):
        at_share = int(share * DRAWS)
        assert drawn[at_share] == pytest.approx(left[at_share], rel=0.06)
    assert fmean(drawn) == pytest.approx(fmean(left), rel=0.1)


def test_the_exponential_law_has_no_memory() -> None:
    rng = rng_for(3, "laws")
    sessions = Sessions(Law.EXPONENTIAL, 60)
    left = fmean(sessions.draw_residual(rng) for _ in range(DRAWS))
    assert left == pytest.approx(60, rel=0.03)


def test_a_heavy_tail_leaves_more_than_the_mean() -> None:
    rng = rng_for(4, "laws")
    sessions = Sessions(Law.PARETO, 60, 3)
    # E[X**2] / (2 E[X]) = scale / (alpha - 2), with scale = mean * (alpha - 1).
    left = fmean(sessions.draw_residual(rng) for _ in range(10 * DRAWS))
    assert left == pytest.approx(120, rel=0.25)


@pytest.mark.parametrize(
    ("law", "mean", "shape", "named"),
    [
        (Law.WEIBULL, 0, None, "mean_s is 0"),
        (Law.WEIBULL, math.inf, None, "mean_s"),
        (Law.PARETO, 10, 1.0, "shape of pareto is 1.0, must be above 1"),
        (Law.WEIBULL, 10, -1, "shape of weibull"),
        (Law.EXPONENTIAL, 10, 2.0, "no shape"),
        (Law.WEIBULL, 10, 0.001, "shape of weibull is 0.001: .* give a larger shape"),
        (Law.WEIBULL, 10, 1e-300, "give a larger shape"),
        (Law.WEIBULL, 10, 0.05, "give a larger shape"),
        (Law.PARETO, 10, 1 + 1e-12, "give a larger shape"),
        (Law.LOG_NORMAL, 10, 1000, "shape of log-normal is 1000: .* give a smaller shape"),
        (Law.LOG_NORMAL, 10, 30.0, "give a smaller shape"),
    ],
)
def test_what_makes_no_sense_is_named(
    law: Law, mean: float, shape: float | None, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        Sessions(law, mean, shape)
