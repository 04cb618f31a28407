"""Who founds a ring by its list: what hinders it, and until when."""

from __future__ import annotations

import pytest

from overlay.ids import NANOS_PER_SECOND
from overlay.machine import Closed, LinkRefused, Refused
from ring.config import LAN
from ring.facts import Join, Joined, JoinWaits
from ring.joining.founding import SILENT_AFTER
from ring.wire.messages import Member, Peers, PeersRequest, Place, Stance
from tests.helpers.bench import Bench, closed, member, opened, sent, told, view_of

HERE, SMALLER, LARGER = 500, member(400), member(600)
LOOK_S = 1.5 * LAN.found_ns / NANOS_PER_SECOND  #: the longest pause between two looks


def started(*others: int, named: bool = True) -> Bench:
    """A broker that starts with a list, in which it stands itself if it is ``named``."""
    bench = Bench(HERE)
    names = (*others, HERE) if named else others
    bench.give(Join(tuple(member(name).peer.url for name in names)))
    return bench


def looks(bench: Bench, count: int = 4) -> bool:
    """Let time pass for some looks; say whether the broker has founded a ring."""
    return bool(told(bench.wait(count * LOOK_S), Joined))


def gone(bench: Bench, url: str, reason: Refused = Refused.UNREACHABLE) -> None:
    bench.give(LinkRefused(url, None, reason))


def test_one_whose_list_names_nobody_else_founds() -> None:
    assert looks(started())


def test_a_seed_that_was_called_and_has_not_answered_hinders() -> None:
    assert not looks(started(600))


@pytest.mark.parametrize("reason", [Refused.UNREACHABLE, Refused.TIMEOUT])
def test_a_seed_that_is_not_there_hinders_until_it_is_called_again(reason: Refused) -> None:
    bench = started(600)
    gone(bench, LARGER.peer.url, reason)
    assert not looks(bench)
    gone(bench, LARGER.peer.url, reason)
    assert looks(bench)


@pytest.mark.parametrize("reason", [Refused.BUSY, Refused.NOT_AUTHENTICATED, Refused.LEAVING])
def test_a_seed_that_refuses_us_lives_and_may_be_on_a_ring(reason: Refused) -> None:
    bench = started(600)
    for _ in range(5):
        gone(bench, LARGER.peer.url, reason)
        assert not looks(bench)


@pytest.mark.parametrize(
    ("other", "stance", "founds"),
    [
        (LARGER, Stance.FOUNDS, True),
        (SMALLER, Stance.FOUNDS, False),
        (SMALLER, Stance.SEEKS, True),
        (LARGER, Stance.JOINS, False),
    ],
)
def test_a_seed_that_starts_too_hinders_if_it_goes_first_or_joins(
    other: Member, stance: Stance, founds: bool
) -> None:
    bench = started(other.ring_id)
    assert sent(bench.up(other), PeersRequest) == [
        (other.uid, PeersRequest(named=True, stance=Stance.FOUNDS))
    ]
    bench.receive(other, Peers((), stance))
    assert bool(told(bench.wait(LOOK_S), Joined)) == founds


def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    """When that one answered, it may not have known that we may found."""
    bench = started(600)
    bench.up(LARGER)
    bench.wait(LOOK_S)  # asked again
    bench.receive(LARGER, Peers((), Stance.SEEKS))
    assert not looks(bench, 1)


def test_a_seed_that_no_longer_answers_is_called_anew() -> None:
    bench = started(600)
    bench.up(LARGER)
    bench.receive(LARGER, Peers((), Stance.FOUNDS))
    bench.receive(LARGER, PeersRequest(named=True, stance=Stance.FOUNDS))
    bench.receive(LARGER, Place(LARGER))  # it is on a ring, and so hinders
    effects = bench.wait((SILENT_AFTER + 1) * LOOK_S)
    assert (LARGER.uid, Closed.LOST) in closed(effects)
    for _ in range(2):
        gone(bench, LARGER.peer.url, Refused.TIMEOUT)
    assert looks(bench)


def test_one_that_no_list_names_never_founds() -> None:
    bench = started(600, named=False)
    bench.up(LARGER)
    bench.receive(LARGER, Peers((), Stance.FOUNDS))
    assert not looks(bench, 1)
    bench.down(LARGER)
    for _ in range(5):
        gone(bench, LARGER.peer.url)
        assert not looks(bench)


def test_one_that_another_has_in_its_list_may_found_and_says_so() -> None:
    bench = started(600, named=False)
    assert sent(bench.up(LARGER), PeersRequest) == [(LARGER.uid, PeersRequest(named=True))]
    effects = bench.receive(LARGER, PeersRequest(named=True, stance=Stance.SEEKS))
    asked = PeersRequest(named=True, stance=Stance.FOUNDS)
    assert sent(effects, PeersRequest) == [(LARGER.uid, asked)]
    assert sent(effects, Peers) == [(LARGER.uid, Peers((), Stance.FOUNDS))]
    for _ in range(2):  # both questions are answered
        bench.receive(LARGER, Peers((), Stance.FOUNDS))
    assert told(bench.wait(LOOK_S), Joined)


def test_an_address_that_is_our_own_by_another_name_names_us() -> None:
    bench = Bench(HERE)
    bench.give(Join(("chordal://localhost:1",)))
    gone(bench, "chordal://localhost:1", Refused.SELF)
    assert looks(bench)


def test_one_that_is_linked_and_shows_that_it_is_on_a_ring_is_asked_at_once() -> None:
    bench = started(400)
    bench.up(SMALLER)
    bench.receive(SMALLER, Peers((), Stance.FOUNDS))
    effects = bench.receive(SMALLER, view_of(400, [400]))
    assert len(sent(effects, PeersRequest)) == 1


def test_what_is_told_names_each_seed_and_its_answer() -> None:
    bench = started(400, 600, 700)
    bench.give(LinkRefused(LARGER.peer.url, None, Refused.UNREACHABLE, "connection refused"))
    bench.wait(2.95)
    bench.up(SMALLER)
    bench.receive(SMALLER, Peers((), Stance.FOUNDS))
    [waits] = told(bench.wait(0.1), JoinWaits)
    assert waits.answers == (
        (SMALLER.peer.url, "will found the ring"),
        (LARGER.peer.url, "connection refused"),
        (member(700).peer.url, "no answer yet"),
        (member(HERE).peer.url, "this broker"),
    )


def test_one_that_has_heard_of_a_ring_calls_its_members_before_it_founds() -> None:
    bench, other = started(400), member(700)
    bench.up(SMALLER)
    bench.receive(SMALLER, Peers((SMALLER, other)))  # and it dies
    bench.down(SMALLER)
    bench.refused(SMALLER)
    bench.refused(other)  # but that one may have been gone for a moment only
    called: set[str] = set()
    for _ in range(400):
        effects = bench.wait(0.02)
        if told(effects, Joined):
            break
        for url in opened(effects):
            called.add(url)
            if url == SMALLER.peer.url:
                gone(bench, url)
    assert told(effects, Joined)
    assert other.peer.url in called
