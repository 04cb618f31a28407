"""What all clients, or all links, hold together is bounded: the one that holds most goes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
import structlog
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.greetings import client_hello
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, keepalive
from overlay.ids import SECRET_BYTES, LinkClass, Peer
from overlay.limits import Limits
from overlay.links.memory_limit import LOOK_SECONDS, MemoryLimit
from overlay.shares import NOWHERE, Source
from overlay.wire.frames import EVENT, FRAGMENT, HEADER, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Hello
from tests.ges.routing.test_express import ports
from tests.ges.sessions.test_clients import event, raw

DEADLINE_SECONDS = 20
PAYLOAD = bytes(100_000)
HALF_FRAME = HEADER.pack(1024 * 1024, PROTOCOL_VERSION, EVENT) + bytes(512 * 1024)
#: The same in slices, all of which are whole.
SLICE = frame(FRAGMENT, b"\0" + bytes(64 * 1024))
HALF_SLICED = 8 * SLICE
SLOW = 1000  #: bytes a second


@dataclass(eq=False)
class Held:
    """A connection, and its holder, as far as the limit looks at them."""

    held_bytes: int
    overflowed: bool = False
    source: Source = NOWHERE
    connection: Held = field(init=False)

    def __post_init__(self) -> None:
        self.connection = self

    def give_up(self) -> None:
        self.overflowed = True


def given_up(holders: list[Held]) -> list[int]:
    return sorted(holder.held_bytes for holder in holders if holder.overflowed)


async def test_many_connections_of_one_source_go_before_a_larger_one_of_another(
    autojump_clock: MockClock,
) -> None:
    stranger = Source("address 10.0.0.1")
    theirs = [Held(10, source=stranger) for _ in range(20)]
    honest = [Held(40, source=Source("address 10.0.0.2")), Held(35)]
    MemoryLimit([*theirs[:10], *honest, *theirs[10:]], lambda: 130).look()
    assert given_up(honest) == []
    assert len(given_up(theirs)) == 15  # the others hold 50


async def test_those_that_hold_most_go_until_the_rest_is_within_the_limit(
    autojump_clock: MockClock,
) -> None:
    holders = [Held(size) for size in (1, 50, 7, 30, 30, 2)]
    limit = MemoryLimit(holders, lambda: 40)
    limit.look()
    assert given_up(holders) == [30, 50]
    holders.append(Held(39))
    limit.look()
    assert given_up(holders) == [30, 50], "not so soon again"
    await trio.sleep(LOOK_SECONDS)
    limit.look()
    assert given_up(holders) == [30, 39, 50], "what is given up does not count"


def test_who_is_needed_goes_last() -> None:
    holders = [Held(size) for size in (10, 20, 30)]
    limit = MemoryLimit(holders, lambda: 1000, is_needed=lambda holder: holder.held_bytes == 30)
    assert limit.held_bytes == 60
    limit.shed(45)
    assert given_up(holders) == [20]
    limit.shed(35)
    assert given_up(holders) == [10, 20]
    limit.shed(29)
    assert given_up(holders) == [10, 20, 30]
    assert limit.held_bytes == 0


async def test_within_the_limit_nobody_goes(autojump_clock: MockClock) -> None:
    holders = [Held(20), Held(20)]
    MemoryLimit(holders, lambda: 40).look()
    assert given_up(holders) == []


async def test_slow_clients_together_hold_no_more_than_their_bound(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is far from its own limit."""
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 60.0)  # what is slow comes in large pieces
    limit = 4 * 1024 * 1024
    broker = await brokers.start(limits=Limits(client_bytes_total=limit))
    async with (
        attach(broker, reattach=False) as publisher,
        trio.open_nursery() as nursery,
    ):
        slow = [await nursery.start(hang_on, broker, weather) for _ in range(4)]
        largest = 0
        for _ in range(60):
            await publisher.publish("t", PAYLOAD, confirm=True)
            await trio.sleep(LOOK_SECONDS)
            held = sum(session.held_bytes for session in broker.clients._sessions)
            largest = max(largest, held)
        assert largest <= limit + 5 * len(PAYLOAD)
        await until(lambda: broker.driver.counters["clients_too_slow"] >= 3)
        assert len(slow) == 4
        assert broker.clients.size >= 1, "the publisher is served as before"
        nursery.cancel_scope.cancel()


async def hang_on(
    broker: Broker, weather: Weather, *, task_status: trio.TaskStatus[Client]
) -> None:
    """Subscribe to all, and take next to nothing."""
    async with attach(broker) as client, client.subscribe("#"):
        weather.rate[ports(broker, client)] = SLOW
        task_status.started(client)
        await trio.sleep_forever()


async def test_unfinished_frames_of_all_clients_are_bounded(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(client_bytes_total=1280 * 1024))
    async with raw(broker) as first, raw(broker) as second, raw(broker) as third:
        with trio.fail_after(DEADLINE_SECONDS):
            for client in (first, second, third):
                await client.stream.send_all(HALF_FRAME)
            await until(lambda: broker.clients.size == 2)
        assert broker.driver.counters["clients_too_slow"] == 1


