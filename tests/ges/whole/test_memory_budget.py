"""A broker's memory is one budget: whatever strangers make it hold, the honest are served on."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from benchmarks.campaigns.attacks import peer_hello
from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker, BrokerConfig
from ges.broker.memory_budget import MIN_BYTES
from ges.broker.memory_pools import FLOWS_SHARE, PORTION
from ges.client import keepalive
from ges.delivery.subscriber import Subscriber
from ges.operations.metrics import families_of, text_of
from ges.wire.asked import Ask
from ges.wire.client_messages import Subscribe, Subscribed
from ges.wire.event_runs import EventRun
from ges.wire.events import NO_DUTY
from overlay.address import parse_url
from overlay.errors import ConfigError
from overlay.links.link import Link
from overlay.queues.pace import CROWD_BYTES
from overlay.wire.frames import EVENT, frame
from overlay.wire.greetings import GREETINGS
from tests.ges.sessions.test_clients import Raw, event, raw
from tests.ges.whole.test_memory_limit import hang_on
from tests.ges.whole.test_shares import stranger, subscribe
from tests.ges.whole.test_slots import client, greet
from tests.helpers.runs import under_way

DEADLINE_SECONDS = 30
LINKS = 80
INVENTED = 30_000  #: publishers


async def link(
    weather: Weather, broker: Broker, rng: random.Random, number: int
) -> trio.abc.Stream:
    """Greet as a broker that reads next to nothing."""
    port = 20_000 + number
    weather.rate[frozenset((port, parse_url(broker.url).port))] = 1000.0
    stream = await weather.network.connect(f"chordal://127.0.0.1:{port}", broker.url)
    await stream.send_all(GREETINGS.encode(peer_hello(rng)))
    return stream


def held(broker: Broker) -> int:
    return sum(broker.parts.budget.held.values())


async def test_many_short_queues_are_too_much_together(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None is so long that anybody would wait for it."""
    monkeypatch.setattr("ges.broker.broker.READ_SECONDS", 1000.0)
    monkeypatch.setattr(keepalive, "SILENCE_SECONDS", 60.0)  # what is slow comes in large pieces
    broker = await brokers.start(memory=MIN_BYTES)
    limit, most = broker.parts.budget.limit, 0
    async with attach(broker, reattach=False) as publisher, trio.open_nursery() as nursery:
        for _ in range(40):
            await nursery.start(hang_on, broker, weather)
        for _ in range(6):
            await publisher.publish("t", bytes(90_000), confirm=True)
            await trio.sleep(0.06)
            most = max(most, held(broker))
        longest = 6 * 90_000
        assert longest < CROWD_BYTES
        assert most <= limit + 40 * 90_000
        assert broker.driver.counters["clients_too_slow"] > 0
        nursery.cancel_scope.cancel()


