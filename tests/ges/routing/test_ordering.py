"""Each event once and in order, whatever way it came."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ges.routing.ordering import (
    GAP_NS,
    LONG_GAP_NS,
    MAX_HELD,
    MAX_HELD_BYTES,
    MAX_PUBLISHERS,
    MAX_SEEN,
    MET_GAP_NS,
    Ordering,
    Seen,
)
from ring.config import LAN

KEY = (b"publisher", 1, False)
OTHER = (b"publisher", 2, False)


def take(ordering: Ordering[int], numbers: Iterable[int], now: int = 0) -> list[int]:
    """Admit each number as sequence and item; return what is delivered, in order."""
    delivered: list[int] = []
    for number in numbers:
        delivered += ordering.admit(KEY, number, number, now) or []
    return delivered


def test_in_order_they_pass_at_once() -> None:
    ordering: Ordering[int] = Ordering()
    for number in range(1, 50):
        assert ordering.admit(KEY, number, number, 0) == [number]
    assert ordering.next_deadline() is None
    assert (ordering.duplicates, ordering.lost) == (0, 0)


def test_one_that_came_before_is_neither_delivered_nor_passed_on() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 2, 4])
    assert [ordering.admit(KEY, number, number, 0) for number in (1, 2, 4)] == [None] * 3
    assert ordering.duplicates == 3


def test_one_that_overtook_is_passed_on_but_held() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1])
    assert ordering.admit(KEY, 3, 3, 0) == []
    assert ordering.admit(KEY, 2, 2, 0) == [2, 3]
    assert ordering.next_deadline() is None


def test_a_gap_is_given_up_in_time() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 4], now=5)
    assert ordering.next_deadline() == 5 + LONG_GAP_NS
    assert ordering.expire(4 + LONG_GAP_NS) == []
    assert ordering.expire(5 + LONG_GAP_NS) == [4]
    assert ordering.lost == 2
    assert ordering.next_deadline() is None
    assert take(ordering, [2, 3, 5], now=6 + LONG_GAP_NS) == [5], "too late is too late"


def test_a_second_gap_has_its_own_time() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    take(ordering, [6], now=7)
    assert take(ordering, [2], now=LONG_GAP_NS - 1) == [2, 3]
    assert ordering.next_deadline() == 7 + LONG_GAP_NS
    assert ordering.expire(6 + LONG_GAP_NS) == []
    assert ordering.expire(7 + LONG_GAP_NS) == [6]


def test_giving_up_one_gap_does_not_give_up_the_next() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    take(ordering, [6], now=7)
    assert ordering.expire(LONG_GAP_NS) == [3]
    assert ordering.next_deadline() == 7 + LONG_GAP_NS


def test_many_gaps_do_not_add_up() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, range(1, 60, 2))
    assert ordering.expire(LONG_GAP_NS) == list(range(3, 60, 2))
    assert ordering.lost == 29


def test_a_forged_sequence_does_not_spoil_the_count_of_what_is_lost() -> None:
    ordering: Ordering[int] = Ordering()
    assert take(ordering, [1, 7 * 10**17]) == [1]
    assert ordering.expire(LONG_GAP_NS) == [7 * 10**17]
    assert ordering.lost == MAX_HELD


def test_a_publisher_first_met_in_mid_stream() -> None:
    ordering: Ordering[int] = Ordering()
    assert take(ordering, [70, 69, 71]) == []
    assert ordering.expire(MET_GAP_NS) == [69, 70, 71]
    assert ordering.lost == 0, "what came before we did is not lost"
    assert take(ordering, [72], now=MET_GAP_NS) == [72]


def test_the_first_event_of_all_ends_the_wait() -> None:
    ordering: Ordering[int] = Ordering()
    assert take(ordering, [3, 2]) == []
    assert take(ordering, [1]) == [1, 2, 3]
    assert ordering.next_deadline() is None


def test_what_came_before_a_marked_one_is_not_waited_for_long() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    assert ordering.next_deadline() == LONG_GAP_NS
    assert ordering.admit(KEY, 7, 7, 5, marked=True) == []
    take(ordering, [9], now=6)
    assert ordering.expire(4 + GAP_NS) == []
    assert ordering.expire(5 + GAP_NS) == [3, 7]
    assert ordering.next_deadline() == 6 + LONG_GAP_NS, "what came after it, is"
    assert take(ordering, [8], now=6 + GAP_NS) == [8, 9]


def test_while_in_doubt_no_gap_is_waited_for_long() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    ordering.doubt(0)
    assert take(ordering, [5], now=LONG_GAP_NS - MET_GAP_NS - 1) == []
    assert ordering.next_deadline() == LONG_GAP_NS - 1, "nor is one that was waited for already"
    assert ordering.expire(LONG_GAP_NS - 1) == [3, 5]
    take(ordering, [7], now=LONG_GAP_NS)
    assert ordering.next_deadline() == 2 * LONG_GAP_NS


def test_while_in_doubt_a_mark_makes_no_wait_longer() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1])
    ordering.doubt(0)
    assert ordering.admit(KEY, 3, 3, 0, marked=True) == []
    assert ordering.next_deadline() == MET_GAP_NS


def test_what_waits_until_a_ring_neighbour_is_judged_is_not_given_up_for_a_mark() -> None:
    judged_ns = LAN.silence_max_ns + LAN.test_ns  # a witness tests it, too
    assert judged_ns < GAP_NS < LONG_GAP_NS


def test_streams_do_not_wait_for_one_another() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    for key in (OTHER, (b"publisher", 1, True), (b"another", 1, False)):
        assert ordering.admit(key, 1, 1, 0) == [1]


def test_what_is_held_is_bounded() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1])
    delivered = take(ordering, range(3, MAX_HELD + 3))
    assert delivered == []
    assert take(ordering, [MAX_HELD + 3]) == list(range(3, MAX_HELD + 4))
    assert ordering.lost == 1


def test_the_bytes_held_for_all_are_bounded() -> None:
    ordering: Ordering[int] = Ordering()
    half = MAX_HELD_BYTES // 2
    for key in (KEY, OTHER):
        assert ordering.admit(key, 1, 1, 0, size=half) == [1]
        assert ordering.admit(key, 3, 3, 0, size=half) == []
    assert ordering.admit(OTHER, 4, 4, 0, size=1) == [3, 4]
    assert ordering.admit(KEY, 4, 4, 0, size=half) == [], "there is room again"


def test_what_was_seen_is_remembered_within_bounds() -> None:
    seen = Seen()
    assert [seen.first(number) for number in (1, 2, 1)] == [True, True, False]
    for number in range(3, MAX_SEEN + 2):
        seen.first(number)
    assert not seen.first(2)
    assert seen.first(1), "the oldest is forgotten"


def test_publishers_remembered_are_bounded() -> None:
    ordering: Ordering[int] = Ordering()
    take(ordering, [1, 3])
    for number in range(MAX_PUBLISHERS):
        ordering.admit((b"p", number, False), 1, 1, 0)
    assert ordering.next_deadline() is None, "the oldest has gone, and what it waited for"
    assert ordering.admit((b"p", MAX_PUBLISHERS - 1, False), 2, 2, 0) == [2]


@given(st.data())
def test_any_order_with_duplicates_comes_out_once_and_in_order(data: st.DataObject) -> None:
    first = data.draw(st.integers(1, 3))
    numbers = list(range(first, first + data.draw(st.integers(1, 12))))
    copies = [n for n in numbers for _ in range(data.draw(st.integers(1, 3)))]
    ordering: Ordering[int] = Ordering()
    delivered = take(ordering, data.draw(st.permutations(copies)))
    delivered += ordering.expire(LONG_GAP_NS)
    assert delivered == numbers
    assert ordering.duplicates == len(copies) - len(numbers)
    assert ordering.next_deadline() is None


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, LONG_GAP_NS)), max_size=60))
def test_whatever_comes_whenever_order_holds_and_nothing_waits_too_long(
    arrivals: list[tuple[int, int]],
) -> None:
    ordering: Ordering[int] = Ordering()
    delivered: list[int] = []
    came: dict[int, int] = {}
    now = 0
    for number, pause in arrivals:
        now += pause
        delivered += ordering.expire(now)
        assert not [n for n, at in came.items() if n not in delivered and at + LONG_GAP_NS <= now]
        if (ready := ordering.admit(KEY, number, number, now)) is not None:
            came[number] = now
            delivered += ready
    delivered += ordering.expire(now + LONG_GAP_NS)
    assert delivered == sorted(set(delivered))
    assert set(delivered) == set(came)
