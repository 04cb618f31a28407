"""Greetings, and two brokers that call each other: they end with one link, and with the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.errors import CodecError
from overlay.ids import LinkClass, Peer
from overlay.machine import Refused
from overlay.wire.frames import HEADER, PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello, LinkTable, Refusal, Welcome, judge_hello
from overlay.wire.versions import Agreement
from tests.helpers.examples import examples

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
A, B = "a" * 32, "b" * 32


def hello(**changes: Any) -> Hello:  # noqa: ANN401 - fields of a greeting
    peer = Peer(B, 3, "chordal://b:1")
    return msgspec.structs.replace(
        Hello("chordal", PROTOCOL_VERSION, B, 3, peer, NORMAL, A, 1), **changes
    )


# What a greeting says


def test_greetings_survive_the_wire() -> None:
    peer = Peer(A, 1, "chordal://a:1", secure=True)
    for message in (
        hello(),
        hello(peer=None),
        hello(token="t", capabilities=("x",), secret=bytes(16)),
        hello(name="berlin-1"),
        Welcome(peer, 4),
        Welcome(peer, 4, name="berlin-1"),
        Refusal(Refused.BUSY, "later"),
    ):
        assert GREETINGS.decode(GREETINGS.encode(message)[HEADER.size :]) == message


def test_a_greeting_with_a_field_out_of_bounds_is_none() -> None:
    for changes in (
        {"overlay": ""},
        {"uid": "B" * 32},
        {"serial": -1},
        {"version": 256},
        {"secret": bytes(15)},
        {"secret": bytes(65)},
        {"name": "n" * 65},
    ):
        with pytest.raises(CodecError):
            GREETINGS.decode(GREETINGS.encode(hello(**changes))[HEADER.size :])


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"overlay": "other"}, Refused.OTHER_OVERLAY, ["'chordal'", "'other'"]),
        ({"version": 9}, Refused.OTHER_VERSION, [str(PROTOCOL_VERSION), "9"]),
        ({"expected": B}, Refused.OTHER_PEER, ["another broker"]),
        ({"uid": A}, Refused.NOT_CHORDAL, ["contradicts itself"]),
        ({"incarnation": 4}, Refused.NOT_CHORDAL, ["contradicts itself"]),
        ({"peer": Peer(B, 3, "http://b:1")}, Refused.NOT_CHORDAL, ["no URL"]),
        ({"peer": Peer(B, 3, "chordals://b:1")}, Refused.NOT_CHORDAL, ["no URL"]),
    ],
)
def test_greetings_that_lead_to_no_link(
    changes: dict[str, Any], reason: Refused, words: list[str]
) -> None:
    refusal = judge_hello(hello(**changes), overlay="chordal", own_uid=A)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
    assert [word for word in words if word not in refusal.detail] == []


@pytest.mark.parametrize("changes", [{}, {"expected": None}, {"peer": None, "expected": None}])
def test_greetings_that_may(changes: dict[str, Any]) -> None:
    found = judge_hello(hello(**changes), overlay="chordal", own_uid=A)
    assert found == Agreement(PROTOCOL_VERSION, frozenset())


# One end of the table


def test_a_broker_is_called_once_and_not_when_linked() -> None:
    table = LinkTable(A)
    first = table.call(B, NORMAL)
    assert first
    assert not table.call(B, NORMAL)
    assert table.call(B, SECURE), "the classes are independent"
    assert table.on_welcome(B, NORMAL, 1, call=first)
    assert not table.call(B, NORMAL)
    table.closed(B, NORMAL)
    second = table.call(B, NORMAL)
    assert second
    table.call_ended(B, NORMAL, second)
    assert table.call(B, NORMAL)


def test_a_call_that_has_lost_and_fails_late_says_nothing_of_the_next() -> None:
    table = LinkTable(B)
    lost = table.call(A, NORMAL)
    assert table.on_hello(A, NORMAL, 1), "the other end's call wins"
    table.closed(A, NORMAL)
    second = table.call(A, NORMAL)
    assert lost
    assert second
    table.call_ended(A, NORMAL, lost)
    assert table.is_calling(A, NORMAL, second)
    assert not table.is_calling(A, NORMAL, lost)
    assert table.on_welcome(A, NORMAL, 2, call=lost), "late, but there is no other link"
    assert table.is_calling(A, NORMAL, second), "its answer is still to come"
    assert table.on_welcome(A, NORMAL, 3, call=second)
    assert not table.is_calling(A, NORMAL)


def test_of_crossing_calls_that_of_the_smaller_uid_wins() -> None:
    smaller, larger = LinkTable(A), LinkTable(B)
    assert smaller.call(B, NORMAL)
    assert larger.call(A, NORMAL)
    assert not smaller.on_hello(B, NORMAL, larger.next_serial())
    assert larger.on_hello(A, NORMAL, smaller.next_serial())


def test_a_call_from_where_there_is_a_link_replaces_it() -> None:
    table = LinkTable(A)
    assert table.on_hello(B, NORMAL, 1)
    assert table.on_hello(B, NORMAL, 2)
    called = LinkTable(A)
    assert called.on_welcome(B, NORMAL, 5, call=called.call(B, NORMAL))
    assert not called.on_hello(B, NORMAL, 4), "it began before the link was made"
    assert called.on_hello(B, NORMAL, 6)


def test_a_greeting_said_twice_replaces_nothing() -> None:
    table = LinkTable(A)
    assert table.on_hello(B, NORMAL, 5, incarnation=3)
    assert not table.on_hello(B, NORMAL, 5, incarnation=3)
    assert not table.on_hello(B, NORMAL, 4, incarnation=3), "nor an older one"
    assert table.on_hello(B, NORMAL, 1, incarnation=4), "another life numbers anew"
    table.closed(B, NORMAL)
    assert table.on_hello(B, NORMAL, 1, incarnation=4), "there is nothing to replace"


# Two ends, and whatever may happen between them


@dataclass(eq=False)
class Line:
    """One connection; what each end has sent to the other comes in order, then its end."""

    caller: str
    serial: int
    number: int | None  #: of the call in the caller's table; None: an address alone was called
    open: set[str] = field(default_factory=lambda: {A, B})
    coming: dict[str, deque[tuple[str, int]]] = field(
        default_factory=lambda: {A: deque(), B: deque()}
    )


class Pair:
    """Two brokers with their tables, calling each other as the driver does."""

    def __init__(self) -> None:
        self.tables = {A: LinkTable(A), B: LinkTable(B)}
        self.links: dict[str, Line | None] = {A: None, B: None}
        self.lines: list[Line] = []

    def call(self, here: str, *, known: bool = True) -> None:
        """Call the other; not ``known``: an address is called, whoever may be there."""
        table, there = self.tables[here], _other(here)
        number = table.call(there, NORMAL) if known else None
        if number is not None or not known:
            line = Line(here, table.next_serial(), number)
            line.coming[there].append(("hello", line.serial))
            self.lines.append(line)

    def give_up(self, here: str) -> None:
        """The caller's patience ends before an answer comes."""
        for line in self.lines:
            if line.caller == here and here in line.open and self.links[here] is not line:
                self._close(line, here)
                self._call_ended(line, here)

    def lose(self, here: str) -> None:
        """The link that this end has breaks; the other end will notice in its time."""
        line = self.links[here]
        if line is not None:
            self._close(line, here)
            self._unlink(line, here)

    def arrivals(self) -> list[tuple[Line, str]]:
        return [(line, end) for line in self.lines for end in (A, B) if line.coming[end]]

    def arrive(self, line: Line, here: str) -> None:
        what, serial = line.coming[here].popleft()
        if here not in line.open:
            return
        table, there = self.tables[here], _other(here)
        if what == "hello":
            if table.on_hello(there, NORMAL, serial):
                line.coming[there].append(("welcome", table.next_serial()))
                self._link(line, here)
            else:
                line.coming[there].append(("refusal", 0))
                line.open.discard(here)
        elif what == "welcome" and table.on_welcome(there, NORMAL, serial, call=line.number):
            self._link(line, here)
        elif self.links[here] is line:
            self._close(line, here)
            self._unlink(line, here)
        else:
            self._close(line, here)
            self._call_ended(line, here)

    def settle(self) -> None:
        while arrivals := self.arrivals():
            self.arrive(*arrivals[0])

    def check(self) -> None:
        """At rest the two ends hold the same link or none, and their tables say so."""
        assert self.links[A] is self.links[B]
        for here, table in self.tables.items():
            linked = self.links[here] is not None
            assert bool(table._links) == linked
            assert not table._calling

    def _link(self, line: Line, here: str) -> None:
        old, self.links[here] = self.links[here], line
        if old is not None:
            self._close(old, here)

    def _unlink(self, line: Line, here: str) -> None:
        assert self.links[here] is line
        self.links[here] = None
        self.tables[here].closed(_other(here), NORMAL)

    def _call_ended(self, line: Line, here: str) -> None:
        if line.caller == here and line.number is not None:
            self.tables[here].call_ended(_other(here), NORMAL, line.number)

    def _close(self, line: Line, here: str) -> None:
        line.open.discard(here)
        line.coming[_other(here)].append(("end", 0))


