"""Real brokers, two of which cannot connect: events reach everybody all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from overlay.address import Address, parse_url
from overlay.errors import ConnectionFailed
from overlay.ids import LinkClass
from overlay.net.transport import TcpTransport, Wire
from overlay.security.identity import Role
from overlay.trace_schema import Verdict
from tests.ges.conftest import Issue
from tests.helpers.secured import is_beside_secure, is_meshed

DEADLINE_SECONDS = 30
EVENTS = 200  #: of each publisher

IsCut = Callable[[int, int], bool]


class Cuts:
    """Which calls between two brokers fail, by their ports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_cut: IsCut = lambda caller, called: False
        connect_anyhow = TcpTransport.connect

        async def connect_if(transport: TcpTransport, address: Address) -> Wire:
            own = [listener.socket.getsockname()[1] for listener in transport._listeners]
            if own and self.is_cut(own[0], address.port):  # a client listens nowhere
                await trio.sleep(0.05)
                raise ConnectionFailed(address.url, "cut off by the test")
            return await connect_anyhow(transport, address)

        monkeypatch.setattr(TcpTransport, "connect", connect_if)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Cuts:
    return Cuts(monkeypatch)


def port(broker: Broker) -> int:
    return parse_url(broker.url).port


def in_order(brokers: Brokers) -> list[Broker]:
    def place(broker: Broker) -> int:
        assert broker.node.ring.member is not None
        return broker.node.ring.member.ring_id

    return sorted(brokers.alive, key=place)


def uid(broker: Broker) -> str:
    return broker.node.peer.uid


def go_round(a: Broker, b: Broker) -> bool:
    """Say whether two brokers reach each other through others alone."""
    ways = uid(b) in a.node.ring.detours, uid(a) in b.node.ring.detours
    normal = LinkClass.NORMAL
    links = (uid(b), normal) in a.driver.links, (uid(a), normal) in b.driver.links
    return all(ways) and not any(links)


def told(broker: Broker) -> set[str]:
    """Return to whom a broker tells that it has a normal link."""
    state = broker.node.gateways.states.get(uid(broker))
    links = state.links if state is not None else ()
    return {link.uid for link in links if link.link_class is LinkClass.NORMAL}


def came_over(brokers: Brokers, link_class: LinkClass) -> int:
    """Count the events that have come over links of a class."""
    links = (link for broker in brokers.alive for link in broker.driver.links.values())
    arrivals = (link.arrivals for link in links if link.link_class is link_class)
    return sum(each.incoming.count for each in arrivals if each is not None)


async def flows_in_order_once(brokers: Brokers) -> None:
    """Let every broker's client publish; every broker's client must get all, once, in order."""
    total = EVENTS * len(brokers.alive)
    got: dict[Broker, dict[str, list[int]]] = {}

    async with AsyncExitStack() as stack:
        clients = {b: await stack.enter_async_context(connect(b.url)) for b in brokers.alive}
        streams = {
            b: await stack.enter_async_context(client.subscribe("load/#"))
            for b, client in clients.items()
        }

        async def publish(broker: Broker) -> None:
            for number in range(EVENTS):
                await clients[broker].publish("load/x", f"{uid(broker)} {number}".encode())

        async def take(broker: Broker) -> None:
            seen = got[broker] = defaultdict(list)
            for _ in range(total):
                name, number = (await anext(streams[broker])).payload.decode().split()
                seen[name].append(int(number))

        with trio.fail_after(DEADLINE_SECONDS):
            async with trio.open_nursery() as nursery:
                for broker in brokers.alive:
                    nursery.start_soon(take, broker)
                    nursery.start_soon(publish, broker)
    everything = {uid(b): list(range(EVENTS)) for b in brokers.alive}
    assert all(seen == everything for seen in got.values())


async def test_neighbours_whose_link_fails_go_round_it_and_come_back(
    brokers: Brokers, cuts: Cuts
) -> None:
    await brokers.ring_of(5)
    a, b = in_order(brokers)[1:3]
    pair = {port(a), port(b)}
    cuts.is_cut = lambda caller, called: {caller, called} == pair
    await a.driver.links[uid(b), LinkClass.NORMAL].connection.stream.aclose()
    await until(lambda: go_round(a, b))
    assert brokers.findings() == []
    await until(lambda: uid(b) not in told(a))  # no path of events leads over the link
    await flows_in_order_once(brokers)
    assert go_round(a, b)

    async with connect(a.url) as client:
        [ruling] = (await client.status()).verdicts
    assert (ruling.uid, ruling.verdict) == (uid(b), Verdict.LINK_FAILED)
    assert ruling.path == a.node.ring.detours[uid(b)]
    assert ruling.witnesses != ()

    cuts.is_cut = lambda caller, called: False
    await until(lambda: not a.node.ring.detours and not b.node.ring.detours)
    await until(lambda: uid(b) in told(a) and uid(a) in told(b))
    await flows_in_order_once(brokers)
    assert brokers.findings() == []


async def test_a_secure_event_goes_over_secure_links_alone(
    brokers: Brokers, cuts: Cuts, issue: Issue
) -> None:
    await brokers.ring_of(5, *(issue(Role.BROKER) for _ in range(5)))
    await until(lambda: is_meshed(brokers.alive))
    a, b = in_order(brokers)[1:3]
    pair = {port(a), port(b)}
    cuts.is_cut = lambda caller, called: {caller, called} == pair
    await a.driver.links[uid(b), LinkClass.NORMAL].connection.stream.aclose()
    await until(lambda: go_round(a, b))
    await until(lambda: not is_beside_secure(a))
    identity = issue(Role.CLIENT)
    async with (
        connect(b.secure_url or "", identity=identity) as there,
        there.subscribe("a") as events,
        connect(a.secure_url or "", identity=identity) as here,
    ):
        await here.publish("a", b"secret", link_class=LinkClass.SECURE)
        with trio.fail_after(DEADLINE_SECONDS):
            event = await anext(events)
    assert (event.payload, event.link_class) == (b"secret", LinkClass.SECURE)
    assert came_over(brokers, LinkClass.SECURE) > 0
    assert came_over(brokers, LinkClass.NORMAL) == 0
