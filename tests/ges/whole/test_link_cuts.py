"""Whole brokers in virtual time whose links are cut: each event once, in order, and soon."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.memory_streams import MemoryStream
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription, connect
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.links.link import Link
from overlay.net.connection import Connection
from overlay.net.tls_stream import TlsStream
from overlay.security.identity import Role
from tests.ges.conftest import Issue
from tests.helpers.secured import is_meshed

EVERY = 0.002  #: seconds between two events of a publisher
LINGERING = 8  #: seconds until a new ring has no link any more that is of no use
PATIENCE = 20  #: seconds for all of them


def cut_links(broker: Broker, uid: str | None = None) -> None:
    """Cut the links of a broker, or those to one other; what is under way on them is lost."""
    for link in list(broker.driver.links.values()):
        if uid in (None, link.peer.uid):
            assert isinstance(link.connection.stream, MemoryStream)
            link.connection.stream.cut()


def cut_clients(broker: Broker) -> None:
    for session in list(broker.clients._sessions):
        connection = session.connection
        assert isinstance(connection, Connection)
        assert isinstance(connection.stream, MemoryStream)
        connection.stream.cut()


class Traffic:
    """Publishers and subscribers at every broker; what each subscriber got, by publisher."""

    def __init__(self) -> None:
        self.published = 0
        self.got: list[dict[str, list[int]]] = []

    async def publish(self, client: Client, count: int) -> None:
        for number in range(count):
            await client.publish("t", b"%d" % number)
            await trio.sleep(EVERY)
        await client.flush()

    async def take(self, events: Subscription, total: int) -> None:
        mine: dict[str, list[int]] = {}
        self.got.append(mine)
        for _ in range(total):
            event = await anext(events)
            mine.setdefault(event.publisher, []).append(int(event.payload))

    async def flow(
        self, brokers: list[Broker], publishers: list[Broker], count: int, harm: Callable[[], None]
    ) -> None:
        """Publish, harm something every now and then, and take all that is to come."""
        async with AsyncExitStack() as stack:
            subscriptions = []
            for broker in brokers:
                client = await stack.enter_async_context(attach(broker))
                subscriptions.append(await stack.enter_async_context(client.subscribe("t")))
            clients = [await stack.enter_async_context(attach(b)) for b in publishers]
            with trio.fail_after(count * EVERY + 30):
                async with trio.open_nursery() as nursery:
                    for events in subscriptions:
                        nursery.start_soon(self.take, events, count * len(clients))
                    async with trio.open_nursery() as inner:
                        for client in clients:
                            inner.start_soon(self.publish, client, count)
                        while inner.child_tasks:
                            await trio.sleep(0.37)
                            harm()
        expected = {client.uid: list(range(count)) for client in clients}
        assert all(mine == expected for mine in self.got)


async def test_the_status_says_what_is_kept_for_a_lost_link(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await brokers.ring_of(2)
    payload = bytes(1000)
    async with (
        attach(a) as client,
        attach(b) as other,
        other.subscribe("t") as events,
    ):
        assert (await client.status()).kept_bytes == 0
        weather.latency_ms[_ports(a, b)] = 200  # calls take a while
        cut_links(a)
        await client.publish("t", payload, confirm=True)
        assert len(payload) < (await client.status()).kept_bytes < 2 * len(payload)
        assert (await anext(events)).payload == payload
        assert (await client.status()).kept_bytes == 0


async def test_publishers_whose_connection_is_cut(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await brokers.ring_of(2)
    await Traffic().flow([b], [a, a], 600, lambda: cut_clients(a))


async def test_a_link_that_falls_silent_is_given_up_and_what_it_swallowed_goes_another_way(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Half-open: nothing comes through, and nothing breaks."""
    a, b, c = await brokers.ring_of(3)
    silenced: list[Link] = []

    def harm() -> None:
        link = a.driver.links.get((b.node.peer.uid, LinkClass.NORMAL))
        if link is not None and not silenced:
            silenced.append(link)
            stream = link.connection.stream
            assert isinstance(stream, MemoryStream)
            stream.swallow()

    await Traffic().flow([b, c], [a], 2000, harm)
    assert silenced
    assert a.driver.links.get((b.node.peer.uid, LinkClass.NORMAL)) is not silenced[0]
    assert b.stack.ordering.lost == 0


