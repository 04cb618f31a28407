"""Queue groups: broker ``a`` on a bench chooses who serves one, and which member gets an event."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from ges.delivery.queue_members import ROOM_BYTES
from ges.sessions.session import Session
from ges.wire.event_flags import AGAIN_FLAG, GROUPS_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import HEADER, Duty, Head, pack_express, read_head
from ges.wire.groups import Serving
from overlay.ids import LinkClass
from tests.ges.routing.test_destinations import PLACES, A, B, C, D, clustered
from tests.helpers.router_bench import NORMAL, PUBLISHER, Bench, delivered, event, frames_to
from tests.helpers.runs import under_way

EXPRESS = LinkClass.EXPRESS


def roomy() -> Bench:
    """Return a bench whose queues hold much."""
    bench = Bench(limit_bytes=10 * ROOM_BYTES)
    bench.cluster.found(A, PLACES)
    bench.cluster.link([(A, B), (A, C), (C, D)])
    return bench


def runs_to(bench: Bench, name: str, link_class: LinkClass = NORMAL) -> list[EventRun]:
    bodies = bench.sent_bodies(name, link_class)
    return [EventRun.of(read_head(body), body) for body in bodies]


def member(bench: Bench, text: str = "t", count: int = 1, queue: str = "g") -> Session:
    """Attach a client with so many subscriptions in a group."""
    session = Session("e" * 32, 1, bench.connection(secure=False))
    for number in range(1, 1 + count):
        bench.subscribe(session, number, text, queue=queue)
    return session


def come(
    bench: Bench, sequence: int, serving: Serving | None, destinations: int = 1, flags: int = 0
) -> None:
    """Let an event come over the link to c, on one way."""
    run = EventRun.of(*event(sequence))
    if serving is not None:
        run = run.grouped(serving)
    duty = Duty(1, 0, destinations, 0b100)
    body = under_way(
        next(run.bodies()), duty, via=7, source=PLACES[C], flags=run.head.flags | flags
    )
    bench.relay(read_head(body), body)


def payloads(session: Session) -> list[bytes]:
    return [payload for _, payload in delivered(session)]


async def test_the_source_says_who_serves_a_group() -> None:
    bench = clustered()
    key = bench.cluster.join("g", "t", C)
    bench.cluster.wanted[b"t"] = 0b0010
    bench.publish(*event())
    for name in "bc":
        (run,) = runs_to(bench, name)
        assert run.serving() == Serving({key: 2}), "both are told, so that b does not serve it"
        assert next(run.ungrouped().bodies())[HEADER.size :] == b"t1"


async def test_brokers_that_are_equally_near_are_drawn_and_farther_ones_are_not_taken() -> None:
    bench = roomy()
    bench.cluster.join("g", "t", B, C, D)
    for sequence in range(1, 201):
        bench.publish(*event(sequence))
    got = Counter({name: len(bench.sent(name)) for name in "bc"})
    assert got["b"] + got["c"] == 200
    assert 70 < got["b"] < 130
    assert all(head.duty.destinations == 0b100 for head in bench.sent("c")), "none is for d"


async def test_events_of_one_run_are_drawn_one_by_one() -> None:
    bench = clustered()
    bench.cluster.join("g", "t", B, C)
    frames = [EventRun.of(*event(n)).data for n in range(1, 41)]
    bounds = [0, *accumulate(map(len, frames))]
    run = EventRun(event(1)[0], b"".join(frames), bounds, 40)
    bench.publish_run(run)
    found = sorted(head.sequence for name in "bc" for head in bench.sent(name))
    assert found == list(range(1, 41))
    assert 5 < len(bench.sent("b")) < 35


async def test_a_member_here_is_nearest() -> None:
    bench = clustered()
    here = member(bench)
    bench.cluster.join("g", "t", A, B, C)
    bench.publish(*event())
    assert payloads(here) == [b"1"]
    assert bench.sent("b") == bench.sent("c") == []


async def test_the_groups_named_for_this_broker_get_it_and_no_others() -> None:
    bench = clustered()
    here, plain = member(bench), bench.session("t")
    key = bench.cluster.join("g", "t", A, B)
    come(bench, 1, Serving({key: 1}))
    assert (payloads(here), payloads(plain)) == ([], [b"1"])
    come(bench, 2, Serving({key: 0}))
    assert (payloads(here), payloads(plain)) == ([b"2"], [b"1", b"2"])
    assert bench.counters["group_events_lost"] == 0


async def test_members_take_turns_and_each_subscription_is_one() -> None:
    bench = clustered()
    here = member(bench, count=3)
    key = bench.cluster.join("g", "t", A)
    for sequence in range(1, 10):
        come(bench, sequence, Serving({key: 0}))
    assert [numbers for numbers, _ in delivered(here)] == [(1,), (2,), (3,)] * 3


async def test_who_has_room_is_before_who_has_not() -> None:
    bench = roomy()
    full, free = member(bench), member(bench)
    key = bench.cluster.join("g", "t", A)
    full.connection.send(b"x" * (ROOM_BYTES + 1), 1)
    for sequence in range(1, 5):
        come(bench, sequence, Serving({key: 0}))
    assert payloads(free) == [b"1", b"2", b"3", b"4"]
    free.connection.send(b"x" * (ROOM_BYTES + 1), 1)
    before = full.connection.queued_bytes
    come(bench, 5, Serving({key: 0}))
    come(bench, 6, Serving({key: 0}))
    assert full.connection.queued_bytes > before, "where nobody has room all take turns"


async def test_what_nobody_here_gets_any_more_goes_to_another_broker_of_the_group() -> None:
    bench = clustered()
    here = member(bench)
    key = bench.cluster.join("g", "t", A, B)
    bench.parts.deliveries.forget(here)
    come(bench, 1, Serving({key: 0}))
    (run,) = runs_to(bench, "b")
    assert run.serving() == Serving({key: 1}, 0b1)
    assert (run.head.duty.destinations, run.head.again) == (0b10, True)
    assert bench.counters["group_events_handed_on"] == 1
    bench.cluster.join("g", "t", B, by=-1)
    come(bench, 2, Serving({key: 0}))
    assert len(bench.sent("b")) == 1
    assert bench.counters["group_events_lost"] == 1, "nobody is known any more"


async def test_what_was_sent_to_an_earlier_life_is_not_handed_on() -> None:
    """A member there may have had it. A group that had members in this life has had nothing yet."""
    bench = clustered()
    key = bench.cluster.join("g", "t", B)
    come(bench, 1, Serving({key: 0}), flags=AGAIN_FLAG)
    assert (runs_to(bench, "b"), bench.counters["group_events_lost"]) == ([], 1)
    bench.parts.deliveries.forget(member(bench))
    come(bench, 2, Serving({key: 0}), flags=AGAIN_FLAG)
    assert [run.head.sequence for run in runs_to(bench, "b")] == [2]


async def test_what_was_handed_on_goes_to_a_member_once_whatever_has_come() -> None:
    """It comes behind later ones of its publisher: whoever has had one of these does not get it."""
    bench = clustered()
    here, plain = member(bench, count=2), bench.session("t")
    key = bench.cluster.join("g", "t", A, B)
    come(bench, 5, Serving({key: 0}))
    come(bench, 3, Serving({key: 0}, 0b10))
    come(bench, 3, Serving({key: 0}, 0b10))
    assert delivered(here) == [((1,), b"5"), ((2,), b"3")]
    come(bench, 4, Serving({key: 0}, 0b10))
    assert delivered(here)[2:] == [((2,), b"4")]
    come(bench, 2, Serving({key: 0}, 0b10))
    assert len(delivered(here)) == 3, "both have had later ones"
    assert bench.counters["group_events_lost"] == 1, "and b has tried before"
    come(bench, 1, Serving({key: 0}, 0b100))
    (run,) = runs_to(bench, "b")
    assert run.serving() == Serving({key: 1}, 0b101), "b has not"
    assert payloads(plain) == [b"5"], "plain subscribers get it from the source"


async def test_a_group_that_the_source_did_not_know_is_served_by_the_lowest_slot() -> None:
    bench = clustered()
    here = member(bench)
    bench.cluster.join("g", "t", A, B)
    come(bench, 1, None)
    come(bench, 2, Serving({7: 2}))
    assert payloads(here) == [b"1", b"2"]
    bench = clustered()
    bench.cluster.found(C, {B: 10, C: 20, A: 0})
    here = member(bench)
    bench.cluster.join("g", "t", B, C)
    run = under_way(event()[1], Duty(1, 0, 0b10, 0b100), via=7, source=0)
    bench.relay(read_head(run), run)
    assert payloads(here) == [], "b gets it as well, and serves"


async def test_express_events_go_to_one_and_are_handed_on() -> None:
    bench = clustered()
    here = member(bench, count=2)
    key = bench.cluster.join("g", "t", A, B)
    express = [EventRun.of(*express_event(n)).grouped(Serving({key: 0})) for n in range(1, 5)]
    for run in express[:2]:
        express_come(bench, run)
    assert [numbers for numbers, _ in delivered(here)] == [(1,), (2,)]
    bench.parts.deliveries.forget(here)
    express_come(bench, express[2])
    (_, body) = frames_to(bench.links[B, NORMAL].connection)[-1]
    run = EventRun.of(read_head(body), body)
    assert run.serving() == Serving({key: 1}, 0b1)
    assert (run.head.express, run.head.duty.destinations) == (True, 0b10)
    assert bench.counters["group_events_handed_on"] == 1


def express_event(sequence: int) -> tuple[Head, bytes]:
    body = pack_express(PUBLISHER, 1, sequence, 0, b"t", b"", b"%d" % sequence, 50_000)
    return read_head(body), body


def express_come(bench: Bench, run: EventRun) -> None:
    duty = Duty(1, 0, 1, 0b100)
    body = under_way(next(run.bodies()), duty, via=7, source=PLACES[C], flags=run.head.flags)
    bench.relay(read_head(body), body)


async def test_secure_events_go_to_members_with_a_secure_hop_alone() -> None:
    bench = clustered("b", "c")
    plain, secure = member(bench), Session("f" * 32, 1, bench.connection(secure=True))
    bench.subscribe(secure, 1, "t", queue="g")
    bench.cluster.join("g", "t", A)
    for sequence in range(1, 4):
        bench.publish(*event(sequence, secure=True))
    assert (payloads(plain), payloads(secure)) == ([], [b"1", b"2", b"3"])


async def test_what_a_run_says_of_groups_comes_off_again() -> None:
    head, body = event()
    run = EventRun.of(head, body)
    serving = Serving({2**64 - 1: 63, 5: 0}, 2**63)
    said = run.grouped(serving)
    assert said.head.flags == head.flags | GROUPS_FLAG
    assert (said.serving(), run.serving()) == (serving, None)
    assert said.ungrouped().data == run.data
    assert said.part(0, 1).serving() == serving


async def test_in_a_unit_nobody_is_chosen_to_whom_no_path_leads() -> None:
    bench = clustered()
    key = bench.cluster.join("g", "t", C, D)
    choosing = bench.parts.deliveries.sharing.choosing
    slots = bench.cluster.slots

    def chosen() -> set[int | None]:
        runs = (EventRun.of(*event(number)) for number in range(1, 40))
        return {choosing.inside(run, key, 1) for run in runs}

    assert chosen() == {slots[C], slots[D]}
    bench.cluster.link([(A, B), (A, C)])
    assert chosen() == {slots[C]}
    bench.cluster.link([(A, B)])
    assert chosen() == {None}


async def test_what_waits_for_a_broker_that_is_no_more_is_counted() -> None:
    bench = clustered()
    bench.cluster.wanted[b"t"] = 1 << bench.cluster.slots[D]
    bench.cluster.link([(A, B), (A, C)])
    bench.publish(*event())
    assert bench.counters["events_stuck"] == 1
    bench.cluster.drop(D)
    bench.expire()
    assert bench.counters["events_destination_gone"] == 1
    assert not bench.keeps_events
