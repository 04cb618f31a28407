"""The world by itself: links, their order and their ends, as TCP shows them to a machine."""

from __future__ import annotations

import pytest

from overlay.ids import Nanos, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from ring.wire.messages import Heartbeat
from sims.world.network import DISTANCES, Latency
from sims.world.world import CONNECT_TIMEOUT_NS, CrashMode, World
from tests.helpers.bench import peer
from tests.helpers.recorder import Do, Recorder

A, B = peer(1), peer(2)


class Pair:
    """Two recorders in a world."""

    def __init__(self) -> None:
        self.world = World(Latency(DISTANCES["wan"], 1))
        self.a, self.b = Recorder(A), Recorder(B)
        self.world.add(self.a)
        self.world.add(self.b)

    def a_does(self, *effects: Effect) -> None:
        self.world.give(A.uid, Do(*effects))

    def b_does(self, *effects: Effect) -> None:
        self.world.give(B.uid, Do(*effects))

    def run(self, seconds: float = 1.0) -> None:
        self.world.run(self.world.now + nanos(seconds))

    def link(self) -> None:
        self.a_does(OpenLink(B.url, B.uid))
        self.run()
        self.a.seen.clear()
        self.b.seen.clear()


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def linked() -> Pair:
    pair = Pair()
    pair.link()
    return pair


def test_a_link_comes_up_at_both_ends_after_two_round_trips(pair: Pair) -> None:
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run()
    [(at_a, up_a)], [(at_b, up_b)] = pair.a.seen, pair.b.seen
    assert (up_a, up_b) == (LinkUp(B, B.url), LinkUp(A, A.url))
    assert at_a * 3 == at_b * 4


def test_messages_arrive_in_order_and_before_the_close(linked: Pair) -> None:
    beats = [Heartbeat(version) for version in range(50)]
    linked.a_does(*(Send(B.uid, beat) for beat in beats), CloseLink(B.uid, Closed.UNWANTED))
    linked.run()
    assert linked.b.inputs == [
        *(MessageReceived(A.uid, beat) for beat in beats),
        LinkDown(A.uid, Closed.UNWANTED),
    ]
    assert linked.a.inputs == [], "who closes a link sees no end of it"


def test_nothing_overtakes_the_welcome(pair: Pair) -> None:
    pair.a_does(OpenLink(B.url, None))
    pair.world.at(0, lambda: None)
    while not pair.b.seen:
        pair.run(0.001)
    pair.b_does(Send(A.uid, Heartbeat(1)))
    pair.run()
    assert pair.a.inputs == [LinkUp(B, B.url), MessageReceived(B.uid, Heartbeat(1))]


def test_a_message_without_a_link_is_dropped(pair: Pair) -> None:
    pair.a_does(Send(B.uid, Heartbeat(1)))
    pair.run()
    assert pair.b.inputs == []


def test_a_message_under_way_on_a_closed_link_is_dropped(linked: Pair) -> None:
    linked.a_does(Send(B.uid, Heartbeat(1)))
    linked.b_does(CloseLink(A.uid, Closed.UNWANTED))
    linked.run()
    assert linked.b.inputs == []


def test_of_two_crossing_attempts_one_becomes_the_link(pair: Pair) -> None:
    pair.a_does(OpenLink(B.url, B.uid))
    pair.b_does(OpenLink(A.url, A.uid))
    pair.run()
    kinds = [[type(event) for event in machine.inputs] for machine in (pair.a, pair.b)]
    assert sorted(map(len, kinds)) == [1, 2]
    refusals = [e for e in (*pair.a.inputs, *pair.b.inputs) if isinstance(e, LinkRefused)]
    assert [refusal.reason for refusal in refusals] == [Refused.DUPLICATE]
    pair.a.seen.clear()
    pair.a_does(Send(B.uid, Heartbeat(1)))
    pair.run()
    assert pair.b.inputs[-1] == MessageReceived(A.uid, Heartbeat(1))


def test_a_call_to_one_that_is_linked_is_refused(linked: Pair) -> None:
    linked.a_does(OpenLink(B.url, B.uid))
    linked.run()
    assert linked.a.inputs == [LinkRefused(B.url, B.uid, Refused.DUPLICATE)]
    assert linked.b.inputs == []


def test_a_call_may_replace_the_link_there_is(linked: Pair) -> None:
    linked.a_does(OpenLink(B.url, B.uid, replace=True))
    linked.run()
    assert (linked.a.inputs, linked.b.inputs) == ([LinkUp(B, B.url)], [LinkUp(A, A.url)])
    linked.a_does(Send(B.uid, Heartbeat(1)))
    linked.b_does(Send(A.uid, Heartbeat(2)))
    linked.run()
    assert linked.a.inputs[1:] == [MessageReceived(B.uid, Heartbeat(2))]
    assert linked.b.inputs[1:] == [MessageReceived(A.uid, Heartbeat(1))]


@pytest.mark.parametrize("both", [True, False])
def test_a_call_does_not_replace_the_link_that_was_made_since_it_began(
    linked: Pair, both: bool
) -> None:
    linked.a_does(OpenLink(B.url, B.uid, replace=True))
    linked.b_does(OpenLink(A.url, A.uid, replace=both))
    linked.run()
    events = (*linked.a.inputs, *linked.b.inputs)
    refusals = [event for event in events if isinstance(event, LinkRefused)]
    assert [refusal.reason for refusal in refusals] == [Refused.DUPLICATE]
    assert sum(isinstance(event, LinkUp) for event in events) == 2


# Ends


def test_a_killed_process_closes_its_links(linked: Pair) -> None:
    linked.world.crash(A.uid, CrashMode.KILL)
    linked.run()
    assert linked.b.inputs == [LinkDown(A.uid, Closed.LOST)]
    assert linked.world.alive == [B.uid]


