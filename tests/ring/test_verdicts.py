"""What a broker holds for failed is kept, and on whose word."""

from __future__ import annotations

from msgspec.structs import replace

from overlay.trace_schema import Verdict
from ring.facts import Alone, Confirmed, Detoured, DetourEnded, LinkFailed, Undecided
from ring.verdicts import MAX_VERDICTS, Verdicts
from tests.helpers.bench import Bench, member, uid

B, C, Z = member(400), member(500), member(200)
PATH = (uid(300), C.uid, B.uid)


def noted(*facts: object) -> Verdicts:
    verdicts = Verdicts()
    for at, fact in enumerate(facts, start=1):
        verdicts.note(fact, at)  # type: ignore[arg-type]
    return verdicts


def test_a_failed_link_names_its_witness_and_the_way_round_it() -> None:
    verdicts = noted(LinkFailed(B, C.uid), Detoured(B.uid, PATH))
    [ruling] = verdicts.all
    assert (ruling.uid, ruling.verdict, ruling.witnesses) == (B.uid, Verdict.LINK_FAILED, (C.uid,))
    assert (ruling.at_ns, ruling.path, ruling.restored_ns) == (1, PATH, None)
    assert verdicts.is_down(B.uid, 1)
    assert not verdicts.is_down(B.uid, 2)


def test_a_link_that_is_back_stays_in_the_record() -> None:
    verdicts = noted(LinkFailed(B, C.uid), Detoured(B.uid, PATH), DetourEnded(B.uid, True))
    verdicts.on_linked(B.uid, 9)
    verdicts.on_linked(B.uid, 10)
    [ruling] = verdicts.all
    assert (ruling.path, ruling.restored_ns) == ((), 9)
    assert not verdicts.is_down(B.uid, 1)


def test_a_dead_broker_and_all_who_agreed() -> None:
    [ruling] = noted(Confirmed(B, (C.uid, uid(600)))).all
    assert (ruling.verdict, ruling.witnesses) == (Verdict.BROKER_FAILED, (C.uid, uid(600)))


def test_a_later_verdict_takes_the_place_of_an_earlier_one() -> None:
    verdicts = noted(Undecided(B.peer), LinkFailed(C, B.uid), LinkFailed(B, C.uid))
    assert [(r.uid, r.verdict) for r in verdicts.all] == [
        (C.uid, Verdict.LINK_FAILED),
        (B.uid, Verdict.LINK_FAILED),
    ]


def test_each_failure_of_a_link_stays_in_the_record() -> None:
    verdicts = noted(LinkFailed(B, C.uid))
    verdicts.on_linked(B.uid, 2)
    verdicts.note(LinkFailed(B, uid(600)), 3)
    verdicts.note(LinkFailed(B, uid(700)), 4)
    assert [(r.witnesses, r.at_ns, r.restored_ns) for r in verdicts.all] == [
        ((C.uid,), 1, 2),
        ((uid(700),), 4, None),
    ]
    assert verdicts.is_down(B.uid, 1)


def test_a_death_that_is_told_twice_is_one() -> None:
    later = replace(B, peer=replace(B.peer, incarnation=2))
    verdicts = noted(Confirmed(B, (C.uid,)), Confirmed(B, (C.uid, Z.uid)), Confirmed(later, ()))
    assert [(r.incarnation, r.witnesses) for r in verdicts.all] == [(1, (C.uid, Z.uid)), (2, ())]


def test_the_record_of_one_link_is_bounded() -> None:
    verdicts = Verdicts()
    for at in range(3 * MAX_VERDICTS):
        verdicts.note(LinkFailed(B, C.uid), 2 * at)
        verdicts.on_linked(B.uid, 2 * at + 1)
    assert [r.at_ns for r in verdicts.all] == [*range(4 * MAX_VERDICTS, 6 * MAX_VERDICTS, 2)]


def test_a_query_that_did_not_arrive_decides_nothing() -> None:
    [ruling] = noted(Undecided(B.peer)).all
    assert (ruling.verdict, ruling.witnesses) == (Verdict.OPEN, ())


def test_what_is_no_verdict_is_not_kept() -> None:
    verdicts = noted(Alone(), Detoured(B.uid, PATH), DetourEnded(B.uid, False))
    assert verdicts.all == ()


def test_only_the_latest_are_kept() -> None:
    verdicts = noted(*(LinkFailed(member(at), C.uid) for at in range(MAX_VERDICTS + 3)))
    assert [r.uid for r in verdicts.all] == [uid(at) for at in range(3, MAX_VERDICTS + 3)]


def test_a_broker_keeps_what_others_tell_it_of_deaths() -> None:
    from ring.wire.messages import Failed

    node = Bench.on_ring([100, 200, 300, 400, 500, 600, 700], 300)
    node.receive(C, Failed(member(650), (uid(600),), None))
    [ruling] = node.node.verdicts
    assert (ruling.uid, ruling.verdict) == (uid(650), Verdict.BROKER_FAILED)
    assert ruling.witnesses == (uid(600),)
