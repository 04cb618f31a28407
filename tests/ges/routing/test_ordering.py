"""Each publisher's events in order, whatever way they came."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.routing.ordering import (
    GAP_NS,
    HELD_BYTES,
    LONG_GAP_NS,
    MAX_HELD,
    MAX_PUBLISHERS,
    MET_GAP_NS,
    DenseOrdering,
)
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import Flow, pack_event
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, frame
from ring.config import LAN

NORMAL = LinkClass.NORMAL
KEY: Flow = (b"p" * 16, 1, NORMAL)
OTHER: Flow = (b"p" * 16, 2, NORMAL)


def run_of(flow: Flow, first: int, *, count: int = 1, size: int = 1) -> EventRun:
    """Return events of a flow."""
    publisher, incarnation, link_class = flow
    secure = link_class is LinkClass.SECURE
    frames = [
        frame(
            EVENT, pack_event(secure, publisher, incarnation, first + at, 0, b"t", b"", bytes(size))
        )
        for at in range(count)
    ]
    bounds = list(accumulate(map(len, frames), initial=0))
    (run,) = event_runs(b"".join(frames), bounds)
    return run


def numbers_of(runs: Iterable[EventRun]) -> list[int]:
    """Return the sequences of events."""
    return [run.head.sequence + at for run in runs for at in range(run.count)]


def admit(
    ordering: DenseOrdering,
    flow: Flow,
    number: int,
    now: int = 0,
    *,
    size: int = 1,
    marked: bool = False,
) -> list[int]:
    """Admit one event; return the sequences of what is delivered, in order."""
    return numbers_of(ordering.admit(run_of(flow, number, size=size), now, marked=marked))


def take(ordering: DenseOrdering, numbers: Iterable[int], now: int = 0) -> list[int]:
    """Admit each; return what is delivered, in order."""
    delivered: list[int] = []
    for number in numbers:
        delivered += admit(ordering, KEY, number, now)
    return delivered


def expire(ordering: DenseOrdering, now: int) -> list[int]:
    """Give up what is due; return what is delivered, in order."""
    return numbers_of(ordering.expire(now))


def test_in_order_they_pass_at_once() -> None:
    ordering = DenseOrdering()
    for number in range(1, 50):
        assert admit(ordering, KEY, number, 0) == [number]
    assert ordering.next_deadline() is None
    assert (ordering.too_late, ordering.lost) == (0, 0)


def test_a_run_that_comes_when_it_is_due_passes_as_it_is() -> None:
    ordering = DenseOrdering()
    for first in (1, 6):
        run = run_of(KEY, first, count=5)
        assert ordering.admit(run, 0) == (run,)
    early = run_of(KEY, 12, count=2)
    assert ordering.admit(early, 0) == []
    assert numbers_of(ordering.admit(run_of(KEY, 11), 0)) == [11, 12, 13]


def test_one_that_overtook_is_passed_on_but_held() -> None:
    ordering = DenseOrdering()
    take(ordering, [1])
    assert admit(ordering, KEY, 3, 0) == []
    assert admit(ordering, KEY, 2, 0) == [2, 3]
    assert ordering.next_deadline() is None


def test_a_gap_is_given_up_in_time() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 4], now=5)
    assert ordering.next_deadline() == 5 + LONG_GAP_NS
    assert expire(ordering, 4 + LONG_GAP_NS) == []
    assert expire(ordering, 5 + LONG_GAP_NS) == [4]
    assert ordering.lost == 2
    assert ordering.next_deadline() is None
    assert take(ordering, [2, 3, 5], now=6 + LONG_GAP_NS) == [5], "too late is too late"
    assert ordering.too_late == 2


def test_a_second_gap_has_its_own_time() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    take(ordering, [6], now=7)
    assert take(ordering, [2], now=LONG_GAP_NS - 1) == [2, 3]
    assert ordering.next_deadline() == 7 + LONG_GAP_NS
    assert expire(ordering, 6 + LONG_GAP_NS) == []
    assert expire(ordering, 7 + LONG_GAP_NS) == [6]


def test_giving_up_one_gap_does_not_give_up_the_next() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    take(ordering, [6], now=7)
    assert expire(ordering, LONG_GAP_NS) == [3]
    assert ordering.next_deadline() == 7 + LONG_GAP_NS


def test_many_gaps_do_not_add_up() -> None:
    ordering = DenseOrdering()
    take(ordering, range(1, 60, 2))
    assert expire(ordering, LONG_GAP_NS) == list(range(3, 60, 2))
    assert ordering.lost == 29


def test_a_forged_sequence_does_not_spoil_the_count_of_what_is_lost() -> None:
    ordering = DenseOrdering()
    assert take(ordering, [1, 7 * 10**17]) == [1]
    assert expire(ordering, LONG_GAP_NS) == [7 * 10**17]
    assert ordering.lost == MAX_HELD


def test_a_publisher_first_met_in_mid_stream() -> None:
    ordering = DenseOrdering()
    assert take(ordering, [70, 69, 71]) == []
    assert expire(ordering, MET_GAP_NS) == [69, 70, 71]
    assert ordering.lost == 0, "what came before we did is not lost"
    assert take(ordering, [72], now=MET_GAP_NS) == [72]


def test_the_first_event_of_all_ends_the_wait() -> None:
    ordering = DenseOrdering()
    assert take(ordering, [3, 2]) == []
    assert take(ordering, [1]) == [1, 2, 3]
    assert ordering.next_deadline() is None


def test_what_came_before_a_marked_one_is_not_waited_for_long() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    assert ordering.next_deadline() == LONG_GAP_NS
    assert admit(ordering, KEY, 7, 5, marked=True) == []
    take(ordering, [9], now=6)
    assert expire(ordering, 4 + GAP_NS) == []
    assert expire(ordering, 5 + GAP_NS) == [3, 7]
    assert ordering.next_deadline() == 6 + LONG_GAP_NS, "what came after it, is"
    assert take(ordering, [8], now=6 + GAP_NS) == [8, 9]


def test_while_in_doubt_no_gap_is_waited_for_long() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    ordering.doubt(0)
    assert take(ordering, [5], now=LONG_GAP_NS - MET_GAP_NS - 1) == []
    assert ordering.next_deadline() == LONG_GAP_NS - 1, "nor is one that was waited for already"
    assert expire(ordering, LONG_GAP_NS - 1) == [3, 5]
    take(ordering, [7], now=LONG_GAP_NS)
    assert ordering.next_deadline() == 2 * LONG_GAP_NS


def test_while_in_doubt_a_mark_makes_no_wait_longer() -> None:
    ordering = DenseOrdering()
    take(ordering, [1])
    ordering.doubt(0)
    assert admit(ordering, KEY, 3, 0, marked=True) == []
    assert ordering.next_deadline() == MET_GAP_NS


def test_what_waits_until_a_ring_neighbour_is_judged_is_not_given_up_for_a_mark() -> None:
    judged_ns = LAN.silence_max_ns + LAN.test_ns  # a witness tests it, too
    assert judged_ns < GAP_NS < LONG_GAP_NS


def test_streams_do_not_wait_for_one_another() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    for key in (OTHER, (b"p" * 16, 1, LinkClass.SECURE), (b"q" * 16, 1, NORMAL)):
        assert admit(ordering, key, 1, 0) == [1]


def test_what_is_held_is_bounded() -> None:
    ordering = DenseOrdering()
    take(ordering, [1])
    delivered = take(ordering, range(3, MAX_HELD + 3))
    assert delivered == []
    assert take(ordering, [MAX_HELD + 3]) == list(range(3, MAX_HELD + 4))
    assert ordering.lost == 1


def test_the_bytes_held_for_all_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    half = 10_000
    header = len(run_of(KEY, 1, size=0).data)
    monkeypatch.setattr("ges.routing.ordering.MAX_HELD_BYTES", 2 * half)
    ordering = DenseOrdering()
    for key in (KEY, OTHER):
        assert admit(ordering, key, 1) == [1]
        assert admit(ordering, key, 3, size=half - HELD_BYTES - header) == []
    assert admit(ordering, OTHER, 4) == [3, 4]
    assert admit(ordering, KEY, 4, size=half - HELD_BYTES - header) == [], "there is room again"


def test_publishers_remembered_are_bounded() -> None:
    ordering = DenseOrdering()
    take(ordering, [1, 3])
    for number in range(MAX_PUBLISHERS):
        admit(ordering, (b"q" * 16, number, NORMAL), 1)
    assert ordering.next_deadline() is None, "the oldest has gone, and what it waited for"
    assert admit(ordering, (b"q" * 16, MAX_PUBLISHERS - 1, NORMAL), 2) == [2]


@given(st.data())
def test_any_order_comes_out_in_order(data: st.DataObject) -> None:
    first = data.draw(st.integers(1, 3))
    numbers = list(range(first, first + data.draw(st.integers(1, 12))))
    ordering = DenseOrdering()
    delivered = take(ordering, data.draw(st.permutations(numbers)))
    delivered += expire(ordering, LONG_GAP_NS)
    assert delivered == numbers
    assert ordering.next_deadline() is None


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, LONG_GAP_NS)), max_size=60))
def test_whatever_comes_whenever_order_holds_and_nothing_waits_too_long(
    arrivals: list[tuple[int, int]],
) -> None:
    ordering = DenseOrdering()
    delivered: list[int] = []
    came: dict[int, int] = {}
    now = 0
    for number, pause in arrivals:
        now += pause
        delivered += expire(ordering, now)
        assert not [n for n, at in came.items() if n not in delivered and at + LONG_GAP_NS <= now]
        if number in came:
            continue  # what comes twice is dropped before
        too_late = ordering.too_late
        delivered += admit(ordering, KEY, number, now)
        if ordering.too_late == too_late:
            came[number] = now
    delivered += expire(ordering, now + LONG_GAP_NS)
    assert delivered == sorted(set(delivered))
    assert set(delivered) == set(came)
