"""How a picture follows from what brokers say: rates, incidents, and who has fallen off."""

from __future__ import annotations

import msgspec
import pytest

from ges.gateways.costs import BUCKETS_NS
from ges.gateways.link_state import Edge
from ges.http.assembly import Heard, brokers_of, links_of
from ges.http.fallen import DOUBT_SECONDS, SHOWN_SECONDS, Fallen
from ges.http.incident_book import IncidentBook
from ges.http.picture import BrokerPicture, State
from ges.http.sightings import Sighting
from ges.wire.status import IncidentStatus, LinkStatus, Status, VerdictStatus
from overlay.ids import LinkClass, Peer
from overlay.trace_schema import Verdict
from ring.wire.messages import Member

A, B, C, D = ("a" * 32, "b" * 32, "c" * 32, "d" * 32)
NORMAL = LinkClass.NORMAL


def member(uid: str, incarnation: int = 1) -> Member:
    place = {A: 0, B: 2**30, C: 2**31, D: 3 * 2**30}[uid]
    return Member(Peer(uid, incarnation, f"chordal://{uid[0]}:1"), place)


def link(uid: str, *, rtt_ms: float | None = 1.0, events: int = 0, traffic: int = 0) -> LinkStatus:
    return LinkStatus(
        uid, f"chordal://{uid[0]}:1", 0, NORMAL, (), 7, 1.0, None,
        rtt_ms=rtt_ms, events=events, traffic=traffic,
    )  # fmt: skip


def status(
    uid: str,
    *,
    right: tuple[str, ...] = (),
    suspects: tuple[str, ...] = (),
    links: tuple[LinkStatus, ...] = (),
    verdicts: tuple[VerdictStatus, ...] = (),
    incidents: tuple[IncidentStatus, ...] = (),
    counters: dict[str, int] | None = None,
    uptime_s: float = 100.0,
    incarnation: int = 1,
) -> Status:
    return Status(
        uid, incarnation, f"chordal://{uid[0]}:1", "chordal", "0.1.0", False, member(uid),
        (), tuple(map(member, right)), (), suspects, links, 3, 2, counters or {}, uptime_s,
        verdicts=verdicts, incidents=incidents,
    )  # fmt: skip


def heard(*statuses: Status, silent: tuple[str, ...] = (), edges: tuple[Edge, ...] = ()) -> Heard:
    sightings = {each.uid: Sighting(each, 10.0, is_asked=each.uid != A) for each in statuses}
    return Heard(sightings, {}, frozenset(silent), {NORMAL: edges}, 10.5)


def states(found: Heard, dead: dict[str, int] | None = None) -> dict[str, State]:
    return {each.uid: each.state for each in brokers_of(found, dead or {}, {})}


# Brokers


def test_who_is_named_is_on_the_ring() -> None:
    assert states(heard(status(A, right=(B, C)))) == dict.fromkeys((A, B, C), State.ALIVE)


def test_doubts_are_told_by_their_weight() -> None:
    around = heard(status(A, right=(B, C), suspects=(B,)), silent=(B, C))
    assert states(around) == {A: State.ALIVE, B: State.SUSPECTED, C: State.SILENT}
    assert states(around, {B: 1})[B] is State.DEAD


def test_a_later_life_is_alive() -> None:
    found = heard(status(A, right=(B,)), status(B, incarnation=2))
    later = msgspec.structs.replace(found.sightings[B].status, member=member(B, 2))
    both = heard(found.sightings[A].status, later)
    assert states(both, {B: 1})[B] is State.ALIVE


def test_who_asks_is_not_counted_among_the_clients() -> None:
    found = {each.uid: each.clients for each in brokers_of(heard(status(A), status(B)), {}, {})}
    assert found == {A: 3, B: 2}


# Links


def test_of_both_ends_the_worse_counts_and_flows_are_added() -> None:
    [found] = links_of(
        heard(status(A, links=(link(B, rtt_ms=1, traffic=10),)),
              status(B, links=(link(A, rtt_ms=4, traffic=5),)))
    )  # fmt: skip
    assert (found.a, found.b, found.rtt_ms, found.traffic, found.queued_bytes) == (A, B, 4, 15, 14)


def test_links_of_those_that_are_not_asked_come_from_what_members_tell() -> None:
    edges = Edge(B, C, 10), Edge(A, C, 10)  # A itself has no such link
    [found] = links_of(heard(status(A), edges=edges))
    assert (found.a, found.b, found.link_class, found.rtt_ms) == (B, C, NORMAL, None)
    assert found.cost_ms == BUCKETS_NS[10] / 1e6


@pytest.mark.parametrize("restored_s", [None, 5.0])
def test_a_failed_link_is_shown_until_it_is_back(restored_s: float | None) -> None:
    ruling = VerdictStatus(B, 1, Verdict.LINK_FAILED, (C,), 4.0, (), restored_s)
    found = links_of(heard(status(A, verdicts=(ruling,))))
    assert [(each.a, each.b, each.failed) for each in found] == [(A, B, True)] * (
        restored_s is None
    )


# Rates


