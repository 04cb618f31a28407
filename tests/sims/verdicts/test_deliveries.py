"""The oracle of events: once, twice, out of order, lost, and why."""

from __future__ import annotations

import pytest

from overlay.ids import LinkClass, nanos
from overlay.trace_schema import Fate, Why
from sims.verdicts.deliveries import Deliveries
from sims.verdicts.judged import Excuse, Verdict

FLOW = ("a" * 32, LinkClass.NORMAL)
EXPRESS = ("a" * 32, LinkClass.EXPRESS)
S = nanos(1)


def published(count: int = 3, flow: tuple[str, LinkClass] = FLOW) -> Deliveries:
    """Return an oracle that knows of a subscriber, and of an event a second from second 1 on."""
    deliveries = Deliveries()
    deliveries.on_subscribed("s", 0, "here")
    for number in range(1, count + 1):
        deliveries.on_published(flow, number, number * S, "there")
    deliveries.on_accepted(flow, count)
    return deliveries


def got(deliveries: Deliveries, *numbers: int, flow: tuple[str, LinkClass] = FLOW) -> Verdict:
    for number in numbers:
        deliveries.on_got("s", flow, number, 10 * S)
    return deliveries.verdict()


def test_each_once_in_order() -> None:
    verdict = got(published(), 1, 2, 3)
    assert (verdict.fates, verdict.findings) == ({Fate.ONCE: 3}, [])
    assert verdict.longest_ns == 9 * S


def test_twice_and_after_a_later_one_are_findings_whatever_happened() -> None:
    deliveries = published()
    deliveries.on_death(3 * S)
    verdict = got(deliveries, 2, 1, 3, 3)
    assert verdict.fates == {Fate.DISORDERED: 1, Fate.ONCE: 1, Fate.TWICE: 1}
    assert len(verdict.findings) == 2


def test_one_that_nobody_published_is_a_finding() -> None:
    assert len(got(published(), 1, 2, 3, 4).findings) == 1


@pytest.mark.parametrize("in_order", [True, False])
def test_express_events_may_overtake_each_other_where_links_fail(in_order: bool) -> None:
    deliveries = published(flow=EXPRESS)
    deliveries.express_in_order = in_order
    verdict = got(deliveries, 2, 1, flow=EXPRESS)
    assert len(verdict.findings) == (2 if in_order else 0)
    assert verdict.lost == {Why.UNEXPLAINED if in_order else Why.EXPRESS: 1}


def test_what_is_lost_without_a_reason_is_a_finding() -> None:
    verdict = got(published(), 1, 3)
    assert (verdict.lost, len(verdict.findings)) == ({Why.UNEXPLAINED: 1}, 1)


def test_what_was_published_before_a_subscription_is_not_expected() -> None:
    deliveries = Deliveries()
    deliveries.on_published(FLOW, 1, S, "there")
    deliveries.on_subscribed("s", 2 * S, "here")
    assert deliveries.verdict().lost == {}


def test_a_refused_event_is_not_expected_and_may_not_come() -> None:
    deliveries = published()
    deliveries.on_refused(FLOW, 2, "no")
    assert got(deliveries, 1, 3).lost == {Why.REFUSED: 1}
    assert len(got(deliveries, 2).findings) > 0


def test_what_no_broker_has_taken_is_not_expected() -> None:
    deliveries = published()
    deliveries.on_published(FLOW, 4, 4 * S, "there")
    assert got(deliveries, 1, 2, 3).lost == {Why.NOT_TAKEN: 1}


@pytest.mark.parametrize(("died_at", "why"), [(2.5, Why.BROKER_DIED), (1.5, Why.UNEXPLAINED)])
def test_a_broker_that_dies_takes_along_what_was_published_just_before(
    died_at: float, why: Why
) -> None:
    deliveries = published()
    deliveries.on_death(nanos(died_at))
    assert got(deliveries, 1, 3).lost == {why: 1}


@pytest.mark.parametrize(
    ("back_at", "joined_at", "why"),
    [(3, 0, Why.UNEXPLAINED), (13, 0, Why.NO_BROKER), (3, 1, Why.NO_BROKER)],
)
def test_who_moves_gets_what_was_kept(back_at: float, joined_at: int, why: Why) -> None:
    deliveries = published()
    later = nanos(20)
    for number in range(1, 4):  # the same, later, as the broker may be new
        deliveries.on_published(FLOW, number, later + number * S, "there")
    deliveries.on_joined("other", later * joined_at)
    deliveries.on_unserved("s", later + nanos(1.5))
    deliveries.on_subscribed("s", later + nanos(back_at), "other")
    assert got(deliveries, 1, 3).lost == {why: 1}


def test_who_finds_no_broker_again_is_a_finding() -> None:
    deliveries = published()
    deliveries.on_unserved("s", 4 * S)
    assert deliveries.verdict(10 * S).findings == []
    assert deliveries.verdict(20 * S).findings == ["s finds no broker"]


def test_an_excuse_is_for_a_time_and_a_place() -> None:
    excuse = Excuse(Why.APART, S, 2 * S, {"a"}, {"b"})
    assert excuse.covers(S, "a", "b")
    assert not excuse.covers(3 * S, "a", "b")
    assert not excuse.covers(S, "b", "a")
    deliveries = published()
    deliveries.excuses.append(Excuse(Why.APART, S, 3 * S, {"there"}))
    assert got(deliveries, 1).lost == {Why.APART: 2}
