"""The ledger's definitions: what each time of an incident means, and what counts as its cost."""

from __future__ import annotations

import pytest

from overlay.machine import Fact
from overlay.trace_schema import Incident, Verdict
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    Joined,
    Left,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Rejoining,
    Suspected,
)
from ring.invariants import ideal_pointers
from ring.wire.messages import Member
from sims.verdicts.ledger import Ledger
from tests.helpers.bench import member, uid

IDS = [100, 200, 300, 400, 500, 600]
B = member(300)


def whole(ledger: Ledger, ids: list[int], now: int) -> None:
    """Let each of the brokers state its right pointers, in ring order."""
    for ring_id in ids:
        point(ledger, ids, ring_id, now)


def point(ledger: Ledger, ids: list[int], ring_id: int, now: int) -> None:
    ring = [member(other) for other in sorted(ids)]
    left, right = ideal_pointers(ring, sorted(ids).index(ring_id))
    ledger.on_fact(uid(ring_id), NeighboursChanged(left, right), now)


@pytest.fixture
def ledger() -> Ledger:
    """A ring of six at rest."""
    ledger = Ledger()
    for ring_id in IDS:
        ledger.on_fact(uid(ring_id), Joined(member(ring_id), None, None), 0)
    whole(ledger, IDS, 1)
    assert ledger.ring_findings() == []
    return ledger


def row(ledger: Ledger) -> Incident:
    [incident] = ledger.incidents("run")
    return incident


def states(ledger: Ledger, ring_id: int, now: int, *facts: Fact) -> None:
    for fact in facts:
        ledger.on_fact(uid(ring_id), fact, now)


def test_a_crash_is_a_row_from_the_first_suspicion_to_the_last_pointer(ledger: Ledger) -> None:
    ledger.on_crash(B.uid, 7, 10)
    states(ledger, 400, 20, Suspected(B, "silent"))
    states(ledger, 200, 25, Suspected(B, "silent"))
    states(ledger, 400, 30, Confirmed(B, (uid(200),)))
    states(ledger, 200, 35, Confirmed(B, (uid(400),)))
    assert ledger.unrepaired == 1
    left = [i for i in IDS if i != 300]
    for at, ring_id in enumerate(left):
        assert row(ledger).repaired_ns is None
        point(ledger, left, ring_id, 40 + at)
        if ring_id == 500:
            break
    assert ledger.unrepaired == 0
    assert row(ledger) == Incident(
        run_id="run",
        incident_id=f"{B.uid}/1",
        verdict=Verdict.BROKER_FAILED,
        subject=B.uid,
        subject_ring_id=300,
        observer=None,
        n=6,
        degree=7,
        failed_ns=10,
        suspected_ns=20,
        confirmed_ns=30,
        repaired_ns=43,
        chords_repaired_ns=43,  # nobody held a chord to it
        messages=0,
        witnesses=(uid(200), uid(400)),
    )


def test_the_ring_around_is_whole_when_four_brokers_point_right(ledger: Ledger) -> None:
    """The two on each side, as they should point in the ring of those alive."""
    ledger.on_crash(B.uid, 7, 10)
    left = [i for i in IDS if i != 300]
    for ring_id in (200, 400, 500):
        point(ledger, left, ring_id, 20)
    assert ledger.unrepaired == 1
    point(ledger, left, 100, 30)
    assert row(ledger).repaired_ns == 30
    assert ledger.ring_findings() == [], "600 pointed right all the time"


def test_a_row_is_open_until_somebody_confirms(ledger: Ledger) -> None:
    states(ledger, 400, 20, Suspected(B, "silent"))
    incident = row(ledger)
    assert (incident.verdict, incident.failed_ns) == (Verdict.OPEN, None)


def test_a_refuted_suspicion_of_a_live_broker(ledger: Ledger) -> None:
    states(ledger, 400, 20, Suspected(B, "silent"), Refuted(B))
    assert row(ledger).verdict is Verdict.REFUTED
    assert row(ledger).confirmed_ns is None


