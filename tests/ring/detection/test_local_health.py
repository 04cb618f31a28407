"""How far a broker trusts its own judgement."""

from __future__ import annotations

from ring.detection.local_health import MAX_SCORE, LocalHealth


def scored(*signs: bool) -> LocalHealth:
    """Return the health of one that saw these signs: True for a good one."""
    health = LocalHealth()
    for is_good in signs:
        (health.better if is_good else health.worse)()
    return health


def test_the_healthy_wait_no_longer_than_usual() -> None:
    assert scored().stretch(100) == 100


def test_each_bad_sign_adds_the_usual_wait_once_more() -> None:
    assert [scored(*[False] * signs).stretch(100) for signs in (1, 2, 3)] == [200, 300, 400]


def test_a_good_sign_takes_back_one_bad_sign() -> None:
    assert scored(False, False, True).stretch(100) == 200


def test_there_is_a_longest_wait_and_the_way_back_from_it_is_bounded() -> None:
    slow = [False] * (3 * MAX_SCORE)
    assert scored(*slow).stretch(100) == 100 * (1 + MAX_SCORE)
    assert scored(*slow, *[True] * MAX_SCORE).stretch(100) == 100


def test_nobody_is_better_than_healthy() -> None:
    assert scored(True, True, False).stretch(100) == 200
