"""What the driver does with refusals, strangers, and peers that break the protocol."""

from __future__ import annotations

import pytest
import structlog
import trio
from trio.testing import MockClock

from benchmarks.stage.greetings import client_hello
from overlay.ids import LinkClass, Peer
from overlay.limits import LIMITS, Limits
from overlay.links import accepting
from overlay.machine import (
    LinkDown,
    LinkRefused,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from overlay.wire.frames import (
    EVENT,
    HEADER,
    LENGTH_COVERS,
    MAX_CONTROL_BYTES,
    PROTOCOL_VERSION,
    frame,
)
from overlay.wire.greetings import GREETINGS, Hello, Refusal, Welcome
from tests.helpers.stations import (
    CODEC,
    Beat,
    Overlay,
    Puppet,
    Station,
    answer,
    hello,
)

HANDSHAKE_SECONDS = LIMITS.handshake_seconds

# Refused links


@pytest.mark.parametrize(
    ("expected", "overlay_name", "refuses", "reason"),
    [
        (None, "other", {}, Refused.OTHER_OVERLAY),
        ("d" * 32, "chordal", {}, Refused.OTHER_PEER),
        (None, "chordal", {"a" * 32: Refused.UID_IN_USE}, Refused.UID_IN_USE),
    ],
)
async def test_a_refusal_reaches_the_caller(
    overlay: Overlay,
    autojump_clock: MockClock,
    expected: str | None,
    overlay_name: str,
    refuses: dict[str, Refused],
    reason: Refused,
) -> None:
    a, b = await overlay.station("a"), await overlay.station("b", overlay_name)
    b.machine.refuses |= refuses
    a.do(OpenLink(b.peer.url, expected))
    await trio.sleep(0.1)
    (refused,) = a.took(LinkRefused)
    assert (refused.url, refused.uid, refused.reason) == (b.peer.url, expected, reason)
    assert (a.linked, b.linked) == ([], [])
    assert b.machine.inputs == []


async def test_one_does_not_link_to_oneself(overlay: Overlay, autojump_clock: MockClock) -> None:
    a = await overlay.station("a")
    a.do(OpenLink(a.peer.url))
    await trio.sleep(0.1)
    (refused,) = a.took(LinkRefused)
    assert refused.reason is Refused.SELF
    assert a.linked == []


async def test_after_a_call_that_failed_the_next_is_made(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    b = Puppet("b").peer
    for _ in range(2):
        a.do(OpenLink(b.url, b.uid))
        await trio.sleep(0.1)
    assert [r.reason for r in a.took(LinkRefused)] == [Refused.UNREACHABLE] * 2


async def test_the_caller_has_a_say_too(overlay: Overlay, autojump_clock: MockClock) -> None:
    a, b = await overlay.station("a"), await overlay.station("b")
    a.machine.refuses[b.peer.uid] = Refused.UID_IN_USE
    a.do(OpenLink(b.peer.url))
    await trio.sleep(5)
    (refused,) = a.took(LinkRefused)
    assert refused.reason is Refused.UID_IN_USE
    assert (a.linked, b.linked) == ([], [])


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (hello(version=PROTOCOL_VERSION + 1), Refused.OTHER_VERSION),
        (hello(link_class=LinkClass.SECURE), Refused.NOT_AUTHENTICATED),
        (hello(incarnation=2), Refused.NOT_CHORDAL),
        (hello(peer=Peer("c" * 32, 1, "http://c.test:9470")), Refused.NOT_CHORDAL),
    ],
)
async def test_a_refused_caller_is_told_and_closed(
    overlay: Overlay, autojump_clock: MockClock, greeting: Hello, reason: Refused
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    await stream.send_all(GREETINGS.encode(greeting))
    refusal = await answer(stream)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
    with trio.fail_after(HANDSHAKE_SECONDS):
        assert await stream.receive_some() == b""
    assert a.machine.inputs == []


@pytest.mark.parametrize(
    ("greeting", "reason", "why"),
    [
        (hello(overlay="other"), Refused.OTHER_OVERLAY, "this broker belongs to 'chordal', not"),
        (hello(version=PROTOCOL_VERSION + 1), Refused.OTHER_VERSION, "speaks protocol"),
        (hello(expected="d" * 32), Refused.OTHER_PEER, "another broker listens here now"),
        (hello(link_class=LinkClass.SECURE), Refused.NOT_AUTHENTICATED, "needs TLS"),
        (hello(peer=None), Refused.NOT_AUTHENTICATED, "update its library"),
        (hello(incarnation=2), Refused.NOT_CHORDAL, "contradicts itself"),
        (hello(peer=Peer("c" * 32, 1, "http://c")), Refused.NOT_CHORDAL, "gives no URL"),
        (hello(), Refused.UID_IN_USE, "uid_in_use"),
        (hello(), Refused.BUSY, "0 links"),
    ],
)
async def test_refused_greetings_are_counted_each_time_and_logged_once_a_minute(
    overlay: Overlay, autojump_clock: MockClock, greeting: Hello, reason: Refused, why: str
) -> None:
    a = await overlay.station("a", limits=Limits(links=int(reason is not Refused.BUSY)))
    if reason is Refused.UID_IN_USE:
        a.machine.refuses["c" * 32] = reason

    async def greet() -> None:
        stream = await overlay.dial(a)
        await stream.send_all(GREETINGS.encode(greeting))
        refusal = await answer(stream)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is reason

    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await greet()
        await trio.sleep(60)
        await greet()
    assert a.driver.counters[f"greetings_refused_{reason.value}"] == 6
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warnings] == ["greeting refused"] * 2
    assert [line.get("more_since_last_line") for line in warnings] == [None, 4]
    assert all(why in line["why"] for line in warnings)


