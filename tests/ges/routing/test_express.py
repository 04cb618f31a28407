"""Express events: over express links, before all that waits, and with an account of their time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client
from overlay.address import parse_url
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.net.connection import Connection
from overlay.wire.fragments import SLICE_BYTES

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS
DEADLINE_SECONDS = 20


def ports(*ends: Broker | Client) -> frozenset[int]:
    """Return the ports of two ends, as the weather between them is given."""
    urls = (
        end.url if isinstance(end, Broker) else end._attachment._transport._url  # type: ignore[attr-defined]
        for end in ends
    )
    return frozenset(parse_url(url).port for url in urls)


async def pair_of(brokers: Brokers) -> tuple[Broker, Broker]:
    """Return two brokers with an express link between them that is in use."""
    a, b = await brokers.start(), await brokers.start()
    await until(lambda: in_range(a, b) and in_range(b, a))
    return a, b


def in_range(a: Broker, b: Broker) -> bool:
    uid = b.node.peer.uid
    return (uid, EXPRESS) in a.driver.links and a.node.survey.express_range.is_inside(uid)


async def test_an_express_event_takes_the_express_link(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await pair_of(brokers)
    link = a.driver.links[b.node.peer.uid, EXPRESS].connection
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        before = link.sent_bytes
        await here.publish("t", b"x" * 5000, link_class=EXPRESS, budget=30.0)
        event = await anext(events)
    assert (event.link_class, event.payload) == (EXPRESS, b"x" * 5000)
    assert event.express_path
    assert not event.late
    assert event.budget_us == 30_000_000
    assert 0 < event.spent_us < 30_000_000
    assert event.hops == 1
    assert link.sent_bytes - before > 5000
    assert a.status().counters.get("express_over_normal", 0) == 0


async def test_without_an_express_link_it_goes_over_the_normal_one_and_says_so(
    brokers: Brokers,
) -> None:
    a = await brokers.start(express_ms=0)
    b = await brokers.start(express_ms=0)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", b"1", link_class=EXPRESS)
        event = await anext(events)
    assert event.link_class is EXPRESS
    assert not event.express_path
    assert a.status().counters["express_over_normal"] == 1


async def test_a_demoted_link_takes_none(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = await pair_of(brokers)
    monkeypatch.setattr(a.stack.express, "_is_express", lambda uid: False)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", b"1", link_class=EXPRESS)
        assert not (await anext(events)).express_path


async def test_an_event_beyond_its_budget_is_late_and_counted_once(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
) -> None:
    a, b = await pair_of(brokers)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", b"1", link_class=EXPRESS, budget=1e-6)
        event = await anext(events)
        await here.publish("t", b"2", link_class=EXPRESS, budget=60)
        assert not (await anext(events)).late
    assert event.late
    assert event.spent_us > event.budget_us == 1
    counted = [broker.status().counters.get("express_misses", 0) for broker in (a, b)]
    assert sum(counted) == 1
    by_link = sum(link.late for broker in (a, b) for link in broker.status().links)
    assert by_link == counted[1], "what is found late where it is published came over no link"


async def test_the_way_from_the_client_counts_and_who_finds_an_event_late_first_counts_it(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three ways of 7 ms: from the client, between the brokers, and to the subscriber."""
    monkeypatch.setattr(Connection, "one_way_us", 7000)
    a, b = await pair_of(brokers)

    def misses() -> list[int]:
        return [broker.status().counters.get("express_misses", 0) for broker in (a, b)]

    def late() -> list[dict[LinkClass, int]]:
        statuses = (broker.status() for broker in (a, b))
        return [{link.link_class: link.late for link in s.links if link.late} for s in statuses]

    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", link_class=EXPRESS, budget=0.016)
        event = await anext(events)
        assert 21_000 <= event.spent_us < 22_000
        assert misses() == [0, 0], "no broker has found it late"
        await here.publish("t", link_class=EXPRESS, budget=0.012)
        assert (await anext(events)).late
        assert (misses(), late()) == ([0, 1], [{}, {EXPRESS: 1}])
        await here.publish("t", link_class=EXPRESS, budget=0.006)
        assert (await anext(events)).late
    assert (misses(), late()) == ([1, 1], [{}, {EXPRESS: 1}]), "it was late before it left a"