def test_a_failed_link_names_its_witness(ledger: Ledger) -> None:
    states(ledger, 400, 20, Suspected(B, "silent"), LinkFailed(B, uid(500)))
    assert (row(ledger).verdict, row(ledger).witnesses) == (Verdict.LINK_FAILED, (uid(500),))


def test_a_death_outweighs_what_was_thought_before(ledger: Ledger) -> None:
    states(ledger, 400, 20, Suspected(B, "silent"), LinkFailed(B, uid(500)))
    states(ledger, 400, 30, Confirmed(B, (uid(500),)))
    assert row(ledger).verdict is Verdict.BROKER_FAILED
    states(ledger, 200, 40, LinkFailed(B, uid(100)), Refuted(B))
    assert row(ledger).verdict is Verdict.BROKER_FAILED


def test_a_suspicion_that_came_to_nothing_is_not_of_a_later_crash(ledger: Ledger) -> None:
    states(ledger, 400, 5, Suspected(B, "silent"), Refuted(B))
    ledger.on_sent(B.uid)
    ledger.on_crash(B.uid, 7, 10)
    states(ledger, 400, 20, Suspected(B, "silent"))
    incident = row(ledger)
    assert (incident.failed_ns, incident.suspected_ns, incident.messages) == (10, 20, 0)


def test_chords_are_repaired_when_the_last_holder_has_replaced_its_own(ledger: Ledger) -> None:
    ledger.on_crash(B.uid, 7, 10)
    states(ledger, 500, 20, ChordLost(B.uid))
    states(ledger, 600, 21, ChordLost(B.uid))
    states(ledger, 500, 30, ChordRepaired(B.uid))
    assert row(ledger).chords_repaired_ns is None
    states(ledger, 600, 40, ChordRepaired(B.uid))
    whole(ledger, [i for i in IDS if i != 300], 50)
    assert (row(ledger).chords_repaired_ns, row(ledger).repaired_ns) == (40, 50)


def test_holders_that_die_do_not_keep_an_incident_open(ledger: Ledger) -> None:
    ledger.on_crash(B.uid, 7, 10)
    states(ledger, 500, 20, ChordLost(B.uid))
    states(ledger, 600, 20, ChordLost(B.uid))
    ledger.on_crash(uid(600), 7, 25)
    states(ledger, 500, 30, ChordRepaired(B.uid))
    [first, _] = ledger.incidents("run")
    assert first.chords_repaired_ns == 30


def test_messages_count_for_the_incident_they_are_about(ledger: Ledger) -> None:
    ledger.on_crash(B.uid, 7, 10)
    for about in (B.uid, None, B.uid, uid(400)):
        ledger.on_sent(about)
    assert row(ledger).messages == 2


def test_lives_of_one_broker_are_incidents_of_their_own(ledger: Ledger) -> None:
    ledger.on_crash(B.uid, 7, 10)
    reborn = Member(member(300, incarnation=2).peer, 350)
    ledger.on_fact(B.uid, Joined(reborn, None, None), 20)
    ledger.on_crash(B.uid, 5, 30)
    assert [(i.incident_id, i.failed_ns, i.subject_ring_id) for i in ledger.incidents("run")] == [
        (f"{B.uid}/1", 10, 300),
        (f"{B.uid}/2", 30, 350),
    ]


def test_incidents_come_in_the_order_of_time(ledger: Ledger) -> None:
    ledger.on_crash(uid(500), 7, 30)
    ledger.on_crash(uid(200), 7, 10)
    states(ledger, 400, 20, Suspected(B, "silent"))
    assert [i.subject for i in ledger.incidents("run")] == [uid(200), B.uid, uid(500)]


def test_a_newcomer_that_dies_before_it_is_on_the_ring_is_no_incident(ledger: Ledger) -> None:
    ledger.on_crash(uid(999), 1, 10)
    assert ledger.incidents("run") == ()


