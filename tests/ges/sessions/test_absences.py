"""How long clients may have missed events, as their broker's place was in doubt."""

from __future__ import annotations

from ges.sessions.absences import BEFORE_SILENCES, MAX_LOST, Absences
from overlay.ids import Nanos, nanos
from ring.facts import Confirmed, Joined, Reincarnated, Rejoining
from tests.helpers.bench import member

HERE, OTHER = member(1), member(2)
SILENCE = nanos(2)
BEFORE = BEFORE_SILENCES * SILENCE
BACK = Joined(HERE, None, None)


def absences() -> Absences:
    return Absences(SILENCE)


def ending(book: Absences, *facts: tuple[float, object]) -> list[Nanos | None]:
    return [book.on_fact(fact, nanos(at)) for at, fact in facts]  # type: ignore[arg-type]


def test_a_rejoin_is_an_absence_until_the_broker_is_back() -> None:
    """It began a little before the broker heard of it."""
    assert ending(absences(), (10, Rejoining(2, "")), (13, BACK)) == [None, nanos(3) + BEFORE]


def test_one_that_begins_anew_twice_was_away_all_the_time() -> None:
    facts = (10, Rejoining(2, "")), (11, Rejoining(3, "")), (13, BACK)
    assert ending(absences(), *facts) == [None, None, nanos(3) + BEFORE]


def test_the_first_join_ends_no_absence() -> None:
    assert ending(absences(), (1, BACK)) == [None]


def test_one_that_only_a_stranger_held_for_dead_may_have_missed_the_last_moments() -> None:
    assert ending(absences(), (9, Reincarnated(HERE, OTHER.uid))) == [BEFORE]


def test_where_each_part_of_a_ring_held_the_other_for_dead_all_of_that_time_counts() -> None:
    facts = (10, Confirmed(OTHER, ())), (70, Reincarnated(HERE, OTHER.uid))
    assert ending(absences(), *facts) == [None, nanos(60) + BEFORE]


def test_what_is_remembered_is_bounded() -> None:
    book = absences()
    for name in range(MAX_LOST + 1):
        book.on_fact(Confirmed(member(1000 + name), ()), nanos(1))
    assert book.on_fact(Reincarnated(HERE, member(1000).uid), nanos(9)) == BEFORE