def test_a_machine_without_power_says_nothing(linked: Pair) -> None:
    linked.world.crash(A.uid, CrashMode.POWER)
    linked.run(60)
    assert linked.b.inputs == []


def test_what_was_sent_before_a_kill_arrives(linked: Pair) -> None:
    linked.a_does(Send(B.uid, Heartbeat(1)))
    linked.world.crash(A.uid, CrashMode.KILL)
    linked.run()
    assert linked.b.inputs[0] == MessageReceived(A.uid, Heartbeat(1))


@pytest.mark.parametrize(
    ("end", "reason", "at_most"),
    [
        (CrashMode.KILL, Refused.UNREACHABLE, nanos(1)),
        (CrashMode.POWER, Refused.TIMEOUT, CONNECT_TIMEOUT_NS),
    ],
)
def test_the_dead_cannot_be_linked(
    pair: Pair, end: CrashMode, reason: Refused, at_most: Nanos
) -> None:
    pair.world.crash(B.uid, end)
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run(5)
    [(at, refused)] = pair.a.seen
    assert refused == LinkRefused(B.url, B.uid, reason)
    assert at <= at_most


def test_the_dead_do_nothing(linked: Pair) -> None:
    linked.a.deadlines = [linked.world.now + 1]
    linked.a_does()
    linked.world.crash(A.uid, CrashMode.POWER)
    linked.b_does(Send(A.uid, Heartbeat(1)))
    linked.run()
    assert (linked.a.inputs, linked.a.woken) == ([], [])


# Refusals


def test_an_unknown_address_is_unreachable(pair: Pair) -> None:
    pair.a_does(OpenLink("chordal://nowhere:1", None))
    pair.run(5)
    [refused] = pair.a.inputs
    assert refused == LinkRefused("chordal://nowhere:1", None, Refused.UNREACHABLE)


def test_another_broker_than_expected_is_refused(pair: Pair) -> None:
    pair.a_does(OpenLink(B.url, "0" * 32))
    pair.run()
    assert pair.a.inputs == [LinkRefused(B.url, "0" * 32, Refused.OTHER_PEER)]
    assert pair.b.inputs == []


def test_the_acceptor_may_refuse(pair: Pair) -> None:
    pair.b.refusal = Refused.DECLARED_DEAD
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run()
    assert pair.a.inputs == [LinkRefused(B.url, B.uid, Refused.DECLARED_DEAD)]
    assert pair.b.inputs == []


def test_the_caller_may_refuse_whom_it_finds(pair: Pair) -> None:
    pair.a.refusal = Refused.DECLARED_DEAD
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run()
    assert [type(event) for event in pair.a.inputs] == [LinkRefused]
    assert pair.b.inputs == [LinkUp(A, A.url), LinkDown(A.uid, Closed.DECLARED_DEAD)]


# Standing still


def test_what_comes_to_a_stopped_process_waits_for_it(linked: Pair) -> None:
    linked.world.pause(B.uid)
    linked.a_does(Send(B.uid, Heartbeat(1)), Send(B.uid, Heartbeat(2)))
    linked.run(30)
    assert linked.b.inputs == []
    resumed = linked.world.now
    linked.world.resume(B.uid)
    linked.run()
    assert linked.b.seen == [
        (resumed, MessageReceived(A.uid, Heartbeat(1))),
        (resumed, MessageReceived(A.uid, Heartbeat(2))),
    ]


def test_the_timers_of_a_stopped_process_run_late(linked: Pair) -> None:
    linked.a.deadlines = [linked.world.now + nanos(1)]
    linked.a_does()
    linked.world.pause(A.uid)
    linked.run(30)
    assert linked.a.woken == []
    linked.world.resume(A.uid)
    assert linked.a.woken == [linked.world.now]


def test_a_stopped_process_cannot_be_linked(pair: Pair) -> None:
    pair.world.pause(B.uid)
    pair.a_does(OpenLink(B.url, B.uid))
    pair.run(5)
    assert pair.a.inputs == [LinkRefused(B.url, B.uid, Refused.TIMEOUT)]


# Time


def test_timers_run_on_time(pair: Pair) -> None:
    pair.a.deadlines = [nanos(0.5), nanos(0.25)]
    pair.a_does()
    pair.run()
    assert pair.a.woken == [nanos(0.25), nanos(0.5)]


def test_the_clock_stands_where_it_was_told_to(pair: Pair) -> None:
    pair.world.run(nanos(7))
    assert pair.world.now == nanos(7)


def test_things_due_at_one_time_happen_in_the_order_they_were_asked_for(pair: Pair) -> None:
    happened: list[int] = []
    for number in range(5):
        pair.world.at(nanos(1), happened.append, number)
    pair.run(2)
    assert happened == [0, 1, 2, 3, 4]


def test_latency_follows_distance_and_seed() -> None:
    there, again, elsewhere = (Latency(DISTANCES["wan"], seed) for seed in (1, 1, 2))
    ways = [(f"{a}", f"{b}") for a in range(5) for b in range(5) if a != b]
    drawn = [there.one_way_ns(a, b) for a, b in ways]
    assert drawn == [again.one_way_ns(a, b) for a, b in ways]
    assert drawn != [elsewhere.one_way_ns(a, b) for a, b in ways]
    distances = DISTANCES["wan"]
    assert min(drawn) >= distances.base_ns
    assert max(drawn) <= distances.base_ns + 1.5 * distances.side_ns + distances.jitter_ns
    for a, b in ways:
        back = there.one_way_ns(b, a) - there.one_way_ns(a, b)
        assert abs(back) <= distances.jitter_ns
