"""Clients that only look: where there are too many, the oldest goes."""

from __future__ import annotations

from ges.sessions.visitors import Visitors
from overlay.shares import source_of

A, B = source_of("10.0.0.1", None), source_of("10.0.0.2", None)


def test_the_oldest_of_a_source_that_has_too_many_goes() -> None:
    ended: list[int] = []
    visitors: Visitors[int] = Visitors(8, of_one=2, end=ended.append)
    for number, source in enumerate((B, A, A, A)):
        visitors.enter(number, source)
    assert ended == [1]
    assert len(visitors) == 3


def test_where_there_are_too_many_the_oldest_of_whoever_has_most_goes() -> None:
    ended: list[int] = []
    visitors: Visitors[int] = Visitors(3, of_one=0, end=ended.append)
    for number, source in enumerate((B, A, A, B)):
        visitors.enter(number, source)
    assert ended == [1]


def test_who_has_left_does_not_count() -> None:
    ended: list[int] = []
    visitors: Visitors[int] = Visitors(4, of_one=1, end=ended.append)
    visitors.enter(1, A)
    visitors.leave(1)
    visitors.leave(1)
    visitors.enter(2, A)
    assert ended == []
    assert 2 in visitors
