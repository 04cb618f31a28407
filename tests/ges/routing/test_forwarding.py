"""One hop onward: round a failed link, by a relay that is faster, or yet another way."""

from __future__ import annotations

import pytest

from ges.wire.events import read_head
from ges.wire.source_route import pack_route
from overlay.errors import CodecError, ProtocolError
from overlay.wire.frames import DETOUR, EVENT, frame
from tests.helpers.router_bench import NORMAL, RING, SECURE, Bench, delivered, event, frames_to

# Round a failed link: C is linked to both, A and B are not


A_B = ("a" * 32, "c" * 32, "b" * 32)


async def test_an_event_for_a_broker_behind_a_failed_link_goes_round_it() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = A_B
    bench.publish(*event())
    assert [(way, head.limit, head.hops) for way, head in bench.sent_round("c")] == [
        (("b" * 32,), 20, 1)
    ]
    assert bench.counters["events_sent_round"] == 1
    assert bench.counters["events_without_link"] == 0


async def test_the_one_in_between_makes_a_plain_event_of_it_again() -> None:
    bench, between = Bench(), Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = A_B
    session = between.session("t")
    bench.publish(*event())
    [body] = [
        body for kind, body in frames_to(bench.links["c" * 32, NORMAL].connection) if kind == DETOUR
    ]
    between.pass_on(body)
    [head] = between.sent("b")
    assert (head.limit, head.hops, head.sequence) == (20, 1, 1)
    assert delivered(session) == [], "it was not meant for this broker"


async def test_a_longer_way_is_struck_off_step_by_step() -> None:
    bench = Bench()
    _, body = event()
    bench.router.pass_on(
        bench.links["b" * 32, NORMAL], pack_route(("b" * 32, "d" * 32, "e" * 32)) + body
    )
    assert [way for way, _ in bench.sent_round("b")] == [("d" * 32, "e" * 32)]


async def test_a_link_that_is_back_is_used_again() -> None:
    bench = Bench()
    bench.detours["b" * 32] = A_B
    bench.publish(*event())
    assert len(bench.sent("b")) == 1
    assert bench.counters["events_sent_round"] == 0


async def test_where_the_way_round_is_gone_too_the_event_is_counted_as_lost() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = ("a" * 32, "d" * 32, "b" * 32)
    bench.publish(*event())
    assert bench.counters["events_without_link"] == 1
    _, body = event()
    bench.pass_on(pack_route(("d" * 32,)) + body)
    assert bench.counters["events_without_link"] == 2


async def test_who_sends_by_a_link_that_is_gone_is_told_so() -> None:
    bench = Bench()
    _, body = event()
    bench.pass_on(pack_route(("b" * 32,)) + body)
    assert bench.misled == []
    del bench.links["b" * 32, NORMAL]
    bench.paths["b" * 32, NORMAL] = ("a" * 32, "c" * 32, "b" * 32)
    bench.pass_on(pack_route(("b" * 32,)) + body)
    assert bench.misled == ["c" * 32]
    assert len(bench.sent_round("c")) == 1, "it goes another way all the same"


async def test_secure_events_do_not_go_round_over_normal_links() -> None:
    bench = Bench("b")
    del bench.links["b" * 32, SECURE]
    bench.detours["b" * 32] = A_B
    bench.publish(*event(secure=True))
    assert bench.sent("b") == bench.sent("c") == []
    _, body = event(secure=True)
    with pytest.raises(ProtocolError, match="secure"):
        bench.pass_on(pack_route(("b" * 32,)) + body)


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\x01" + b"b" * 15, bytes((16,)) + b"b" * 300, b"\x01" + b"b" * 16]
)
async def test_a_way_round_that_makes_no_sense(body: bytes) -> None:
    with pytest.raises(CodecError):
        Bench().pass_on(body)


async def test_queues_on_the_way_round_are_watched_as_others() -> None:
    bench = Bench(limit_bytes=150)
    _, body = event()
    for _ in range(2):
        bench.pass_on(pack_route(("b" * 32,)) + body)
    assert bench.router.crowded == {bench.links["b" * 32, NORMAL].connection}


# By a relay that is faster


