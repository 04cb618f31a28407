"""Chords by rank, with pointer doubling: how levels begin, grow, end and heal."""

from __future__ import annotations

import pytest

from ring.config import LAN
from ring.facts import ChordLost, ChordRepaired, Rejoining, Undecided
from ring.wire.messages import (
    ChordAnswer,
    ChordQuery,
    Failed,
    Intent,
    Leaving,
    Member,
    Place,
    Purpose,
    Route,
    Routed,
)
from tests.helpers.bench import Bench, member, opened, sent, told, uid, view_of

#: Seen from 300: right-right is 500, its right-right 700, and the next 200 comes round.
RING = [100, 200, 300, 400, 500, 600, 700, 800, 900]
OTHERS = [member(i) for i in (100, 200, 400, 500)]


def bench() -> Bench:
    return Bench.on_ring(RING, 300)


def with_two_levels() -> Bench:
    """300 with the chords 500 and 700."""
    node = bench()
    node.receive(member(500), ChordAnswer(0, member(700)))
    node.up(member(700))
    node.receive(member(700), view_of(700, RING))
    assert node.node.chords == (member(500), member(700))
    return node


def with_heir_named() -> Bench:
    """The chord 700 is dead; 800 is linked and named in its place, but has not answered yet."""
    node = with_two_levels()
    effects = node.receive(member(500), Failed(member(700), ("0" * 32,), member(800)))
    effects += node.up(member(800))
    effects += node.receive(member(800), view_of(800, [i for i in RING if i != 700]))
    effects += node.receive(member(500), ChordAnswer(0, member(800)))
    assert told(effects, ChordRepaired) == []
    return node


def test_level_zero_is_right_right() -> None:
    assert bench().node.chords == (member(500),)


def test_the_next_level_is_the_chord_of_ones_chord() -> None:
    node = bench()
    effects = node.receive(member(500), ChordAnswer(0, member(700)))
    assert opened(effects) == [member(700).peer.url]
    effects = node.up(member(700))
    assert (uid(700), Intent(Purpose.CHORD)) in sent(effects, Intent)
    assert sent(effects, ChordQuery) == [(uid(700), ChordQuery(1))]


def test_strangers_that_say_that_they_stand_at_our_own_id_break_no_count() -> None:
    node = bench()
    for number in (5001, 5002):
        twin = Member(member(number).peer, 300)
        node.up(twin)
        node.receive(twin, Place(twin))
    assert node.node.chords[0].ring_id == 300, "the case that this is about"
    for named in (member(600), member(700), None):
        node.receive(member(5002), ChordAnswer(0, named, 1))
    assert node.node.member == member(300)


def test_levels_end_where_they_would_come_round() -> None:
    for beyond in (member(400), member(300), member(700), None):
        node = with_two_levels()
        node.receive(member(700), ChordAnswer(1, beyond))
        assert node.node.chords == (member(500), member(700))


def test_a_level_that_is_no_more_takes_those_beyond_with_it() -> None:
    node = with_two_levels()
    node.receive(member(700), ChordAnswer(1, member(200), 4))  # comes round
    node.receive(member(700), Leaving(member(700)))
    assert node.node.chords == (member(500),)


def test_a_level_within_its_tolerance_stays_although_an_exact_one_would_come_round() -> None:
    """Else one death in a ring of 2^k + 1 would take the last level from every broker."""
    for none in (None, member(300), member(400)):
        node = with_two_levels()
        node.receive(member(500), ChordAnswer(0, none))
        assert node.node.chords == (member(500), member(700))


def test_nor_does_it_stay_where_it_is_out_of_tolerance() -> None:
    node = with_two_levels()
    node.receive(member(500), ChordAnswer(0, member(650), 1))  # so 700 counts as third, barely
    assert node.node.chords == (member(500), member(700))
    node.receive(member(500), ChordAnswer(0, member(690), 0xFFFF))
    assert node.node.chords == (member(500), member(690))


