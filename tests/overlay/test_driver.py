"""The trio driver, over a network in memory and in virtual time: links and timers."""

from __future__ import annotations

import random

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from benchmarks.stage.memory_streams import MemoryStream
from benchmarks.stage.waiting import until
from overlay.ids import LinkClass, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
)
from overlay.net.transport import TcpTransport
from overlay.queues.resend import ACK_FRAMES, Resume
from overlay.wire.frames import EVENT, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Goodbye, Welcome
from tests.helpers.stations import (
    CODEC,
    NORMAL,
    Beat,
    Overlay,
    Said,
    Station,
    answer,
    hello,
)

# Links


async def test_a_link_comes_up_at_both_ends(overlay: Overlay, autojump_clock: MockClock) -> None:
    a, b = await overlay.linked()
    assert a.took(LinkUp) == [LinkUp(b.peer, b.peer.url)]
    assert b.took(LinkUp) == [LinkUp(a.peer, a.peer.url)]


async def test_messages_arrive_in_order(overlay: Overlay, autojump_clock: MockClock) -> None:
    a, b = await overlay.linked()
    for number in range(100):
        a.do(Send(b.peer.uid, Beat(number), about="x" if number < 3 else None))
    await trio.sleep(0.1)
    assert b.took(MessageReceived) == [
        MessageReceived(a.peer.uid, Beat(number)) for number in range(100)
    ]
    assert a.driver.counters["control_messages_sent"] == 100
    assert a.driver.sent_about == {"x": 3}


