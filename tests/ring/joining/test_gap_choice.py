"""Which gap a newcomer is put into: the choice by itself (paper 004, section 3.3)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ring.config import GapRule
from ring.geometry import RING_SIZE, clockwise, gap
from ring.joining.gap_choice import LAP, Choice, Request, Sight, Verdict, choose

U = RING_SIZE // 1024  #: the mean gap of the rings below
MAX_JUMPS = 32
INSERT, FULL = Choice(Verdict.INSERT), Choice(Verdict.FULL)


def even(n: int) -> list[int]:
    return [k * RING_SIZE // n for k in range(n)]


def sight(ids: Sequence[int], here: int, room: int | None = None) -> Sight:
    """Return what the broker ``here`` sees of the ring of ``ids``, which has more than nine."""
    ring = sorted(ids)
    n, at = len(ring), ring.index(here)
    chords = [ring[(at + 2**level) % n] for level in range(1, 31) if 2**level < n]
    rights = [ring[(at + step) % n] for step in range(1, 5)]
    lefts = [ring[at - step] for step in range(1, 5)]
    own = gap(here, rights[0]) if room is None else room
    return Sight(here, own, lefts, rights, whole=False, chords=chords)


def chosen(seen: Sight, newcomer: str = "a", jumps: int = 0, *, asked: bool = False) -> Choice:
    request = Request(newcomer, jumps, asked)
    return choose(seen, request, GapRule.WIDEST, MAX_JUMPS, random.Random(1))


def published(seen: Sight, jumps: int = 0, *, asked: bool = False) -> Choice:
    request = Request("a", jumps, asked)
    return choose(seen, request, GapRule.PUBLISHED, MAX_JUMPS, random.Random(1))


def crowded(n: int = 1024) -> list[int]:
    """Return a ring whose first quarter holds half of the brokers."""
    half = n // 2
    quarter = RING_SIZE // 4
    left = [k * quarter // half for k in range(half)]
    return left + [quarter + k * 3 * quarter // half for k in range(half)]


# What a broker can tell of the whole ring


@pytest.mark.parametrize("n", [10, 100, 1000, 1024, 1025, 5000])
def test_the_mean_gap_is_read_off_the_chords(n: int) -> None:
    mean = RING_SIZE // n
    assert sight(even(n), 0).mean() == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize("here", [0, RING_SIZE // 8 // 512 * 512, 3 * RING_SIZE // 4])
def test_the_mean_is_within_a_factor_of_two_where_ids_are_uneven(here: int) -> None:
    ids = crowded()
    here = min(ids, key=lambda ring_id: abs(ring_id - here))
    mean = RING_SIZE // len(ids)
    assert mean // 2 <= sight(ids, here).mean() <= 2 * mean


def test_a_crowd_of_adjacent_ids_does_not_hide_the_free_space() -> None:
    ids = list(range(1000))
    assert sight(ids, 500).mean() >= RING_SIZE // 1024


# Where the request goes


def test_a_gap_of_the_mean_width_is_taken_at_once() -> None:
    assert chosen(sight(even(1024), 0)) == INSERT


def test_the_widest_of_eight_gaps_is_taken() -> None:
    ids = [i for i in even(1024) if i != 4 * U]
    assert chosen(sight(ids, 0)) == Choice(Verdict.ASK, 3 * U)
    assert chosen(sight(ids, 6 * U)) == Choice(Verdict.ASK, 3 * U)
    assert chosen(sight(ids, 3 * U)) == INSERT


def bound_for(low: int, high: int) -> str:
    """Return a newcomer whose first point lies between two ids."""
    return next(name for name in map(str, range(10**6)) if low <= Request(name).point < high)


def test_where_ids_are_dense_the_request_jumps_towards_the_newcomers_point() -> None:
    ids = crowded()
    newcomer = bound_for(RING_SIZE // 2, 3 * RING_SIZE // 4)
    point = Request(newcomer).point
    at, jumps = ids[10], 0
    while (choice := chosen(sight(ids, at), newcomer, jumps)).verdict is Verdict.PASS_ON:
        assert clockwise(choice.ring_id, point) < clockwise(at, point)
        at, jumps = choice.ring_id, jumps + 1
    assert at > RING_SIZE // 4
    assert 1 <= jumps < LAP


def test_where_the_point_is_reached_and_all_is_dense_the_request_goes_anywhere() -> None:
    ids = crowded()
    seen, request = sight(ids, ids[100]), Request(bound_for(ids[100], ids[102]))
    choices = {
        choose(seen, request, GapRule.WIDEST, MAX_JUMPS, random.Random(seed)).ring_id
        for seed in range(100)
    }
    assert choices == set(seen.chords)


def test_what_is_wide_enough_gets_less_with_the_jumps() -> None:
    """What chords tell may be out of date; a search must end all the same."""
    ids = crowded()
    seen = sight(ids, ids[10])
    verdicts = [chosen(seen, jumps=jumps).verdict for jumps in range(MAX_JUMPS)]
    assert verdicts[0] is Verdict.PASS_ON
    assert verdicts[2 * LAP] is Verdict.INSERT
    assert verdicts == sorted(verdicts, key=lambda verdict: verdict is Verdict.INSERT)


def test_an_owner_whose_gap_was_taken_meanwhile_chooses_anew() -> None:
    ids = even(1024)
    assert chosen(sight(ids, 0), jumps=1, asked=True) == INSERT
    taken = sight(ids, 0, room=U // 2)
    assert chosen(taken, jumps=1, asked=True).verdict is Verdict.ASK
    assert chosen(taken, jumps=MAX_JUMPS, asked=True) == INSERT


@pytest.mark.parametrize("jumps", [0, 5, MAX_JUMPS, 255])
@pytest.mark.parametrize("asked", [False, True])
def test_a_search_in_a_full_ring_ends(jumps: int, asked: bool) -> None:
    """At the last broker asked at the latest."""
    choice = chosen(sight(range(1000), 500), jumps=jumps, asked=asked)
    assert choice.verdict is (Verdict.PASS_ON if jumps < MAX_JUMPS else Verdict.FULL)


def test_the_one_gap_of_a_crowded_ring_is_found() -> None:
    ids = list(range(1000))
    for start in (0, 1, 500, 998):
        at, jumps, asked = start, 0, False
        while True:
            choice = chosen(sight(ids, at), f"{start}", jumps, asked=asked)
            if choice.verdict is Verdict.INSERT:
                break
            assert choice.verdict is not Verdict.FULL
            at, jumps, asked = choice.ring_id, jumps + 1, choice.verdict is Verdict.ASK
        assert at == 999
        assert jumps <= 11


def test_in_a_small_ring_the_last_gap_of_the_circle_counts() -> None:
    assert chosen(Sight(3, 1, [2], [4], whole=True, chords=[4])) == Choice(Verdict.ASK, 4)


def test_a_newcomer_to_the_ring_without_chords_passes_on_to_the_right_where_all_is_full() -> None:
    seen = Sight(500, 1, [499, 498], [501, 502], whole=False)
    assert chosen(seen) == Choice(Verdict.PASS_ON, 502)


def test_points_are_spread_over_the_circle() -> None:
    names = [f"{number:032x}" for number in range(100)]
    eighths = {Request(name).point * 8 // RING_SIZE for name in names}
    assert eighths == set(range(8))
    assert {Request("a", lap * LAP).point * 8 // RING_SIZE for lap in range(100)} == eighths


# The published rule


def test_published_halves_the_wider_of_the_contacts_own_gaps() -> None:
    ids = [i for i in even(1024) if i not in (U, 1021 * U)]
    assert published(sight(ids, 0)) == INSERT
    assert published(sight(ids, 2 * U)) == Choice(Verdict.ASK, 0)
    # The wider gap two to the left does not count, and of equal ones it is the left.
    assert published(sight(ids, 1023 * U)) == Choice(Verdict.ASK, 1022 * U)


def test_published_works_with_two_brokers() -> None:
    seen = Sight(0, 2**16 - 1, [], [2**16 - 1], whole=True)
    assert published(seen) == Choice(Verdict.ASK, 2**16 - 1)


def test_published_requests_right_right_where_there_is_no_id_space() -> None:
    assert published(sight(range(1000), 500)) == Choice(Verdict.PASS_ON, 502)
    assert published(sight(range(1000), 500), MAX_JUMPS) == FULL


# Many joins


def test_ten_thousand_ids_through_one_contact_stay_even() -> None:
    from benchmarks.bars.joins import grow

    grown = grow(10_000, one_contact=True)
    assert (grown.failed, len(set(grown.ids))) == (0, 10_000)
    assert grown.spread <= 2**8
    assert max(grown.jumps) < MAX_JUMPS