@pytest.mark.parametrize("fact", [Left(), Rejoining(2, "why")])
def test_who_leaves_the_ring_is_no_member(ledger: Ledger, fact: Fact) -> None:
    states(ledger, 300, 20, fact)
    assert ledger.members == 5
    assert ledger.ring_findings() != []
    whole(ledger, [i for i in IDS if i != 300], 30)
    assert ledger.ring_findings() == []
    assert ledger.incidents("run") == ()


def test_impossible_pointers_are_noted_when_they_are_stated(ledger: Ledger) -> None:
    twice = NeighboursChanged((member(200), member(100)), (member(400), member(400)))
    states(ledger, 300, 20, twice)
    assert len(ledger.findings) == 1
    point(ledger, IDS, 300, 30)
    assert len(ledger.findings) == 1, "they are not forgotten when they are right again"


def large_ring() -> tuple[Ledger, list[int]]:
    """Twenty at rest: more than those whose pointers concern one death."""
    ids = list(range(0, 2000, 100))
    ledger = Ledger()
    for ring_id in ids:
        ledger.on_fact(uid(ring_id), Joined(member(ring_id), None, None), 0)
    whole(ledger, ids, 1)
    return ledger, ids


def test_in_a_large_ring_only_those_near_count() -> None:
    ledger, ids = large_ring()
    for dead in (0, 1000, 1900):
        ledger.on_crash(uid(dead), 7, 10)
    left = [i for i in ids if i not in (0, 1000, 1900)]
    for ring_id in (800, 900, 1100, 1200):
        point(ledger, left, ring_id, 20)
    assert ledger.unrepaired == 2
    for ring_id in (1700, 1800, 100, 200):
        point(ledger, left, ring_id, 30)
    assert [i.repaired_ns for i in ledger.incidents("run")] == [30, 20, 30]


@pytest.mark.parametrize("dead", range(0, 2000, 100))
def test_a_death_where_ids_begin_again_is_like_any_other(dead: int) -> None:
    ledger, ids = large_ring()
    ledger.on_crash(uid(dead), 7, 10)
    left = [i for i in ids if i != dead]
    at = ids.index(dead)
    for step in (-2, 2, -1):
        point(ledger, left, ids[(at + step) % len(ids)], 20)
    assert ledger.unrepaired == 1
    point(ledger, left, ids[(at + 1) % len(ids)], 30)
    assert row(ledger).repaired_ns == 30


def test_the_death_of_one_that_nobody_had_seen_leaves_the_ring_whole(ledger: Ledger) -> None:
    """No pointer will change on its account: the incident must not stay open."""
    unseen = member(350)
    states(ledger, 350, 5, Joined(unseen, None, None))
    ledger.on_crash(unseen.uid, 2, 10)
    assert (ledger.unrepaired, row(ledger).repaired_ns) == (0, 10)


def test_a_death_whose_last_witness_goes_too_leaves_no_open_incident(ledger: Ledger) -> None:
    unseen, last = member(350), member(360)
    states(ledger, 350, 5, Joined(unseen, None, None))
    states(ledger, 360, 5, Joined(last, None, None))
    point(ledger, [*IDS, 350, 360], 360, 6)
    ledger.on_crash(unseen.uid, 2, 10)
    assert ledger.unrepaired == 1
    ledger.on_crash(last.uid, 2, 20)
    assert ledger.unrepaired == 0


def test_the_ring_is_whole_once_the_only_one_left_is_back_on_it() -> None:
    ledger = Ledger()
    for ring_id in (100, 200):
        states(ledger, ring_id, 0, Joined(member(ring_id), None, None))
    whole(ledger, [100, 200], 1)
    states(ledger, 100, 5, Rejoining(2, "declared dead"))
    ledger.on_crash(uid(200), 1, 10)
    assert ledger.unrepaired == 1
    states(ledger, 100, 20, Joined(member(100, 2), None, None))
    assert (ledger.unrepaired, row(ledger).repaired_ns) == (0, 20)