async def test_an_event_takes_the_relay_that_was_chosen_and_not_the_link() -> None:
    bench = Bench()
    bench.relays["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event())
    assert [way for way, _ in bench.sent_round("c")] == [("b" * 32,)]
    assert bench.sent("b") == []
    assert bench.counters["events_sent_round"] == 1
    assert bench.counters["events_forwarded"] == 2, "to b and to c"
    assert list(bench.router.told) == ["c" * 32], (
        "b does not hear from us, so it is due a heartbeat"
    )


async def test_the_relay_comes_before_the_way_round_a_failed_link() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = ("a" * 32, "d" * 32, "b" * 32)
    bench.relays["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event())
    assert [way for way, _ in bench.sent_round("c")] == [("b" * 32,)]


async def test_a_relay_for_one_class_is_none_for_another() -> None:
    bench = Bench("b", "c")
    bench.relays["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event(secure=True))
    assert len(bench.sent("b", SECURE)) == 1
    assert len(bench.sent("c", SECURE)) == 1


async def test_a_secure_event_takes_a_relay_over_secure_links_alone() -> None:
    bench, between = Bench("b", "c"), Bench("b", "c")
    bench.relays["b" * 32, SECURE] = ("c" * 32, "b" * 32)
    bench.publish(*event(secure=True))
    assert [way for way, _ in bench.sent_round("c", SECURE)] == [("b" * 32,)]
    assert bench.sent("b") == bench.sent("c") == bench.sent("b", SECURE) == []
    frames = frames_to(bench.links["c" * 32, SECURE].connection)
    [body] = [body for kind, body in frames if kind == DETOUR]
    between.pass_on(body, SECURE)
    assert len(between.sent("b", SECURE)) == 1
    assert between.sent("b") == []
    with pytest.raises(ProtocolError, match="secure"):
        between.pass_on(body)


async def test_without_its_secure_link_a_relay_passes_no_secure_event_on() -> None:
    between = Bench("c")
    _, body = event(secure=True)
    between.pass_on(pack_route(("b" * 32,)) + body, SECURE)
    assert between.sent("b") == []
    assert between.counters["events_without_link"] == 1


async def test_where_the_next_link_has_gone_the_one_behind_it_will_do() -> None:
    bench = Bench()
    _, body = event()
    bench.pass_on(pack_route(("d" * 32, "b" * 32, "e" * 32)) + body)
    assert [way for way, _ in bench.sent_round("b")] == [("e" * 32,)]
    assert bench.counters["events_without_link"] == 0


async def test_without_a_link_to_the_next_an_event_takes_the_way_that_is_known_here() -> None:
    bench = Bench()
    bench.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    _, body = event()
    hops = read_head(body).hops
    bench.pass_on(pack_route(("d" * 32,)) + body)
    assert [(way, head.hops) for way, head in bench.sent_round("c")] == [(("d" * 32,), hops + 1)]
    assert bench.counters["events_rerouted"] == 1
    assert bench.counters["events_without_link"] == 0


async def test_no_event_takes_yet_another_way_for_ever() -> None:
    """Two brokers that each hold the other for the way there."""
    here, there = Bench(), Bench()
    here.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    there.paths["d" * 32, NORMAL] = ("a" * 32, "b" * 32, "d" * 32)
    _, body = event()
    benches = [(here, "c"), (there, "b")]
    frame = pack_route(("d" * 32,)) + body
    for turn in range(300):
        bench, towards = benches[turn % 2]
        bench.pass_on(frame)
        sent = frames_to(bench.links[towards * 32, NORMAL].connection)
        if len(sent) <= turn // 2:
            break
        frame = sent[-1][1]
    assert here.counters["events_rerouted"] + there.counters["events_rerouted"] == 32
    assert here.counters["events_without_link"] + there.counters["events_without_link"] == 1


async def test_a_secure_event_takes_another_way_over_secure_links_alone() -> None:
    bench = Bench("b", "c")
    bench.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    _, body = event(secure=True)
    bench.pass_on(pack_route(("d" * 32,)) + body, SECURE)
    assert bench.sent("c") == bench.sent("b", SECURE) == bench.sent("c", SECURE) == []
    assert bench.counters["events_without_link"] == 1
    bench.paths["d" * 32, SECURE] = ("a" * 32, "b" * 32, "d" * 32)
    bench.pass_on(pack_route(("d" * 32,)) + body, SECURE)
    assert [way for way, _ in bench.sent_round("b", SECURE)] == [("d" * 32,)]


async def test_secure_events_that_wait_do_not_go_round_over_normal_links() -> None:
    """Their link is cut, and there is a way round the normal one beside it."""
    bench = Bench("b")
    key = ("b" * 32, SECURE)
    streams = bench.router._holding._streams
    cut = bench.links.pop(key).connection
    streams.attach(key, RING["b"].peer, 1, cut.outbox)
    cut.send(frame(EVENT, event(secure=True)[1]), 1)
    streams.detach(key)
    bench.router.on_cut(*key)
    bench.links.pop(("b" * 32, NORMAL))
    bench.detours["b" * 32] = ("a" * 32, "c" * 32, "b" * 32)
    bench.router.update(RING["a"], {"c" * 32: RING["c"]}, (RING["b"], RING["c"]))
    assert bench.sent_round("c") == []
    assert key in bench.router._holding.held, "it waits on"