async def test_a_long_run_for_many_clients_is_taken_in_portions(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one read of a publisher would be queued for all of them before anybody looks."""
    broker = await brokers.start(memory=MIN_BYTES)
    portion = round(broker.parts.budget.limit * PORTION)
    taken: list[EventRun] = []
    publish = broker.stack.publish

    def note(client: Subscriber, run: EventRun) -> None:
        taken.append(run)
        publish(client, run)

    monkeypatch.setattr(broker.stack, "publish", note)
    async with AsyncExitStack() as stack:
        for number in range(20):
            stream = await stack.enter_async_context(await greet(broker, client(number)))
            await Raw(stream).say(Subscribe(1, Ask("#")))
        await until(lambda: broker.stack.deliveries.subscriptions == 20)
        events = [frame(EVENT, event(n, payload=bytes(1000))) for n in range(1, 201)]
        async with raw(broker) as publisher:
            with trio.fail_after(DEADLINE_SECONDS):
                await publisher.stream.send_all(b"".join(events))
                await until(lambda: sum(run.count for run in taken) == 200)
    longest = max(run.bounds[-1] - run.bounds[0] for run in taken)
    assert longest * 20 <= portion + 20 * len(events[0])
    numbers = [run.head.sequence + n for run in taken for n in range(run.count)]
    assert numbers == list(range(1, 201))


async def test_filters_are_refused_before_a_client_is_cut_off_for_them(brokers: Brokers) -> None:
    """By six addresses, each of which has a share of its own."""
    broker = await brokers.start(memory=MIN_BYTES)
    deep = "/".join(["x"] * 40)
    async with AsyncExitStack() as stack:
        refused: list[str] = []
        for host in range(2, 8):
            raw_ = await stack.enter_async_context(stranger(broker, host, f"127.0.0.{host}"))
            wanted = [Subscribe(number, Ask(f"{number}/{deep}")) for number in range(100)]
            refused.append((await subscribe(raw_, *wanted) or [""])[0])
        assert refused[0].startswith("address 127.0.0.2 may have ")
        assert "bytes of memory for filters are taken, and the rest is not for" in refused[-1]
        broker.parts.budget.look()
        assert broker.driver.counters["memory_relieved"] == 0
        assert broker.clients.size == 6


async def test_a_cache_goes_before_any_client(brokers: Brokers) -> None:
    broker = await brokers.start(memory=MIN_BYTES)
    budget, audience = broker.parts.budget, broker.stack.deliveries.audience
    async with raw(broker) as client, attach(broker) as publisher:
        for number in range(1, 1025):
            await client.say(Subscribe(number, Ask("#")))
            assert await client.hear() == Subscribed(number)
        for number in range(4000):
            await publisher.publish(f"{'x' * 900}/{number}")
            if number % 100 == 99:
                await publisher.flush()
            if broker.driver.counters["memory_relieved"]:
                break
        assert broker.driver.counters["memory_relieved"] > 0, budget.held
        assert audience.cached_bytes < budget.limit
        assert broker.clients.size == 2


async def test_of_kept_events_the_oldest_go(brokers: Brokers) -> None:
    broker = await brokers.start(memory=MIN_BYTES)
    (pool,) = [pool for pool in broker.parts.budget.pools if pool.name == "kept_events"]
    kept = broker.stack.replays.kept
    async with attach(broker) as publisher, publisher.subscribe("t"):
        for number in range(20):
            await publisher.publish("t", bytes(10_000), confirm=True)
            await trio.sleep(0.005)
            assert kept.end == number + 1
        assert pool.held_bytes() > 200_000
        pool.shed(pool.held_bytes())
        assert kept.first == 0
        pool.shed(100_000)
        assert pool.held_bytes() <= 100_000
        assert kept.first > 0


async def test_the_status_and_the_metrics_say_what_is_held(brokers: Brokers) -> None:
    broker = await brokers.start(memory=MIN_BYTES)
    async with attach(broker) as client:
        status = await client.status()
    assert status.memory is not None
    assert status.memory.budget == MIN_BYTES
    assert status.memory.limit < MIN_BYTES
    assert status.memory.held["clients"] > 0
    text = text_of(status.uid, families_of(status))
    assert f'chordal_memory_budget_bytes{{broker="{status.uid}"}} {MIN_BYTES}' in text
    assert f'chordal_memory_held_bytes{{broker="{status.uid}",what="clients"}}' in text


def test_too_small_a_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="too little; give 16M or more"):
        Broker(BrokerConfig(memory=MIN_BYTES - 1))


async def test_links_that_the_ring_stands_on_go_last(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await brokers.start(memory=MIN_BYTES)
    other = await brokers.start()
    await brokers.whole()
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(GREETINGS.encode(peer_hello(random.Random(1))))
        await until(lambda: len({uid for uid, _ in broker.driver.links}) == 2)
        uid = other.node.peer.uid
        held_bytes = property(lambda link: 1000 if link.peer.uid == uid else 10)
        monkeypatch.setattr(Link, "held_bytes", held_bytes)
        broker.parts.link_limit.shed(broker.parts.link_limit.held_bytes - 1)
        await until(lambda: broker.driver.counters["links_given_up"] == 1)
        assert {uid for uid, _ in broker.driver.links} == {uid}


async def test_publishers_that_are_invented_are_forgotten_again(brokers: Brokers) -> None:
    """A false broker sends one event of each of very many."""
    broker, rng = await brokers.start(memory=MIN_BYTES), random.Random(1)
    limit, most = broker.parts.budget.limit, 0
    counters = broker.driver.counters
    async with (
        await greet(broker, peer_hello(rng)) as stranger,
        attach(broker) as publisher,
        attach(broker) as subscriber,
        subscriber.subscribe("t") as events,
        trio.open_nursery() as nursery,
    ):
        await publisher.publish("t", b"first", confirm=True)
        invented = (event(1, publisher=rng.randbytes(16), topic=b"x") for _ in range(INVENTED))
        frames = [frame(EVENT, under_way(each, NO_DUTY)) for each in invented]
        nursery.start_soon(stranger.send_all, b"".join(frames))
        with trio.fail_after(DEADLINE_SECONDS):
            while counters["events_received"] < INVENTED:
                await trio.sleep(0.01)
                most = max(most, broker.parts.budget.held["flows"])
        await publisher.publish("t", b"last")
        with trio.fail_after(DEADLINE_SECONDS):
            assert [(await anext(events)).payload for _ in range(2)] == [b"first", b"last"]
    assert counters["memory_relieved"] > 0
    assert FLOWS_SHARE * limit < most < 1.25 * limit