def test_rates_are_of_what_a_broker_says_of_its_own_time() -> None:
    first = Sighting(
        status(A, counters={"events_published": 100}, links=(link(B, events=10),)), 5.0
    )
    assert first.published is None
    later = status(
        A,
        counters={"events_published": 300},
        links=(link(B, events=60), link(C, events=4)),
        uptime_s=102.0,
    )
    second = first.follow(later, 9.0)  # the answer was long on its way
    assert second.published == 100
    assert second.delivered == 0
    assert second.sent == {(B, NORMAL): 25, (C, NORMAL): 2}


def test_answers_that_come_at_once_make_no_rate_of_their_own() -> None:
    sighting = Sighting(status(A, uptime_s=100.0), 0.0)
    for step in range(1, 9):  # ten events a quarter of a second
        now = step * 0.25
        counters = {"events_published": 10 * step}
        sighting = sighting.follow(status(A, uptime_s=100 + now, counters=counters), now)
    assert sighting.published == pytest.approx(40)


def test_another_life_begins_anew() -> None:
    first = Sighting(status(A, counters={"events_published": 100}), 0.0)
    second = first.follow(status(A, incarnation=2, uptime_s=1.0), 2.0)
    assert second.published is None


# Incidents


def died(at_s: float, detected_s: float, repaired_s: float, uid: str = D) -> IncidentStatus:
    return IncidentStatus(uid, Verdict.BROKER_FAILED, at_s, detected_s, repaired_s)


def test_what_several_saw_is_one_incident() -> None:
    book = IncidentBook()
    book.hear(status(A, incidents=(died(95.0, 0.02, 0.5),)), now=1000.0)
    book.hear(status(B, incidents=(died(45.1, 0.01, 0.9),), uptime_s=50.0), now=1000.0)
    [found] = book.pictures(1010.0)
    assert (found.uid, found.observers) == (D, 2)
    assert (found.detected_s, found.repaired_s) == (0.01, 0.9)
    assert found.ago_s == pytest.approx(15)


def test_what_was_heard_is_not_heard_again() -> None:
    book = IncidentBook()
    for now in range(1000, 1005):
        uptime_s = 100.0 + now - 1000
        book.hear(status(A, incidents=(died(95.0, 0.02, 0.5),), uptime_s=uptime_s), now=float(now))
    [found] = book.pictures(1005.0)
    assert found.observers == 1


def test_another_death_of_the_same_broker_is_another_incident() -> None:
    book = IncidentBook()
    seen = (died(20.0, 0.02, 0.5), died(95.0, 0.02, 0.5))
    book.hear(status(A, incidents=seen), now=1000.0)
    assert [found.ago_s for found in book.pictures(1000.0)] == [5, 80]  # latest first


def test_what_was_refuted_is_not_shown() -> None:
    book = IncidentBook()
    refuted = IncidentStatus(B, Verdict.REFUTED, 95.0, 0.02, None)
    book.hear(status(A, incidents=(refuted,)), now=1000.0)
    assert book.pictures(1000.0) == ()


# Those that have fallen off


def shown(uid: str, state: State = State.ALIVE) -> BrokerPicture:
    place = 0.25 * "abcd".index(uid[0])
    return BrokerPicture(uid=uid, incarnation=2, url="", place=place, state=state)


def test_who_has_fallen_off_is_shown_for_a_while() -> None:
    fallen = Fallen()
    fallen.sort([shown(A), shown(B), shown(C)], {}, 0.0)
    after = fallen.sort([shown(A), shown(C)], {B: 2}, 1.0)
    assert [(each.uid, each.state) for each in after] == [
        (A, State.ALIVE),
        (B, State.DEAD),
        (C, State.ALIVE),
    ]
    later = fallen.sort([shown(A), shown(C)], {B: 2}, 1.0 + SHOWN_SECONDS)
    assert [each.uid for each in later] == [A, C]


def test_who_is_named_still_and_was_declared_dead_has_fallen_off() -> None:
    fallen = Fallen()
    fallen.sort([shown(A), shown(B)], {}, 0.0)
    after = fallen.sort([shown(A), shown(B, State.DEAD)], {B: 2}, 1.0)
    assert [each.state for each in after] == [State.ALIVE, State.DEAD]


def test_who_went_without_a_verdict_has_left_once_there_is_no_doubt() -> None:
    fallen = Fallen()
    fallen.sort([shown(A), shown(B)], {}, 0.0)
    assert fallen.sort([shown(A)], {}, 1.0)[1].state is State.SILENT
    assert fallen.sort([shown(A)], {}, 1.0 + DOUBT_SECONDS)[1].state is State.LEFT


def test_who_is_back_is_not_shown_twice() -> None:
    fallen = Fallen()
    fallen.sort([shown(A), shown(B)], {}, 0.0)
    fallen.sort([shown(A)], {B: 2}, 1.0)
    assert [each.state for each in fallen.sort([shown(A), shown(B)], {B: 2}, 2.0)] == [
        State.ALIVE
    ] * 2


def test_who_died_in_an_earlier_life_and_leaves_in_this_one_has_left() -> None:
    fallen = Fallen()
    fallen.sort([shown(A), shown(B)], {B: 1}, 0.0)
    fallen.sort([shown(A)], {B: 1}, 1.0)
    assert fallen.sort([shown(A)], {B: 1}, 1.0 + DOUBT_SECONDS)[1].state is State.LEFT