def _other(here: str) -> str:
    return B if here == A else A


def play(steps: Sequence[int], *, faults: bool) -> Pair:
    """Let two brokers do what the numbers say, and come to rest."""
    pair = Pair()
    for step in steps:
        kind, end = step % 8, (A, B)[step // 8 % 2]
        arrivals = pair.arrivals()
        if kind == 0:
            pair.call(end)
        elif faults and kind == 3:
            pair.call(end, known=False)
        elif faults and kind == 1:
            pair.give_up(end)
        elif faults and kind == 2:
            pair.lose(end)
        elif arrivals:
            pair.arrive(*arrivals[step // 16 % len(arrivals)])
    pair.settle()
    return pair


steps = st.lists(st.integers(0, 16 * 12), max_size=60)


@given(steps)
@settings(max_examples=examples(500))
def test_calls_that_cross_make_exactly_one_link(numbers: list[int]) -> None:
    pair = play([0, *numbers], faults=False)
    pair.check()
    assert pair.links[A] is not None


@given(steps)
@settings(max_examples=examples(1000))
@example([0, 8, 3, 3, 2, 3, 8, 3, 3])
def test_whatever_breaks_the_two_never_hold_different_links(numbers: list[int]) -> None:
    pair = play(numbers, faults=True)
    pair.check()
    pair.lose(A)
    pair.settle()
    assert pair.links == {A: None, B: None}
    pair.call(B)
    pair.settle()
    pair.check()
    assert pair.links[A] is not None, "a lost link is replaced by a new call"


@pytest.mark.parametrize("loser", [A, B])
@pytest.mark.parametrize("caller", [A, B])
def test_a_new_call_replaces_a_link_that_one_end_still_believes_in(caller: str, loser: str) -> None:
    pair = Pair()
    pair.call(caller)
    pair.settle()
    old = pair.links[A]
    assert old is not None
    pair.lose(loser)
    pair.call(loser)
    line = pair.lines[-1]
    pair.arrive(line, _other(loser))
    pair.settle()
    pair.check()
    assert pair.links[A] is line