def test_who_must_come_back_gives_no_verdict_on_a_chord_in_question() -> None:
    node = with_two_levels()
    node.down(member(700))
    effects = node.refused(member(700))
    while not sent(effects, Route):
        effects = node.wait(0.1, OTHERS)
    effects = node.receive(member(400), Failed(member(300), (member(400).uid,), None))
    assert len(told(effects, Rejoining)) == 1
    assert told(effects, Undecided) == []


def test_an_answer_nobody_waits_for_is_ignored() -> None:
    node = bench()
    node.receive(member(400), ChordAnswer(0, member(800)))
    node.receive(member(500), ChordAnswer(3, member(800)))
    assert node.node.chords == (member(500),)


def test_a_ring_of_two_or_three_has_no_chords() -> None:
    assert Bench.on_ring([100, 300], 300).node.chords == ()
    assert Bench.on_ring([100, 200, 300], 300).node.chords == ()
    assert Bench.on_ring([100, 200, 300, 400], 300).node.chords == (member(100),)


def test_who_asks_is_answered() -> None:
    node = with_two_levels()
    for answer in (
        ChordAnswer(0, member(500), 2),
        ChordAnswer(1, member(700), 4),
        ChordAnswer(2, None),
    ):
        effects = node.receive(member(100), ChordQuery(answer.level))
        assert sent(effects, ChordAnswer) == [(uid(100), answer)]


def test_the_rank_of_a_level_is_the_sum_of_those_on_the_way_to_it() -> None:
    node = with_two_levels()
    node.receive(member(500), ChordAnswer(0, member(700), 3))
    effects = node.receive(member(100), ChordQuery(1))
    assert sent(effects, ChordAnswer) == [(uid(100), ChordAnswer(1, member(700), 5))]


@pytest.mark.parametrize(
    ("found", "chord", "rank"),
    [
        (member(600), member(600), 4),  # 3.75 by its distance
        (member(2000), member(700), 5),  # far out of tolerance
        (member(500), member(700), 5),  # not beyond the level below
    ],
)
def test_for_one_named_off_its_rank_who_stands_at_the_exact_place_is_searched_for(
    found: Member, chord: Member, rank: int
) -> None:
    """Else those that share a chord would share the next one, too, and so on."""
    node = bench()
    effects = node.receive(member(500), ChordAnswer(0, member(700), 3))
    assert chord not in node.node.chords
    [(first, route)] = sent(effects, Route)
    assert route.target == 300 + 400 * 4 // 5, "700 is the fifth, and the fourth is the exact one"
    assert sent(node.receive(member(500), ChordAnswer(0, member(700), 3)), Route) == []
    trail = (uid(300), first)
    node.receive(member(int(first, 16)), Routed(route.token, True, found, trail, 1))
    assert node.node.chords == (member(500), chord)
    effects = node.receive(member(100), ChordQuery(1))
    assert sent(effects, ChordAnswer) == [(uid(100), ChordAnswer(1, chord, rank))]


@pytest.mark.parametrize(("is_off", "chords"), [(False, (member(500), member(700))), (True, ())])
def test_where_a_search_ends_with_nobody_who_was_named_has_to_do_unless_we_are_off_the_ring(
    is_off: bool, chords: tuple[Member, ...]
) -> None:
    node = bench()
    node.receive(member(500), ChordAnswer(0, member(700), 3))
    if is_off:
        node.node.parts.chords.clear()
    node.node.parts.routing.clear()
    assert node.node.chords == chords


def test_who_asked_is_told_when_a_level_comes_to_be() -> None:
    node = bench()
    node.receive(member(100), ChordQuery(1))
    effects = node.receive(member(500), ChordAnswer(0, member(700)))
    assert sent(effects, ChordAnswer) == [(uid(100), ChordAnswer(1, member(700), 4))]


