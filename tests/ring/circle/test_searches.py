"""Passing routes on: greedily, past who does not answer, out of dead ends, and the answer back."""

from __future__ import annotations

import msgspec
import pytest

from ring.circle.greedy import distance, nearer, nearest
from ring.circle.links import RingLink
from ring.config import LAN
from ring.facts import Locate, Located
from ring.wire.messages import (
    MAX_ROUTE_HOPS,
    Purpose,
    Route,
    Routed,
    RouteHeard,
    Towards,
)
from tests.helpers.bench import Bench, member, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700, 800, 900]
HEARD = RouteHeard(uid(800), 7, 3)


def bench() -> Bench:
    """300 with its neighbours and a link to 700, whose chord it is."""
    node = Bench.on_ring(RING, 300)
    node.up(member(700))
    node.receive(member(700), view_of(700, RING))
    return node


def route(target: int, goal: int | None = None, **changes: object) -> Route:
    """A route from 800 that comes to 300 from 100 with its third hop."""
    first = Route(
        origin=member(800),
        token=7,
        target=target,
        towards=Towards.NEAREST,
        uid=None if goal is None else uid(goal),
        trail=(uid(800), uid(900), uid(100)),
        tried=(),
        best=member(100),
        hops=3,
    )
    return msgspec.structs.replace(first, **changes)


def test_it_goes_on_to_the_link_nearest_to_the_target() -> None:
    effects = bench().receive(member(100), route(640))
    assert sent(effects, RouteHeard) == [(uid(100), HEARD)]
    [(onward, passed_on)] = sent(effects, Route)
    assert onward == uid(700)
    assert passed_on.trail == (uid(800), uid(900), uid(100), uid(300))
    assert (passed_on.hops, passed_on.best) == (4, member(300))


def test_the_nearest_broker_answers() -> None:
    effects = bench().receive(member(100), route(310))
    [(back, answer)] = sent(effects, Routed)
    assert back == uid(100)
    assert (answer.token, answer.reached, answer.member, answer.hops) == (7, True, member(300), 3)


def test_the_very_broker_asked_for_answers_wherever_the_target_is() -> None:
    [(_, answer)] = sent(bench().receive(member(100), route(777, 300)), Routed)
    assert (answer.reached, answer.member) == (True, member(300))


def test_a_broker_that_is_not_in_its_place_is_not_reached() -> None:
    [(_, answer)] = sent(bench().receive(member(100), route(310, 310)), Routed)
    assert (answer.reached, answer.member) == (False, member(300))


def test_a_broker_that_is_linked_gets_the_route_wherever_the_target_is() -> None:
    [(onward, _)] = sent(bench().receive(member(100), route(210, 700)), Route)
    assert onward == uid(700)


def test_the_answer_goes_to_the_earliest_on_the_trail_that_is_linked() -> None:
    node = bench()
    trail = (uid(700), uid(900), uid(100))
    effects = node.receive(member(100), route(310, trail=trail, origin=member(700)))
    assert [to for to, _ in sent(effects, Routed)] == [uid(700)]


def test_an_answer_is_handed_back_along_its_trail() -> None:
    answer = Routed(7, True, member(500), (uid(800), uid(900), uid(100), uid(300), uid(500)), 4)
    assert sent(bench().receive(member(500), answer), Routed) == [(uid(100), answer)]


def test_who_does_not_confirm_is_passed_by_and_avoided_for_a_while() -> None:
    node = bench()
    node.receive(member(100), route(640))
    others = [member(i) for i in (100, 200, 400, 500)]
    effects = node.wait(1.1 * LAN.answer_max_ns / 1e9, alive=others)
    [(onward, passed_on)] = sent(effects, Route)
    assert onward == uid(500)
    assert (passed_on.tried, passed_on.hops) == ((uid(700),), 5)
    [(onward, _)] = sent(node.receive(member(100), route(640, token=8)), Route)
    assert onward == uid(500)


def test_who_confirms_is_left_to_it() -> None:
    node = bench()
    node.receive(member(100), route(640))
    node.receive(member(700), RouteHeard(uid(800), 7, 4))
    effects = node.wait(1.1 * LAN.test_ns / 1e9, alive=[member(100)])
    assert sent(effects, Route) == []


def test_what_a_broken_link_may_have_lost_takes_another_at_once() -> None:
    node = bench()
    node.receive(member(100), route(640))
    [(onward, _)] = sent(node.down(member(700)), Route)
    assert onward == uid(500)


