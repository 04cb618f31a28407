"""Arcs of the ring: every broker once, with n-1 messages."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ges.routing.arc_plan import MAX_CACHED, ArcPlan, TowardPlan, toward, whole_ring
from ges.routing.plan import Onward
from ring.geometry import RING_SIZE, between, clockwise

Linked = dict[int, set[int]]


def onward(plan: ArcPlan, limit: int) -> tuple[tuple[str, int], ...]:
    """Return (uid, limit) of those to pass an event to."""
    return _limits(plan.onward(whole_ring(limit)))


def instead(plan: ArcPlan, place: int, limit: int) -> tuple[tuple[str, int], ...]:
    """Return (uid, limit) of those to pass an event to in place of another."""
    return _limits(plan.instead("", place, whole_ring(limit)))


def _limits(found: Onward) -> tuple[tuple[str, int], ...]:
    return tuple((uid, duty.target) for uid, duty in found)


def broadcast(linked: Linked, origin: int) -> tuple[Counter[int], int]:
    """Send one event from ``origin``; return how often each broker got it, and in how many hops."""
    plans: dict[int, ArcPlan] = {}
    for here, others in linked.items():
        plan = plans[here] = ArcPlan()
        plan.update(here, {str(other): other for other in others})
    received: Counter[int] = Counter()
    deepest = 0
    queue = deque([(origin, origin, 0)])
    while queue:
        here, limit, hops = queue.popleft()
        deepest = max(deepest, hops)
        for uid, end in onward(plans[here], limit):
            received[int(uid)] += 1
            assert received[int(uid)] <= len(linked), "runs in circles"
            queue.append((int(uid), end, hops + 1))
    return received, deepest


@st.composite
def rings(draw: st.DrawFn) -> Linked:
    """Draw brokers on a circle, each linked to both its neighbours, and some to others as well."""
    ids = sorted(draw(st.sets(st.integers(0, RING_SIZE - 1), min_size=1, max_size=24)))
    linked: Linked = {here: set() for here in ids}

    def link(a: int, b: int) -> None:
        if a != b:
            linked[a].add(b)
            linked[b].add(a)

    for at, here in enumerate(ids):
        link(here, ids[(at + 1) % len(ids)])
    one = st.sampled_from(ids)
    for a, b in draw(st.lists(st.tuples(one, one), max_size=40)):
        link(a, b)
    return linked


@given(rings(), st.data())
def test_every_broker_gets_it_once(linked: Linked, data: st.DataObject) -> None:
    origin = data.draw(st.sampled_from(sorted(linked)))
    received, _ = broadcast(linked, origin)
    assert received == {here: 1 for here in linked if here != origin}


@given(rings(), st.data())
def test_links_one_way_only_do_no_harm(linked: Linked, data: st.DataObject) -> None:
    """While a link comes up or goes down, one end sees it and the other does not."""
    ids = sorted(linked)
    for at, here in enumerate(ids):
        right = ids[(at + 1) % len(ids)]
        linked[here] = {
            other for other in sorted(linked[here]) if other == right or data.draw(st.booleans())
        }
    origin = data.draw(st.sampled_from(ids))
    received, _ = broadcast(linked, origin)
    assert received == {here: 1 for here in linked if here != origin}


@pytest.mark.parametrize("n", [2, 3, 64, 500])
def test_chords_by_rank_make_it_shallow(n: int) -> None:
    linked: Linked = {here: set() for here in range(n)}
    step = 1
    while step < n:
        for here in range(n):
            linked[here].add((here + step) % n)
        step *= 2
    received, deepest = broadcast(linked, 0)
    assert len(received) == n - 1
    assert deepest <= n.bit_length()


def test_alone_it_has_nowhere_to_go() -> None:
    plan = ArcPlan()
    plan.update(5, {"me": 5})
    assert plan.is_empty
    assert onward(plan, 5) == ()


def test_a_change_of_links_changes_the_way() -> None:
    plan = ArcPlan()
    plan.update(0, {"b": 10, "c": 20})
    assert onward(plan, 0) == (("b", 20), ("c", 0))
    plan.update(0, {"c": 20})
    assert onward(plan, 0) == (("c", 0),)
    assert not plan.is_empty


def test_remembered_answers_are_bounded_and_stay_right() -> None:
    plan = ArcPlan()
    plan.update(0, {"b": 10})
    answers: list[Any] = [onward(plan, limit) for limit in range(1, MAX_CACHED + 20)]
    assert answers[5] == ()
    assert answers[-1] == (("b", MAX_CACHED + 19),)
    assert len(plan._cache) <= MAX_CACHED


# In place of a broker that is gone


def serve(linked: Linked, here: int, place: int, limit: int) -> set[int]:
    """Let ``here`` send an event on in place of a broker; return who gets it in the end."""
    plans: dict[int, ArcPlan] = {}
    for broker, others in linked.items():
        plan = plans[broker] = ArcPlan()
        plan.update(broker, {str(other): other for other in others})
    received: set[int] = set()
    queue = deque((int(uid), end) for uid, end in instead(plans[here], place, limit))
    while queue:
        broker, arc = queue.popleft()
        received.add(broker)
        queue.extend((int(uid), end) for uid, end in onward(plans[broker], arc))
    return received


@given(rings(), st.data())
def test_others_serve_what_a_broker_that_is_gone_was_to_serve(
    linked: Linked, data: st.DataObject
) -> None:
    """Whoever had the event for it: one before it, or one in that part, as relays may be."""
    assume(len(linked) > 2)
    gone = data.draw(st.sampled_from(sorted(linked)))
    del linked[gone]
    ids = sorted(linked)
    for at, here in enumerate(ids):
        linked[here].discard(gone)
        linked[here].add(ids[(at + 1) % len(ids)])
        linked[here].discard(here)
    here, limit = data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(ids))
    if between(here, gone, limit):
        # It was linked to the broker that is gone, and to those beside it if it was beside it.
        wanted = {other for other in ids if between(gone, other, limit)}
        assert wanted <= serve(linked, here, gone, limit)
    else:
        part = {other for other in ids if between(gone, other, limit)}
        before = max(linked[here], key=lambda other: clockwise(gone, other), default=None)
        assume(before is not None and not between(gone, before, limit))
        assert part <= serve(linked, here, gone, limit)


def test_it_goes_to_the_last_one_before_the_broker_that_is_gone() -> None:
    plan = ArcPlan()
    plan.update(0, {"b": 10, "c": 20, "d": 40})
    assert instead(plan, 30, 0) == (("c", 40), ("d", 0))
    assert instead(plan, 30, 35) == (("c", 35),)
    assert instead(plan, 5, 20) == (("b", 20),)
    assert instead(plan, 5, 10) == (), "it was alone there"


def test_a_relay_inside_the_part_that_is_to_be_served_leaves_it_all_to_one() -> None:
    plan = ArcPlan()
    plan.update(0, {"b": 10, "c": 20, "d": 40})
    assert instead(plan, 30, 15) == (("c", 15),), "d, this broker and b are behind c"
    assert instead(plan, 5, 2) == (("b", 2),), "nobody is left before that part"


@given(rings(), st.data())
def test_what_is_led_to_a_place_comes_there_and_to_nobody_who_serves_others(
    linked: Linked, data: st.DataObject
) -> None:
    start, goal = (data.draw(st.sampled_from(sorted(linked))) for _ in range(2))
    assume(start != goal)
    plans = {here: ArcPlan() for here in linked}
    for here, plan in plans.items():
        plan.update(here, {str(other): other for other in linked[here]})
    here, duty, passed = start, toward(goal, age_ms=7), [start]
    while here != goal:
        ((uid, duty),) = TowardPlan(plans[here]).onward(duty)
        here = int(uid)
        assert here not in passed, "runs in circles"
        passed.append(here)
    assert duty == toward(goal, age_ms=7)
    assert TowardPlan(plans[goal]).onward(duty) == ()


def test_who_serves_another_part_of_the_ring_than_before_is_told_once() -> None:
    plan = ArcPlan()
    plan.update(0, {"a": 10, "b": 20, "c": 30})
    assert list(plan.take_moved()) == ["a", "b", "c"]
    plan.update(0, {"a": 10, "b": 20, "c": 30})
    assert list(plan.take_moved()) == []
    plan.update(0, {"a": 10, "c": 30})  # now a serves what b did
    plan.update(0, {"a": 10, "c": 30})
    assert list(plan.take_moved()) == ["a"]
    plan.update(0, {"a": 10, "b": 20, "c": 30})
    assert list(plan.take_moved()) == ["a", "b"]