@pytest.mark.parametrize("normal_as_well", [False, True])
async def test_secure_events_on_links_that_are_cut(
    normal_as_well: bool, brokers: Brokers, issue: Issue
) -> None:
    """Over TLS, in real time: what a cut link has not brought over is sent again, over TLS.

    So it is where the normal link beside it is cut as well: of two brokers, as of three one could
    pass on what is given up. There the next cut waits until the links are back, however long that
    takes on a busy machine.
    """
    size = 2 if normal_as_well else 3
    ring = await brokers.ring_of(size, *(issue(Role.BROKER) for _ in range(size)))
    await until(lambda: is_meshed(ring))
    me, rng, total, got = issue(Role.CLIENT), random.Random(2), 1000, list[int]()

    async def cut() -> None:
        while True:
            await trio.sleep(0.4)
            if normal_as_well:
                await until(lambda: all(b.node.secure_links for b in ring))
            for link in list(rng.choice(ring).driver.links.values()):
                stream = link.connection.stream
                if isinstance(stream, TlsStream):
                    await stream.transport_stream.aclose()
                elif normal_as_well and link.link_class is LinkClass.NORMAL:
                    await stream.aclose()

    async def publish(client: Client) -> None:
        for number in range(total):
            await client.publish("t", b"%d" % number, link_class=LinkClass.SECURE, park=10)
            await trio.sleep(EVERY)
        await client.flush()

    with trio.fail_after(40):
        async with (
            connect(ring[0].secure_url or "", identity=me) as here,
            connect(ring[1].secure_url or "", identity=me) as there,
            there.subscribe("t", link_class=LinkClass.SECURE) as events,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(cut)
            nursery.start_soon(publish, here)
            while len(got) < total:
                got.append(int((await anext(events)).payload))
            nursery.cancel_scope.cancel()
    assert got == list(range(total))
    counters = sum((b.driver.counters for b in ring), Counter[str]())
    # Beside a normal link that is up, a secure one that is lost leaves the tables at once.
    assert counters["events_sent_again" if normal_as_well else "events_parked_sent"] > 0
    assert counters["events_unacknowledged_dropped"] == counters["events_without_link"] == 0
    assert [b.stack.ordering.lost for b in ring] == [0] * size


@pytest.mark.parametrize("link_is_dark", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_a_broker_that_leaves_just_after_its_links_were_cut(
    link_is_dark: bool, autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """What its links have not brought over it sends on before it goes, or others get it for it.

    Dark: to one of the others no link comes back, until long after it has gone.
    """
    ring = await brokers.ring_of(12)
    leaver, other = await publisher_and_server(ring)
    rest = [broker for broker in ring if broker is not leaver]
    for broker in rest:
        weather.latency_ms[_ports(leaver, broker)] = 20
    async with taking(rest, 100) as got:
        async with attach(leaver, reattach=False) as publisher:
            for number in range(100):
                await publisher.publish("t", b"%d" % number)
            await publisher.flush()
            cut_links(leaver)
            await until(lambda: leaver.stack.keeps_events)
        assert not any(got), "all are still under way"
        if link_is_dark:
            weather.latency_ms[_ports(leaver, other)] = 60_000
        await brokers.dismiss(leaver)
    assert got == [list(range(100))] * len(rest)
    assert [broker.stack.ordering.lost for broker in rest] == [0] * len(rest)


@pytest.mark.parametrize(
    "pause", [0, *(pytest.param(pause, marks=pytest.mark.soak) for pause in (0.05, 0.1))]
)
async def test_two_neighbours_leave_and_those_beside_them_are_far_apart(
    pause: float, autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """Until these two are linked nobody serves the second, but the first knows of it."""
    ring = await brokers.ring_of(9)
    first, *leavers, second = in_order(ring)[:4]
    await trio.sleep(LINGERING)
    assert second.node.peer.uid not in first.node.ring.linked
    weather.latency_ms[_ports(first, second)] = 40
    rest = [broker for broker in ring if broker not in leavers]
    async with (
        taking(rest, 300) as got,
        attach(first, reattach=False) as publisher,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(Traffic().publish, publisher, 300)
        for leaver in leavers:
            nursery.start_soon(brokers.dismiss, leaver)
            await trio.sleep(pause)
    assert got == [list(range(300))] * len(rest)
    assert [broker.stack.ordering.lost for broker in rest] == [0] * len(rest)


@asynccontextmanager
async def taking(ring: list[Broker], total: int) -> AsyncIterator[list[list[int]]]:
    """Subscribe at each; at the end, wait until all have got as many events."""
    got = [list[int]() for _ in ring]

    async def take(events: Subscription, mine: list[int]) -> None:
        while len(mine) < total:
            mine.append(int((await anext(events)).payload))

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(attach(b, reattach=False)) for b in ring]
        taken = [await stack.enter_async_context(client.subscribe("t")) for client in clients]
        stack.enter_context(trio.fail_after(PATIENCE))
        async with trio.open_nursery() as nursery:
            for events, mine in zip(taken, got, strict=True):
                nursery.start_soon(take, events, mine)
            yield got


def in_order(ring: list[Broker]) -> list[Broker]:
    """Return brokers from left to right, from some place on."""

    def place(broker: Broker) -> int:
        assert broker.node.ring.member is not None
        return broker.node.ring.member.ring_id

    return sorted(ring, key=place)


def _ports(*pair: Broker) -> frozenset[int]:
    return frozenset(parse_url(broker.url).port for broker in pair)


async def publisher_and_server(ring: list[Broker]) -> tuple[Broker, Broker]:
    """Return a broker, and one by which its events go to others, once links stay as they are."""
    await trio.sleep(LINGERING)
    brokers = {b.node.peer.uid: b for b in ring}
    for a in ring:
        gateways = a.node.gateways
        for slot in gateways.uids:
            hop = gateways.tables[LinkClass.NORMAL].next_hop(slot)
            if slot != gateways.slot and hop != slot:
                return a, brokers[gateways.uids[hop]]
    raise AssertionError("all brokers are linked to all")