@pytest.mark.parametrize(
    "reason",
    [
        Refused.DUPLICATE,
        Refused.SELF,
        Refused.LEAVING,
        Refused.DAMPED,
    ],
)
async def test_refusals_of_daily_work_are_counted_and_not_logged(
    overlay: Overlay, autojump_clock: MockClock, reason: Refused
) -> None:
    a = await overlay.station("a")
    a.machine.refuses["c" * 32] = reason
    stream = await overlay.dial(a)
    with structlog.testing.capture_logs() as lines:
        await stream.send_all(GREETINGS.encode(hello()))
        assert isinstance(await answer(stream), Refusal)
    assert a.driver.counters[f"greetings_refused_{reason.value}"] == 1
    assert [line for line in lines if line["log_level"] != "debug"] == []


async def test_what_is_secret_of_a_refused_client_is_not_logged(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    with structlog.testing.capture_logs() as lines:
        greeting = hello(peer=None, overlay="other", token="s3cret", secret=b"s3cret" * 4)
        await stream.send_all(GREETINGS.encode(greeting))
        assert isinstance(await answer(stream), Refusal)
    assert [line["event"] for line in lines] == ["greeting refused"]
    assert "s3cret" not in str(lines)


async def test_a_called_stranger_that_does_not_answer(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")

    async def mute(stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, "chordal://mute.test:1", mute)
        a.do(OpenLink("chordal://mute.test:1"))
        await trio.sleep(10)
        (refused,) = a.took(LinkRefused)
        assert refused.reason is Refused.TIMEOUT
        nursery.cancel_scope.cancel()


async def test_a_called_broker_that_is_not_whom_the_caller_wanted(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")

    async def careless(stream: trio.abc.Stream) -> None:
        await stream.send_all(GREETINGS.encode(Welcome(Puppet("c").peer, 1, PROTOCOL_VERSION)))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, "chordal://b.test:9470", careless)
        a.do(OpenLink("chordal://b.test:9470", "b" * 32))
        await trio.sleep(5)
        (refused,) = a.took(LinkRefused)
        assert refused.reason is Refused.OTHER_PEER
        assert a.linked == []
        nursery.cancel_scope.cancel()


async def test_a_called_broker_that_gives_no_url_of_its_own(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")

    async def unnamed(stream: trio.abc.Stream) -> None:
        await stream.send_all(
            GREETINGS.encode(Welcome(Peer("b" * 32, 1, "http://b"), 1, PROTOCOL_VERSION))
        )
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, "chordal://b.test:9470", unnamed)
        a.do(OpenLink("chordal://b.test:9470", "b" * 32))
        await trio.sleep(5)
        (refused,) = a.took(LinkRefused)
        assert refused.reason is Refused.NOT_CHORDAL
        assert "gives no URL" in refused.detail
        assert a.linked == []
        nursery.cancel_scope.cancel()


async def test_a_call_to_what_is_no_url_fails_and_no_more(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """As others may name it: in a view, say."""
    a = await overlay.station("a")
    urls = ("http://b", "b", "chordal://[/]", "chordal://b,c:1", "chordal://b:99999")
    for url in urls:
        a.do(OpenLink(url, "b" * 32))
        await trio.sleep(1)
    found = [(refused.url, refused.reason) for refused in a.took(LinkRefused)]
    assert found == [(url, Refused.UNREACHABLE) for url in urls]
    assert a.driver.counters["internal_errors"] == 0


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", GREETINGS.encode(hello())])
async def test_a_called_stranger_that_speaks_something_else(
    overlay: Overlay, autojump_clock: MockClock, reply: bytes
) -> None:
    a = await overlay.station("a")

    async def speak(stream: trio.abc.Stream) -> None:
        await stream.send_all(reply)

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, "chordal://web.test:1", speak)
        a.do(OpenLink("chordal://web.test:1"))
        await trio.sleep(5)
        (refused,) = a.took(LinkRefused)
        assert refused.reason is Refused.NOT_CHORDAL
        nursery.cancel_scope.cancel()


# Strangers who call


@pytest.mark.parametrize(
    "words",
    [
        bytes(range(255, 155, -1)),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"",
        GREETINGS.encode(hello())[:20],
        HEADER.pack(2**32 - 1, PROTOCOL_VERSION, 0),
        HEADER.pack(64, PROTOCOL_VERSION + 1, 0) + bytes(62),
        frame(EVENT, b"an event before any greeting"),
        GREETINGS.encode(Welcome(Puppet("c").peer, 1)),
        CODEC.encode(Beat(1)),
    ],
    ids=["noise", "http", "silence", "half", "huge", "version", "event", "welcome", "no greeting"],
)
async def test_a_stranger_is_dropped_in_time_and_harms_nobody(
    overlay: Overlay, autojump_clock: MockClock, words: bytes
) -> None:
    a, b = await overlay.linked()
    stream = await overlay.dial(a)
    await stream.send_all(words)
    with trio.fail_after(HANDSHAKE_SECONDS + 0.1):
        assert await stream.receive_some() == b""
    assert a.driver.counters["strangers_dropped"] == 1
    a.do(Send(b.peer.uid, Beat(1)))
    await trio.sleep(5)
    assert b.took(MessageReceived) == [MessageReceived(a.peer.uid, Beat(1))]
    assert (a.took(LinkDown), b.took(LinkDown)) == ([], [])


async def test_what_a_stranger_announces_is_no_longer_than_a_greeting_may_be(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """A frame that is fine from a peer is dropped at its header, and not when time is over."""
    a = await overlay.station("a")
    long, fits = await overlay.dial(a), await overlay.dial(a)
    body = MAX_CONTROL_BYTES - LENGTH_COVERS
    for stream, size in ((long, body + 1), (fits, body)):
        await stream.send_all(frame(EVENT, bytes(size))[: HEADER.size])
    with trio.fail_after(HANDSHAKE_SECONDS / 2):
        assert await long.receive_some() == b""
    assert a.driver.counters["strangers_not_chordal"] == 1
    assert a.driver.counters["strangers_dropped"] == 1
    with trio.fail_after(HANDSHAKE_SECONDS):
        assert await fits.receive_some() == b""
    assert a.driver.counters["strangers_too_slow"] == 1


async def test_a_stranger_that_drips_is_dropped_in_time(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    start = trio.current_time()

    async def drip() -> None:
        for byte in GREETINGS.encode(hello()):
            await stream.send_all(bytes([byte]))
            await trio.sleep(HANDSHAKE_SECONDS / 10)

    with pytest.raises(trio.BrokenResourceError):
        await drip()
    assert trio.current_time() - start <= 1.2 * HANDSHAKE_SECONDS
    assert a.machine.inputs == []


async def test_of_too_many_strangers_the_oldest_makes_room(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.station("a", limits=Limits(strangers=3)), await overlay.station("b")
    strangers = [await overlay.dial(a) for _ in range(3)]
    assert a.driver.counters["strangers_evicted"] == 0
    b.do(OpenLink(a.peer.url))
    await trio.sleep(0.1)
    assert a.linked == ["b"], "silent strangers keep nobody out"
    assert await strangers[0].receive_some() == b""
    assert a.driver.counters["strangers_evicted"] == 1
    await strangers[1].send_all(GREETINGS.encode(hello()))
    assert isinstance(await answer(strangers[1]), Welcome), "the others still have their time"


async def crowd(overlay: Overlay, a: Station, size: int) -> None:
    """Have so many strangers connect at one moment, who say nothing and stay."""
    async with trio.open_nursery() as nursery:
        for _ in range(size):
            nursery.start_soon(overlay.dial, a)
    await trio.sleep(0.1)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where those who connect come from, one after the other; then from nowhere again."""
    coming: list[str] = []

    def next_host(stream: trio.abc.Stream) -> str | None:
        return coming.pop(0) if coming else None

    monkeypatch.setattr(accepting, "remote_host", next_host)
    return coming


async def test_of_one_address_fewer_may_wait_and_others_lose_nothing_by_it(
    overlay: Overlay, autojump_clock: MockClock, hosts: list[str]
) -> None:
    a = await overlay.station("a", limits=Limits(strangers=9, strangers_per_host=3))
    hosts += ["10.0.0.1"] * 2 + ["10.0.0.2"] * 3
    others, few = [await overlay.dial(a) for _ in range(2)], await overlay.dial(a)
    await overlay.dial(a)
    await overlay.dial(a)
    await trio.sleep(0.1)
    assert a.driver.counters["strangers_evicted"] == 0
    hosts += ["10.0.0.2"]
    await overlay.dial(a)
    with trio.fail_after(1):
        assert await few.receive_some() == b"", "the oldest of that address, not of all"
    assert a.driver.counters["strangers_evicted"] == 1
    assert a.driver.strangers == 5
    await others[0].send_all(GREETINGS.encode(hello()))
    assert isinstance(await answer(others[0]), Welcome)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [(Limits(strangers=64), 64), (Limits(strangers=64, strangers_per_host=32), 32), (LIMITS, 256)],
    ids=["all", "one address", "as promised"],
)
async def test_strangers_are_bounded_when_many_come_at_once(
    overlay: Overlay, autojump_clock: MockClock, hosts: list[str], limits: Limits, kept: int
) -> None:
    a = await overlay.station("a", limits=limits)
    hosts += ["10.0.0.1"] * 300
    await crowd(overlay, a, 300)
    assert a.driver.strangers == kept
    assert a.driver.counters["strangers_evicted"] == 300 - kept
    await crowd(overlay, a, 1)  # of no address
    assert a.driver.strangers == min(kept + 1, limits.strangers)
    await trio.sleep(HANDSHAKE_SECONDS)
    assert a.driver.strangers == 0
    hosts += ["10.0.0.1"] * kept
    await crowd(overlay, a, kept)
    assert a.driver.strangers == kept, "those who went are not counted any more"


async def test_more_connections_than_allowed_are_turned_away(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.station("a", limits=Limits(connections=1)), await overlay.station("b")
    b.do(OpenLink(a.peer.url))
    await trio.sleep(0.1)
    stranger = await overlay.dial(a)
    assert await stranger.receive_some() == b""
    assert a.driver.counters["connections_turned_away"] == 1
    assert a.linked == ["b"]


async def test_links_are_bounded_and_one_may_be_made_anew(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.station("a", limits=Limits(links=1)), await overlay.station("b")
    b.do(OpenLink(a.peer.url))
    await trio.sleep(0.1)
    a.needed = (b.peer.uid,)
    stream = await overlay.dial(a)
    await stream.send_all(GREETINGS.encode(hello()))
    assert await answer(stream) == Refusal(Refused.BUSY, "this broker has 1 link")
    assert a.linked == ["b"]
    again = await overlay.dial(a)
    await again.send_all(GREETINGS.encode(hello(Puppet("b"), serial=9, expected=a.peer.uid)))
    assert isinstance(await answer(again), Welcome)


async def test_of_links_that_nobody_needs_a_silent_one_makes_room_first(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a", limits=Limits(links=3))
    b, d, e = [await overlay.station(name) for name in "bde"]
    b.do(OpenLink(a.peer.url, a.peer.uid))
    await trio.sleep(0.1)
    e.do(OpenLink(a.peer.url, a.peer.uid))  # it says at once which events it has
    await trio.sleep(0.1)
    silent = await overlay.dial(a)
    await silent.send_all(GREETINGS.encode(hello()))
    assert isinstance(await answer(silent), Welcome)
    a.needed = (b.peer.uid,)
    d.do(OpenLink(a.peer.url, a.peer.uid))
    await trio.sleep(0.1)
    assert a.linked == ["b", "d", "e"], "e is older than c, but has said something"
    assert a.driver.counters["links_made_room"] == 1
    assert [down.uid for down in a.took(LinkDown)] == ["c" * 32]
    again = await overlay.dial(a)
    await again.send_all(GREETINGS.encode(hello(serial=9)))
    await trio.sleep(0.1)
    assert a.linked == ["b", "c", "d"], "of those that speak the one of longest standing"


async def test_a_client_is_handed_to_the_layer_above(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    greeting = client_hello()
    await (await overlay.dial(a)).send_all(GREETINGS.encode(greeting))
    await trio.sleep(0.1)
    assert a.clients == [greeting]
    assert a.machine.inputs == []
