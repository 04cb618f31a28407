"""What registrars keep and sources remember of names, in time."""

from __future__ import annotations

import pytest

from ges.directory import register
from ges.directory.lookups import AGAIN_NS, GOOD_NS, NOBODY_NS, TRIES, Lookups
from ges.directory.register import Register, place_of
from ges.wire.directory_messages import MAX_HOLDERS, Holder, NameAt
from overlay.ids import Nanos, nanos

A, B = (Holder(letter * 32, place, None) for letter, place in (("a", 1), ("b", 2)))


def test_an_entry_lasts_as_long_as_its_holder_said() -> None:
    kept = Register()
    assert kept.take(NameAt("n", A, 10), Nanos(0))
    assert kept.take(NameAt("n", B, 20), Nanos(0))
    assert kept.holders("n", nanos(9)) == (A, B)
    assert kept.holders("n", nanos(11)) == (B,)
    assert kept.size == 2
    kept.forget(nanos(11))
    assert kept.size == 1
    assert [(copy.holder, copy.lasts_s) for copy in kept.copies(nanos(15))] == [(B, 5)]
    assert kept.take(NameAt("n", B, 0), nanos(15)), "it has no client of that name any more"
    assert (kept.holders("n", nanos(15)), kept.size) == ((), 0)


def test_an_older_copy_replaces_no_newer_word() -> None:
    """A neighbour that was away tells what it kept: the holder has another address since."""
    kept, later = Register(), Holder(A.uid, A.place, 5)
    kept.take(NameAt("n", later, 150), nanos(6))
    assert kept.take(NameAt("n", A, 140, is_copy=True), nanos(10))
    assert kept.holders("n", nanos(10)) == (later,)
    assert kept.take(NameAt("n", A, 150, is_copy=True), nanos(10))
    assert kept.holders("n", nanos(10)) == (A,)
    assert kept.take(NameAt("n", later, 10), nanos(10)), "the holder itself knows best"
    assert kept.holders("n", nanos(10)) == (later,)
    assert kept.take(NameAt("n", later, 0, is_copy=True), nanos(10))
    assert kept.size == 0


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Register()
    many = [Holder(f"{number:032x}", number, None) for number in range(MAX_HOLDERS + 1)]
    assert [kept.take(NameAt("n", each, 10), Nanos(0)) for each in many].count(False) == 1
    monkeypatch.setattr(register, "MAX_ENTRIES", kept.size)
    assert not kept.take(NameAt("m", A, 10), Nanos(0))
    assert kept.take(NameAt("n", many[0], 20), Nanos(0)), "but known ones are renewed"


def test_one_broker_leaves_room_for_the_names_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "MAX_OF_ONE", 2)
    kept = Register()
    taken = [kept.take(NameAt(name, A, 10), Nanos(0)) for name in ("n", "m", "o")]
    assert taken == [True, True, False]
    assert kept.take(NameAt("o", B, 10), Nanos(0))
    assert kept.take(NameAt("n", A, 0), Nanos(0)), "it has none of that name any more"
    assert kept.take(NameAt("o", A, 10), Nanos(0))


def test_answers_are_good_for_a_while_and_questions_end() -> None:
    known = Lookups()
    assert known.get("n", Nanos(0)) is None
    assert known.ask(["n", "m"], Nanos(0)) == ["n", "m"]
    assert known.ask(["n"], Nanos(1)) == [], "it was asked for"
    known.found("n", (A,), Nanos(5))
    assert known.get("n", GOOD_NS) == (A,)
    assert known.get("n", Nanos(5 + GOOD_NS)) is None
    now = Nanos(0)
    for _ in range(TRIES - 1):
        now = Nanos(now + AGAIN_NS)
        assert known.due(now) == (["m"], False)
    now = Nanos(now + AGAIN_NS)
    assert known.due(now) == ([], True)
    assert known.get("m", now) == (), "nobody has answered: there is none, for a while"
    assert known.get("m", Nanos(now + NOBODY_NS)) is None
    assert known.next_deadline() is None


def test_a_wrong_answer_is_forgotten() -> None:
    known = Lookups()
    known.found("n", (A,), Nanos(0))
    assert not known.wrong("n", B.uid, Nanos(0))
    assert known.wrong("n", A.uid, Nanos(0))
    assert known.get("n", Nanos(0)) is None


def test_an_answer_is_forgotten_where_another_broker_stands_by_now() -> None:
    known = Lookups()
    known.found("n", (A,), Nanos(0))
    assert not known.wrong("n", B.uid, Nanos(NOBODY_NS - 1)), "it may be newer than the event"
    assert known.wrong("n", B.uid, NOBODY_NS)
    assert known.get("n", NOBODY_NS) is None


def test_names_are_spread_over_the_ring() -> None:
    places = [place_of(f"n{number}") for number in range(1000)]
    assert all(0 <= place < 2**32 for place in places)
    assert len({place >> 28 for place in places}) == 16