def test_out_of_a_dead_end_it_goes_to_the_nearest_not_seen() -> None:
    """400 is lost from sight, so nobody here can say who is nearest to 410."""
    node = bench()
    node.down(member(400))
    [(onward, passed_on)] = sent(node.receive(member(100), route(410)), Route)
    assert onward == uid(500)
    back = msgspec.structs.replace(
        passed_on, trail=passed_on.trail, tried=(uid(500), uid(200), uid(700)), hops=9
    )
    effects = node.receive(member(500), back)
    assert [(to, r.trail, r.tried[-1]) for to, r in sent(effects, Route)] == [
        (uid(100), (uid(800), uid(900), uid(100)), uid(300))
    ]


def test_it_ends_after_so_many_hops() -> None:
    [(_, answer)] = sent(bench().receive(member(100), route(640, hops=MAX_ROUTE_HOPS)), Routed)
    assert (answer.reached, answer.member) == (False, member(300))


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_search_to_one_side_ends_at_the_edge_of_the_gap(is_whole: bool) -> None:
    """Whoever asks wants to close the gap, though nobody here can be sure who stands in it."""
    node = bench()
    if not is_whole:
        node.down(member(200))
    edge = route(250, towards=Towards.RIGHT, trail=(uid(800), uid(700)), best=member(700))
    [(_, answer)] = sent(node.receive(member(700), edge), Routed)
    assert (answer.reached, answer.member) == (is_whole, member(300))
    assert distance(Towards.RIGHT, 250, 240) > distance(Towards.RIGHT, 250, 900)
    assert distance(Towards.LEFT, 250, 240) == 10


@pytest.mark.parametrize(
    "strange",
    [
        {"trail": ()},
        {"trail": (uid(800), uid(900))},
        {"trail": (uid(800), uid(300), uid(100))},
        {"trail": (uid(800), uid(300))},
        {"hops": 200},
    ],
)
def test_what_no_broker_would_send_is_dropped(strange: dict[str, object]) -> None:
    effects = bench().receive(member(100), route(640, None, **strange))
    assert sent(effects, Route) + sent(effects, Routed) + sent(effects, RouteHeard) == []


def test_an_answer_to_nothing_is_ignored() -> None:
    effects = bench().receive(member(100), Routed(99, True, member(500), (uid(300), uid(100)), 1))
    assert told(effects, Located) == []


def test_a_search_is_tried_three_times_by_other_ways_and_ends() -> None:
    node = bench()
    alive = [member(i) for i in (100, 200, 400, 500)]
    ways = []
    effects = node.give(Locate(640, uid(640)))
    for _ in range(3):
        ways += [to for to, r in sent(effects, Route) if r.hops == 1]
        for to, r in sent(effects, Route):
            node.receive(member(int(to, 16)), RouteHeard(uid(300), r.token, r.hops))
        effects = node.wait(1.01 * LAN.route_ns / 1e9, alive=[*alive, member(700)])
    assert ways == [uid(700), uid(500), uid(400)]
    [found] = told(effects, Located)
    assert (found.reached, found.member, found.path) == (False, None, ())


def test_the_nearest_of_two_equally_near_is_the_smaller_uid() -> None:
    links = [("b", 110), ("a", 90), ("c", 300)]
    assert nearest(Towards.NEAREST, 100, links) == (10, "a")
    assert nearest(Towards.NEAREST, 100, links, {"a"}) == (10, "b")
    assert nearest(Towards.RIGHT, 100, links, {"b"}) == (200, "c")
    assert nearest(Towards.LEFT, 100, [], {"b"}) is None


def test_who_is_nearer_is_linked_for_a_purpose_and_of_two_the_one_for_longer() -> None:
    links = {uid(at): RingLink(member(at).peer, 0) for at in (110, 90, 100, 300)}
    for at, link in zip((110, 90, 100, 300), links.values(), strict=True):
        link.member, link.remote = member(at), Purpose.CHORD
    links[uid(100)].remote = Purpose.NONE
    assert nearer(200, 100, links, None) == uid(110)
    assert nearer(200, 100, links, uid(110)) == uid(90)
    assert nearer(90, 100, links, None) is None
    links[uid(90)].member = None
    assert nearer(200, 100, links, uid(110)) is None