def test_the_heir_stands_in_for_a_dead_chord_and_those_who_asked_are_told() -> None:
    """Paper 004, section 3.4.1: all the neighbours of B are told to route to A or C instead."""
    node = with_two_levels()
    node.receive(member(100), ChordQuery(1))
    effects = node.receive(member(600), Failed(member(700), ("0" * 32,), member(800)))
    assert effects == [], "who is not linked is not heard"
    effects = node.receive(member(500), Failed(member(700), ("0" * 32,), member(800)))
    assert told(effects, ChordLost) == [ChordLost(uid(700))]
    assert node.node.chords == (member(500), member(800))
    assert sent(effects, ChordAnswer) == [(uid(100), ChordAnswer(1, member(800), 4))]


def test_chords_are_repaired_when_all_levels_have_been_found_anew() -> None:
    node = with_heir_named()
    effects = node.receive(member(800), ChordAnswer(1, None))
    assert told(effects, ChordRepaired) == [ChordRepaired(uid(700))]


def test_nor_are_they_repaired_while_one_of_them_is_not_linked() -> None:
    node = with_heir_named()
    effects = node.down(member(500)) + node.receive(member(800), ChordAnswer(1, None))
    assert told(effects + node.up(member(500)), ChordRepaired) == []
    effects = node.receive(member(500), ChordAnswer(0, member(800)))
    assert told(effects, ChordRepaired) == [ChordRepaired(uid(700))]


def test_a_chord_that_leaves_is_replaced_like_a_dead_one() -> None:
    node = with_two_levels()
    effects = node.receive(member(700), Leaving(member(700)))
    assert told(effects, ChordLost) == [ChordLost(uid(700))]
    assert node.node.chords == (member(500),)


def test_every_level_is_asked_for_anew_now_and_then() -> None:
    node = with_two_levels()
    effects = node.wait(1.5 * LAN.chord_refresh_ns / 1e9, alive=[*OTHERS, member(700)])
    assert {(uid(500), ChordQuery(0)), (uid(700), ChordQuery(1))} <= set(sent(effects, ChordQuery))


def test_a_chord_a_little_off_stays_whatever_refreshes_say() -> None:
    """300 has the chord 700, fourth at 400; brokers have come and gone, and now 650 is fourth."""
    node = with_two_levels()
    closer = ChordAnswer(0, member(650))
    for _ in range(4):
        refresh(node)
        node.receive(member(500), closer)
        assert node.node.chords == (member(500), member(700))
    effects = node.receive(member(100), ChordQuery(1))
    counted = [answer for _, answer in sent(effects, ChordAnswer)]
    assert counted == [ChordAnswer(1, member(700), 5)], "4 for the first 350, so 5 for 400"


@pytest.mark.parametrize(
    ("fourth", "stays"), [(1000, False), (830, True), (570, True), (550, False)]
)
def test_a_chord_stays_from_three_quarters_to_one_and_a_half_of_its_rank(
    fourth: int, stays: bool
) -> None:
    """Where the fourth broker to the right is, by distance, says how many are before 700."""
    node = with_two_levels()
    node.receive(member(500), ChordAnswer(0, member(fourth)))
    assert node.node.chords[1] == member(700 if stays else fourth)


def test_a_chord_whose_link_is_lost_stays_until_a_query_shows_what_became_of_it() -> None:
    """Its link may have failed, and then there is a way round; who died is told of."""
    node = with_two_levels()
    node.down(member(700))
    node.receive(member(500), ChordAnswer(0, member(650)))
    assert node.node.chords == (member(500), member(700))


def refresh(node: Bench) -> None:
    effects = node.wait(1.5 * LAN.chord_refresh_ns / 1e9, alive=[*OTHERS, member(700)])
    assert (uid(500), ChordQuery(0)) in sent(effects, ChordQuery)


def test_what_was_asked_over_a_link_that_another_replaces_is_asked_again() -> None:
    """The other end had lost the link, and the question with it, and calls anew."""
    node = bench()
    node.receive(member(500), ChordAnswer(0, member(700)))
    node.up(member(700))
    assert sent(node.up(member(700)), ChordQuery) == [(uid(700), ChordQuery(1))]