async def test_what_is_sent_in_no_readers_turn_is_with_the_kernel_at_once() -> None:
    here, there = TcpTransport(None), TcpTransport(None)
    await here.listen("127.0.0.1", 0)
    port = await there.listen("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        a, b = Station("a", here), Station("b", there)
        for station in (a, b):
            await nursery.start(station.driver.run)
        a.do(OpenLink(f"chordal://127.0.0.1:{port}", b.peer.uid))
        await until(lambda: a.linked == ["b"] and b.linked == ["a"])
        connection = a.driver.links[b.peer.uid, LinkClass.NORMAL].connection
        await until(lambda: connection.queued_bytes == 0)
        await trio.testing.wait_all_tasks_blocked(0.05)
        a.do(Send(b.peer.uid, Beat(1)), Send(b.peer.uid, Beat(2)))
        assert connection.queued_bytes == 0, "not a checkpoint has passed"
        await until(lambda: len(b.took(MessageReceived)) == 2)
        nursery.cancel_scope.cancel()


async def test_effects_are_performed_in_order(overlay: Overlay, autojump_clock: MockClock) -> None:
    a, b = await overlay.linked()
    a.do(
        Send(b.peer.uid, Beat(1)),
        Notify(Said("now")),
        CloseLink(b.peer.uid, Closed.LEAVING),
        Send(b.peer.uid, Beat(2)),
    )
    assert a.facts == [Said("now")]
    assert a.linked == []
    await trio.sleep(3)
    assert b.took(MessageReceived) == [MessageReceived(a.peer.uid, Beat(1))]
    assert b.took(LinkDown) == [LinkDown(a.peer.uid, Closed.LEAVING)]
    assert a.took(LinkDown) == [], "who closes knows"
    await a.driver.drained()
    await b.driver.drained()


async def test_a_link_given_up_in_peace_loses_nothing_either_way(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    for station, other in ((a, b), (b, a)):
        connection = station.driver.links[other.peer.uid, LinkClass.NORMAL].connection
        for number in range(1000):
            connection.send(frame(EVENT, number.to_bytes(4, "big")), 1)
    b.busy = trio.Event()  # it is slow to read
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await trio.sleep(5)
    b.busy.set()
    await a.driver.drained()
    await b.driver.drained()
    sent = [(EVENT, number.to_bytes(4, "big")) for number in range(1000)]
    assert a.frames == sent
    assert b.frames == sent
    assert (a.cut, b.cut) == ([], [])


async def test_two_that_give_up_a_link_at_the_same_time_do_not_wait_for_each_other(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    a.do(CloseLink(b.peer.uid, Closed.LEAVING))
    b.do(CloseLink(a.peer.uid, Closed.LEAVING))
    start = trio.current_time()
    await a.driver.drained()
    await b.driver.drained()
    assert trio.current_time() - start < 0.1


async def test_the_layer_above_is_told_where_something_may_be_lost(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    a.do(CloseLink(b.peer.uid, Closed.DECLARED_DEAD))
    await trio.sleep(0.1)
    assert (a.cut, b.cut) == (["b"], ["a"])


async def test_a_station_that_stops_is_lost(overlay: Overlay, autojump_clock: MockClock) -> None:
    a = await overlay.station("a")
    b = Station("b", overlay.transport("b"))
    async with trio.open_nursery() as nursery:
        await nursery.start(b.driver.run)
        a.do(OpenLink(b.peer.url))
        await trio.sleep(0.1)
        assert a.linked == ["b"]
        nursery.cancel_scope.cancel()
    await trio.sleep(0.1)
    assert a.took(LinkDown) == [LinkDown(b.peer.uid, Closed.LOST)]
    assert a.linked == []
    assert a.cut == ["b"]
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(0.1)
    assert [(r.uid, r.reason) for r in a.took(LinkRefused)] == [(b.peer.uid, Refused.UNREACHABLE)]


async def test_crossing_calls_make_one_link(overlay: Overlay, autojump_clock: MockClock) -> None:
    a, b = await overlay.station("a"), await overlay.station("b")
    a.do(OpenLink(b.peer.url, b.peer.uid))
    b.do(OpenLink(a.peer.url, a.peer.uid))
    await trio.sleep(5)
    assert (a.linked, b.linked) == (["b"], ["a"])
    a.do(Send(b.peer.uid, Beat(1)))
    b.do(Send(a.peer.uid, Beat(2)))
    await trio.sleep(0.1)
    assert b.took(MessageReceived) == [MessageReceived(a.peer.uid, Beat(1))]
    assert a.took(MessageReceived) == [MessageReceived(b.peer.uid, Beat(2))]


async def test_a_call_by_another_name_does_not_harm_the_link(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    for caller, called in ((a, b), (b, a)):
        caller.do(OpenLink(called.peer.url))
        await trio.sleep(5)
        (refused,) = caller.took(LinkRefused)
        assert refused.reason is Refused.DUPLICATE
    assert (a.took(LinkDown), b.took(LinkDown)) == ([], [])
    assert (a.linked, b.linked) == (["b"], ["a"])


async def test_another_life_replaces_the_link_of_the_last(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    a.machine.peer = msgspec.structs.replace(a.peer, incarnation=2)
    a.do(CloseLink(b.peer.uid, Closed.LEAVING), OpenLink(b.peer.url))
    await trio.sleep(5)
    assert [up.peer.incarnation for up in b.took(LinkUp)] == [1, 2]
    assert (a.linked, b.linked) == (["b"], ["a"])


async def test_a_restarted_caller_replaces_the_link_of_its_last_life(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    old, new = await overlay.dial(a), await overlay.dial(a)
    restarted = Peer("c" * 32, 2, "chordal://c.test:9470")
    for stream, peer in ((old, hello().peer), (new, restarted)):
        assert peer is not None
        greeting = hello(peer=peer, incarnation=peer.incarnation)
        await stream.send_all(GREETINGS.encode(greeting))
        assert isinstance(await answer(stream), Welcome)
    with trio.fail_after(15):
        assert await old.receive_some() == CODEC.encode(Goodbye(Closed.REPLACED), PROTOCOL_VERSION)
        assert await old.receive_some() == b""
    await new.send_all(CODEC.encode(Beat(1)))
    await trio.sleep(0.1)
    assert a.took(MessageReceived) == [MessageReceived("c" * 32, Beat(1))]
    assert a.took(LinkDown) == [], "the link to c was never down"
    assert a.driver.links["c" * 32, NORMAL].peer == restarted


async def test_the_end_of_a_link_is_told_before_the_next_one_comes_up(
    overlay: Overlay, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the broken connection takes to close: the machine knows links by uid alone."""
    a, b = await overlay.linked()
    broken = a.driver.links[b.peer.uid, NORMAL].connection.stream
    assert isinstance(broken, MemoryStream)

    async def close_slowly() -> None:
        await trio.sleep(1)

    monkeypatch.setattr(broken, "aclose", close_slowly)
    broken.cut()
    await trio.sleep(0.1)
    b.do(OpenLink(a.peer.url, a.peer.uid))
    await trio.sleep(5)
    told = [type(event) for event in a.machine.inputs]
    assert told == [LinkUp, LinkDown, LinkUp]
    assert (a.linked, b.linked) == (["b"], ["a"])


# Links made anew


async def send_through(a: Station, b: Station, numbers: range) -> None:
    """Send frames both ways, over whatever link there is at each moment."""
    for number in numbers:
        for station, other in ((a, b), (b, a)):
            connection = station.driver.links[other.peer.uid, NORMAL].connection
            connection.send(frame(EVENT, number.to_bytes(4, "big")), 1)
        await trio.sleep(0.0001)


async def test_a_link_is_made_anew_without_being_down_or_losing_anything(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """Welcome and good-bye come over two connections: whichever is first, the link stays up."""
    a, b = await overlay.linked()
    for anew in range(20):
        caller, called = (a, b) if anew % 2 else (b, a)
        before = a.driver.links[b.peer.uid, NORMAL]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_through, a, b, range(100 * anew, 100 * anew + 100))
            caller.do(OpenLink(called.peer.url, called.peer.uid, replace=True))
        await trio.sleep(0.1)
        assert a.driver.links[b.peer.uid, NORMAL] is not before
    await trio.sleep(20)
    for station in (a, b):
        assert station.took(LinkDown) == []
        assert station.cut == []
        assert sorted(station.frames) == [(EVENT, n.to_bytes(4, "big")) for n in range(2000)]


async def test_a_link_made_anew_shows_the_life_that_the_other_end_has_begun_meanwhile(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    a.machine.peer = msgspec.structs.replace(a.peer, incarnation=a.peer.incarnation + 1)
    b.do(OpenLink(a.peer.url, a.peer.uid, replace=True))
    await trio.sleep(0.1)
    assert [up.peer for up in b.took(LinkUp)[1:]] == [a.machine.peer]
    assert (len(a.took(LinkUp)), a.took(LinkDown), b.took(LinkDown)) == (2, [], [])
    b.do(Send(a.peer.uid, Beat(1)))
    await trio.sleep(0.1)
    assert a.took(MessageReceived) == [MessageReceived(b.peer.uid, Beat(1))]


async def test_two_that_make_their_link_anew_at_the_same_time_keep_one(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    for caller, called in ((a, b), (b, a)):
        caller.do(OpenLink(called.peer.url, called.peer.uid, replace=True))
    await send_through(a, b, range(100))
    await trio.sleep(20)
    for station in (a, b):
        assert station.took(LinkDown) == []
        assert len(station.frames) == 100
    assert (a.linked, b.linked) == (["b"], ["a"])


CROSSINGS = 60


async def test_calls_that_cross_leave_one_link_whatever_overtakes_what(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """One begins before the other came, was welcomed or was answered; connections are unequal."""
    a, b = await overlay.linked()
    rng = random.Random(1)
    overlay.latency = lambda: nanos(rng.choice((0.0005, 0.005, 0.02)))
    for crossing in range(CROSSINGS):
        for caller, called in rng.sample(((a, b), (b, a)), 2):
            caller.do(OpenLink(called.peer.url, called.peer.uid, replace=True))
            await trio.sleep(rng.choice((0, 0.002, 0.01, 0.03, 0.06)))
        await send_through(a, b, range(20))
        await trio.sleep(5)
        assert (a.took(LinkDown), b.took(LinkDown)) == ([], []), crossing
    await trio.sleep(20)
    assert (a.cut, b.cut) == ([], [])
    assert (a.linked, b.linked) == (["b"], ["a"])
    assert [len(station.frames) for station in (a, b)] == [CROSSINGS * 20] * 2


async def test_the_welcome_goes_first_though_what_came_over_the_old_link_is_acknowledged(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """The new link comes up in the same instant; what runs first in it is left to chance."""
    overlay.latency = lambda: 0
    a = await overlay.station("a")
    due = frame(EVENT, b"") * ACK_FRAMES  # so many are acknowledged at once
    for serial in range(1, 81, 2):
        old, new = await overlay.dial(a), await overlay.dial(a)
        await old.send_all(GREETINGS.encode(hello(serial=serial, expected=a.peer.uid)))
        assert isinstance(await answer(old), Welcome)
        await old.send_all(CODEC.encode(Resume(1, serial, 0)))
        await trio.sleep(0.5)
        await new.send_all(GREETINGS.encode(hello(serial=serial + 1, expected=a.peer.uid)))
        await old.send_all(due)
        assert isinstance(await answer(new), Welcome)
        await trio.sleep(20)
    assert len(a.frames) == 40 * ACK_FRAMES


async def test_a_link_that_cannot_be_made_anew_stays(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    before = a.driver.links[b.peer.uid, NORMAL]
    a.do(OpenLink("chordal://nobody.test:1", b.peer.uid, replace=True))
    await trio.sleep(5)
    assert [r.reason for r in a.took(LinkRefused)] == [Refused.UNREACHABLE]
    assert a.driver.links[b.peer.uid, NORMAL] is before
    await send_through(a, b, range(10))
    await trio.sleep(0.1)
    assert (len(a.frames), len(b.frames)) == (10, 10)


async def test_a_link_that_is_cut_ends_at_once(overlay: Overlay, autojump_clock: MockClock) -> None:
    """Nothing that is queued is sent any more, and nothing more is read."""
    a, b = await overlay.linked()
    link = a.driver.links[b.peer.uid, NORMAL]
    b.driver.links[a.peer.uid, NORMAL].connection.send(frame(EVENT, b"late"))
    link.connection.send(frame(EVENT, b"secret"))
    a.driver.cut(b.peer.uid, NORMAL, Closed.REVOKED)
    assert a.took(LinkDown) == [LinkDown(b.peer.uid, Closed.REVOKED)]
    assert a.cut == ["b"]
    await trio.sleep(0.1)
    assert (a.frames, b.frames) == ([], [])
    assert b.linked == []
    assert len(a.took(LinkDown)) == 1


# Timers


async def test_a_machine_is_woken_at_its_deadline(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    a.machine.deadline = nanos(7)
    a.do()
    await trio.sleep(1)
    a.machine.deadline = nanos(3)
    a.do()
    await trio.sleep(10)
    assert len(a.machine.woken) == 1
    assert nanos(3) <= a.machine.woken[0] < nanos(3.001)