async def test_a_link_that_has_become_slow_makes_events_late_whatever_the_kernel_has_seen(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its smallest round trip may be minutes old, or lead to a proxy only."""
    monkeypatch.setattr(Connection, "one_way_us", 20)
    a, b = [await brokers.start(express_ms=5000) for _ in range(2)]
    await until(lambda: in_range(a, b) and in_range(b, a))
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", link_class=EXPRESS, budget=0.02)
        assert not (await anext(events)).late
        weather.latency_ms[ports(a, b)] = 60
        await trio.sleep(15)
        await here.publish("t", link_class=EXPRESS, budget=0.02)
        event = await anext(events)
    assert (event.late, event.express_path) == (True, True)
    assert 50_000 < event.spent_us < 80_000
    assert {link.link_class: link.late for link in b.status().links if link.late} == {EXPRESS: 1}


async def test_a_budget_is_as_the_broker_has_it_if_nobody_says(brokers: Brokers) -> None:
    a = await brokers.start(express_budget_ms=123)
    async with attach(a) as client, client.subscribe("t") as events:
        await client.publish("t", b"1", link_class=EXPRESS)
        assert (await anext(events)).budget_us == 123_000


async def test_what_waits_in_a_queue_counts_as_time(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Ten events of a tenth of a second each; no clocks are compared."""
    a, b = await pair_of(brokers)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        weather.rate[ports(a, b)] = 200_000
        began = trio.current_time()
        for _ in range(10):
            await here.publish("t", bytes(20_000), link_class=EXPRESS, budget=0.45)
        got = []
        for _ in range(10):
            event = await anext(events)
            got.append((event, trio.current_time() - began))
    for event, took in got:
        assert event.express_path
        # What the last write takes is in no queue; and the round trip, measured on the same link,
        # has a part of its queue in it.
        assert took - 0.15 < event.spent_us / 1e6 < took + 0.35
        assert event.late == (event.spent_us > 450_000)
    assert [event.late for event, _ in got] == sorted(event.late for event, _ in got)
    assert not got[0][0].late
    assert got[-1][0].late


async def test_express_overtakes_what_waits_for_a_slow_client(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """One connection carries both to a client; four seconds of normal events wait for it."""
    broker = await brokers.start()
    async with (
        attach(broker) as slow,
        attach(broker) as other,
        slow.subscribe("#") as events,
    ):
        weather.rate[ports(broker, slow)] = 1_000_000
        for _ in range(4):
            await other.publish("bulk", bytes(1_000_000), confirm=True)
        began = trio.current_time()
        await other.publish("urgent", b"!", link_class=EXPRESS)
        arrived: dict[str, float] = {}
        for _ in range(5):
            event = await anext(events)
            arrived.setdefault(event.topic, trio.current_time() - began)
    assert list(arrived) == ["urgent", "bulk"]
    assert arrived["urgent"] < 2.5 * SLICE_BYTES / 1_000_000, "the write under way, and one slice"
    assert arrived["bulk"] > 0.4


async def test_express_overtakes_what_a_client_has_queued_to_publish(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    broker = await brokers.start()
    async with (
        attach(broker) as there,
        attach(broker) as here,
        there.subscribe("#") as events,
    ):
        weather.rate[ports(broker, here)] = 1_000_000
        await here.publish("bulk", bytes(1_000_000))
        await here.publish("urgent", b"!", link_class=EXPRESS)
        assert [(await anext(events)).topic for _ in range(2)] == ["urgent", "bulk"]


async def test_each_once_and_in_order_beside_normal_ones(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
) -> None:
    a, b = await pair_of(brokers)
    count = 2000
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        for number in range(count):
            for link_class in (NORMAL, EXPRESS):
                payload = number.to_bytes(4, "big") * (1 + number % 50)
                await here.publish("t", payload, link_class=link_class, budget=None)
        found: dict[LinkClass, list[int]] = {NORMAL: [], EXPRESS: []}
        with trio.fail_after(DEADLINE_SECONDS):
            for _ in range(2 * count):
                event = await anext(events)
                found[event.link_class].append(int.from_bytes(event.payload[:4], "big"))
    assert found == {NORMAL: [*range(count)], EXPRESS: [*range(count)]}


async def test_an_express_link_that_breaks_costs_no_more_than_what_was_under_way(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
) -> None:
    a, b = await pair_of(brokers)
    async with attach(a) as here, attach(b) as there, there.subscribe("t") as events:
        await here.publish("t", b"1", link_class=EXPRESS)
        assert (await anext(events)).express_path
        a.driver.links[b.node.peer.uid, EXPRESS].connection.abort()
        await until(lambda: (b.node.peer.uid, EXPRESS) not in a.driver.links)
        await here.publish("t", b"2", link_class=EXPRESS)
        event = await anext(events)
        assert (event.payload, event.express_path) == (b"2", False)


async def test_subscriptions_for_one_class(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with (
        attach(broker) as client,
        client.subscribe("t", link_class=EXPRESS) as express,
        client.subscribe("t", link_class=NORMAL) as normal,
        client.subscribe("t") as every,
    ):
        for link_class in (NORMAL, EXPRESS):
            await client.publish("t", b"1", link_class=link_class, confirm=True)
        assert {(await anext(every)).link_class for _ in range(2)} == {NORMAL, EXPRESS}
        assert (await anext(express)).link_class is EXPRESS
        assert (await anext(normal)).link_class is NORMAL
        assert not express._events
        assert not normal._events


@pytest.mark.parametrize("budget", [0, -1, 1e-9, 5000])
async def test_a_budget_that_is_none(brokers: Brokers, budget: float) -> None:
    broker = await brokers.start()
    async with attach(broker) as client:
        with pytest.raises(ConfigError, match="budget"):
            await client.publish("t", link_class=EXPRESS, budget=budget)


async def test_a_budget_is_for_express_events(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with attach(broker) as client:
        with pytest.raises(ConfigError, match="express"):
            await client.publish("t", budget=1)


# Who is read first


async def test_express_links_are_read_first_while_they_are_up(brokers: Brokers) -> None:
    a, b = [await brokers.start(express_ms=5000) for _ in range(2)]
    key = b.node.peer.uid, EXPRESS
    await until(lambda: key in a.driver.links)
    number = a.driver.links[key].connection.fileno
    assert a.driver.precedence._numbers == {number}
    a.driver.links[key].connection.abort()
    await until(lambda: key not in a.driver.links or a.driver.links[key].since_ns > 0)
    brokers.kill(b)
    await until(lambda: not a.driver.precedence._numbers)


async def test_a_client_is_read_first_while_it_sends_hardly_anything_but_express_events(
    brokers: Brokers,
) -> None:
    broker = await brokers.start()
    first = broker.driver.precedence._numbers
    async with attach(broker) as client:
        await client.publish("t", b"1", link_class=EXPRESS, confirm=True)
        await until(lambda: len(first) == 1)
        await client.status()
        assert len(first) == 1, "a question between them changes nothing"
        for _ in range(100):
            await client.publish("t", bytes(1000))
        await client.flush()
        await until(lambda: not first)
        await client.publish("t", b"1", link_class=EXPRESS, confirm=True)
        await until(lambda: len(first) == 1)
    await until(lambda: not first)


async def test_normal_readers_give_way(brokers: Brokers) -> None:
    """Both flow through one broker; whoever is normal has waited for express ones."""
    broker = await brokers.start()
    async with (
        attach(broker) as bulk,
        attach(broker) as urgent,
        trio.open_nursery() as nursery,
    ):

        async def flood() -> None:
            while True:
                await bulk.publish("t", bytes(1000))

        nursery.start_soon(flood)
        with trio.fail_after(DEADLINE_SECONDS):
            while not (await urgent.status()).counters["readers_gave_way"]:
                await urgent.publish("t", b"!", link_class=EXPRESS, confirm=True)
        nursery.cancel_scope.cancel()
