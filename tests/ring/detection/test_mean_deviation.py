"""What is made of measured waits."""

from __future__ import annotations

import pytest

from ring.detection.mean_deviation import MeanDeviation


def measured(*samples: int) -> MeanDeviation:
    deviation = MeanDeviation()
    for sample in samples:
        deviation.add(sample)
    return deviation


def test_the_first_sample_is_doubled() -> None:
    assert measured(1000).within(0, 10_000) == 2000


def test_waits_that_are_all_the_same_are_waited_for_and_hardly_more() -> None:
    assert 1000 <= measured(*[1000] * 50).within(0, 10_000) <= 1010


def test_irregular_waits_are_given_several_deviations() -> None:
    assert measured(*[500, 1500] * 50).within(0, 10_000) > 2000


@pytest.mark.parametrize("before", [100, 5000])
def test_what_was_before_is_forgotten(before: int) -> None:
    assert 990 <= measured(before, *[1000] * 60).within(0, 10_000) <= 1050


@pytest.mark.parametrize(("sample", "waited"), [(10, 400), (300, 600), (5000, 800)])
def test_it_is_never_less_or_more_than_is_asked_for(sample: int, waited: int) -> None:
    assert measured(sample).within(400, 800) == waited