@pytest.mark.parametrize("half", [HALF_FRAME, HALF_SLICED], ids=["whole", "sliced"])
async def test_unfinished_frames_are_looked_at_as_they_grow(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
    half: bytes,
) -> None:
    """In a second, when all queues are looked at, thousands could send half a frame."""
    monkeypatch.setattr("ges.broker.broker.READ_SECONDS", 1000.0)
    broker = await brokers.start(limits=Limits(client_bytes_total=1280 * 1024))
    for number in range(3):
        await trio.sleep(2 * LOOK_SECONDS)
        url = f"chordal://127.0.0.1:{20_000 + number}"
        stream = await weather.network.connect(url, broker.url)
        hello = client_hello(bytes([number]) * SECRET_BYTES)
        await stream.send_all(GREETINGS.encode(hello) + half)
    await trio.sleep(2 * LOOK_SECONDS)
    assert broker.driver.counters["clients_too_slow"] == 1


@pytest.mark.parametrize("uids", ["cde", "ccc"], ids=["of three", "of one, that calls again"])
@pytest.mark.parametrize(
    ("half", "more"), [(HALF_FRAME, bytes(1000)), (HALF_SLICED, SLICE)], ids=["whole", "sliced"]
)
async def test_unfinished_frames_of_brokers_are_bounded(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
    uids: str,
    half: bytes,
    more: bytes,
) -> None:
    """Also on links that part, as a newer one has come. The one with most is given up."""
    monkeypatch.setattr("ges.broker.broker.READ_SECONDS", 1000.0)
    broker = await brokers.start(limits=Limits(link_bytes_total=1280 * 1024))
    streams = []
    with structlog.testing.capture_logs() as lines:
        for number, name in enumerate(uids):
            await trio.sleep(2 * LOOK_SECONDS)
            peer = Peer(name * 32, 1, f"chordal://127.0.0.1:{20_000 + ord(name)}")
            stream = await weather.network.connect(peer.url, broker.url)
            streams.append(stream)
            await stream.send_all(broker_hello(peer, 1 + number, broker) + half)
            if number == 0:
                await stream.send_all(more)
            if number < 2:
                await trio.sleep(2 * LOOK_SECONDS)
                assert broker.driver.counters["links_given_up"] == 0
        with trio.fail_after(2 * LOOK_SECONDS):
            while await streams[0].receive_some():
                pass
    assert broker.driver.counters["links_given_up"] == 1
    [line] = [line for line in lines if "given up" in line["event"]]
    assert line["log_level"] == "warning"
    assert line["peer"] == uids[0] * 8


def broker_hello(peer: Peer, serial: int, called: Broker) -> bytes:
    uid = called.node.peer.uid
    version, life = PROTOCOL_VERSION, peer.incarnation
    return GREETINGS.encode(
        Hello("chordal", version, peer.uid, life, peer, LinkClass.NORMAL, uid, serial)
    )


async def test_queues_to_brokers_are_looked_at_as_they_grow(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many publishers each may fill them a little more before it is held back."""
    monkeypatch.setattr("ges.broker.broker.READ_SECONDS", 1000.0)
    limit = 2 * 1024 * 1024
    first = await brokers.start(limits=Limits(link_bytes_total=limit))
    second = await brokers.start()
    await brokers.whole()
    async with AsyncExitStack() as stack:
        publishers = [await stack.enter_async_context(attach(first)) for _ in range(40)]
        weather.rate[ports(first, second)] = 1024 * 1024
        (link,) = [x for (_, c), x in first.driver.links.items() if c is LinkClass.NORMAL]
        for publisher in publishers:
            await publisher.publish("t", PAYLOAD)
            await trio.sleep(LOOK_SECONDS / 4)
        assert link.connection.overflowed


async def test_what_brokers_do_not_acknowledge_is_bounded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is held for it as for what is queued, though all of it has been sent."""
    monkeypatch.setattr(
        "overlay.links.acknowledgements.Acknowledgements.note", lambda acks, link: None
    )
    # So that nobody looks at the memory before all has been sent.
    monkeypatch.setattr("overlay.queues.pace.CROWD_BYTES", 64 * 1024 * 1024)
    limit = 2 * 1024 * 1024
    first = await brokers.start(limits=Limits(link_bytes_total=limit))
    await brokers.start()
    await brokers.whole()
    (link,) = [x for (_, c), x in first.driver.links.items() if c is LinkClass.NORMAL]
    for sequence in range(1, 51):  # all of them are sent: the window takes more
        link.connection.send(frame(EVENT, event(sequence, payload=PAYLOAD)), 1)
    await until(lambda: not link.connection.queued_bytes)
    assert link.held_bytes > limit or link.connection.overflowed
    await until(lambda: link.connection.overflowed)


async def test_queues_to_all_brokers_are_bounded(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """The link with the longest queue is given up, long before it has reached its own limit."""
    limit = 2 * 1024 * 1024
    first = await brokers.start(limits=Limits(link_bytes_total=limit))
    second = await brokers.start()
    await brokers.whole()
    weather.rate[ports(first, second)] = 1024 * 1024
    (link,) = [x for (_, c), x in first.driver.links.items() if c is LinkClass.NORMAL]
    for sequence in range(1, 101):
        link.connection.send(frame(EVENT, event(sequence, payload=PAYLOAD)), 1)
    assert link.held_bytes > limit
    await until(lambda: link.connection.overflowed)
