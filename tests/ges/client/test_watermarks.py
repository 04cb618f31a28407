"""Nothing that a client has had comes again from the broker it moves to."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ges.client.watermarks import MAX_MARKS, MAX_PUBLISHERS, Watermarks
from ges.wire.client_messages import Mark
from ges.wire.delivered import Event
from overlay.ids import LinkClass

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


def run(
    first: int,
    last: int,
    *,
    publisher: str = "p",
    incarnation: int = 1,
    link_class: LinkClass = NORMAL,
) -> list[Event]:
    return [
        Event("x", b"", {}, link_class, publisher, number, 0, 0, incarnation=incarnation)
        for number in range(first, last + 1)
    ]


def moved(*runs: list[Event]) -> Watermarks:
    """A client that has had these, and is attached to another broker now."""
    marks = Watermarks()
    for each in runs:
        assert marks.fresh(each) == each
    marks.move()
    return marks


def test_what_came_before_the_move_comes_once() -> None:
    marks = moved(run(1, 5))
    assert marks.fresh(run(3, 5)) == []
    assert marks.fresh(run(4, 7)) == run(6, 7)
    assert marks.fresh(run(8, 9)) == run(8, 9)


def test_what_the_new_broker_has_fetched_comes_once_although_it_is_still_on_its_way_there() -> None:
    marks = moved(run(1, 5))
    assert marks.fresh(run(6, 9)) == run(6, 9)
    assert marks.fresh(run(6, 10)) == run(10, 10)


def test_express_events_may_overtake_each_other_but_for_those_from_before_the_move() -> None:
    marks = moved(run(1, 5, link_class=EXPRESS))
    assert marks.fresh(run(4, 4, link_class=EXPRESS)) == []
    assert marks.fresh(run(5, 8, link_class=EXPRESS)) == run(6, 8, link_class=EXPRESS)
    assert marks.fresh(run(7, 7, link_class=EXPRESS)) == run(7, 7, link_class=EXPRESS)


def test_another_publisher_life_or_class_is_another_stream() -> None:
    marks = moved(run(1, 5))
    for other in (
        run(1, 2, publisher="q"),
        run(1, 2, incarnation=2),
        run(1, 2, link_class=SECURE),
    ):
        assert marks.fresh(other) == other


def test_a_client_that_moves_on_from_where_nothing_new_came_remembers() -> None:
    marks = moved(run(1, 9))
    assert marks.fresh(run(1, 3)) == []
    marks.move()
    assert marks.fresh(run(2, 10)) == run(10, 10)


def test_publishers_are_forgotten_once_there_are_too_many() -> None:
    many = (run(1, 1, publisher="q", incarnation=n) for n in range(MAX_PUBLISHERS))
    marks = moved(run(5, 5), *many)
    assert marks.fresh(run(1, 1, publisher="q", incarnation=MAX_PUBLISHERS - 1)) == []
    assert marks.fresh(run(5, 5)) == run(5, 5), "the least recently heard one is forgotten"


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), max_size=8))
def test_wherever_brokers_are_in_a_stream_it_comes_once_and_in_order(
    brokers: list[tuple[int, int]],
) -> None:
    """Each broker begins somewhere, and delivers so many before it is lost."""
    marks, got = Watermarks(), []
    for first, count in brokers:
        marks.move()
        got += [event.sequence for event in marks.fresh(run(first, first + count - 1))]
    assert got == sorted(set(got))


def test_the_next_broker_is_told_the_latest_first_and_no_more_than_it_remembers() -> None:
    marks = Watermarks()
    for number in range(MAX_MARKS + 10):
        marks.fresh(run(1, 3, publisher=f"{number:032x}"))
    marks.fresh(run(1, 4, publisher=f"{0:032x}"))
    told = list(marks.marks())
    assert len(told) == MAX_MARKS
    assert told[0] == Mark(bytes(16), 1, False, 4)
    assert told[1].publisher == (MAX_MARKS + 9).to_bytes(16, "big")


def test_a_retained_value_sets_no_mark() -> None:
    """A broker has learnt it from another one, and the events before it are still on their way."""
    marks = Watermarks()
    value = [msgspec.structs.replace(event, retained=True) for event in run(9, 9)]
    assert marks.fresh(value) == value
    assert marks.fresh(run(3, 9)) == run(3, 9)
    assert marks.fresh(value) == value, "values come as often as somebody subscribes"
