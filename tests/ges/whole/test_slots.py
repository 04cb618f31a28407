"""One address cannot take all slots of a broker: tools, certificates and newcomers still come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.greetings import client_hello
from benchmarks.stage.waiting import until
from ges.access.token_file import issue_token
from ges.broker import Broker
from ges.client import connect
from ges.operations.walk import walk_ring
from ges.wire.asked import Ask
from ges.wire.client_messages import Attached, KeepAlive, StatusRequest, Subscribe
from ges.wire.status import Status
from overlay.address import parse_url
from overlay.ids import SECRET_BYTES, LinkClass, Peer, nanos
from overlay.limits import Limits
from overlay.machine import Message, Refused
from overlay.security.identity import Role
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello, Refusal, Welcome
from ring.config import LOCAL, PROFILES
from tests.ges.conftest import Issue
from tests.ges.sessions.test_clients import Raw

DEADLINE_SECONDS = 20
ATTACKER = "127.0.0.2"
LONG_HOST = ".".join(["h" * 60] * 4)
ANSWERS = MessageCodec(Attached, Refusal, Welcome)


async def greet(broker: Broker, hello: Hello, host: str = ATTACKER) -> trio.SocketStream:
    address = parse_url(broker.url)
    stream = await trio.open_tcp_stream(address.host, address.port, local_address=host)
    await stream.send_all(GREETINGS.encode(hello))
    return stream


def client(number: int, *, only_looks: bool = False) -> Hello:
    hello = client_hello(number.to_bytes(2, "big") * (SECRET_BYTES // 2))
    return msgspec.structs.replace(hello, only_looks=only_looks)


def false_broker(number: int, host: str = "127.0.0.1") -> Hello:
    peer = Peer(f"{number:032x}", 1, f"chordal://{host}:{number + 1}")
    return Hello("chordal", PROTOCOL_VERSION, peer.uid, 1, peer, LinkClass.NORMAL, None, 1)


@asynccontextmanager
async def crowd(broker: Broker, hellos: list[Hello]) -> AsyncIterator[list[Message]]:
    """Have them all greet from one address, and stay; yields what they were answered."""
    async with AsyncExitStack() as stack:
        answers: list[Message] = []
        for hello in hellos:
            stream = await stack.enter_async_context(await greet(broker, hello))
            with trio.fail_after(DEADLINE_SECONDS):
                answers.append(await first_of(stream))
        yield answers


async def first_of(stream: trio.abc.Stream) -> Message:
    """Return what a client was answered."""
    reader = FrameReader()
    while (found := reader.next_frame()) is None:
        reader.feed(await stream.receive_some())
    return ANSWERS.decode(found[1])


async def test_one_address_leaves_slots_to_others(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(clients=8, clients_of_one=3))
    async with crowd(broker, [client(number) for number in range(4)]) as answers:
        assert all(isinstance(answer, Attached) for answer in answers[:3])
        assert isinstance(answers[3], Refusal)
        assert answers[3].reason is Refused.BUSY
        async with attach(broker) as other:
            await other.publish("t", b"", confirm=True)
        assert broker.driver.counters["clients_turned_away"] == 1


async def test_who_is_refused_is_told_for_whose_sake(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(clients=8, clients_of_one=2))
    async with attach(broker):
        with structlog.testing.capture_logs() as lines:
            async with crowd(broker, [client(number) for number in range(3)]) as answers:
                assert answers[2] == Refusal(
                    Refused.BUSY, "this broker serves 2 clients of address 127.0.0.2"
                )
    (line,) = [line for line in lines if line["event"] == "too many clients"]
    assert line["of"] == "address 127.0.0.2"


async def test_tools_are_answered_where_all_slots_are_taken(brokers: Brokers) -> None:
    """Also at the address of those who have taken them."""
    broker = await brokers.start(limits=Limits(clients=4, clients_of_one=0))
    await brokers.start()
    await brokers.whole()
    async with AsyncExitStack() as stack:
        for number in range(4):
            stream = await greet(broker, client(number), host="127.0.0.1")
            await stack.enter_async_context(stream)
        await until(lambda: broker.clients.size == 4)
        with trio.fail_after(DEADLINE_SECONDS):
            walk = await walk_ring(broker.url)
        assert len(walk.brokers) == 2
        assert walk.findings == ()
        assert broker.clients.size == 4, "those that only look are not counted"


async def test_places_of_visitors_cannot_be_kept(brokers: Brokers) -> None:
    limits = Limits(visitors=8, visitors_of_one=2, visit_seconds=30)
    broker = await brokers.start(limits=limits)
    async with crowd(broker, [client(number, only_looks=True) for number in range(5)]):
        assert broker.driver.counters["visitors_evicted"] == 3
        async with connect(broker.url, only_looks=True) as tool:
            assert (await tool.status()).clients == 0


@pytest.mark.parametrize(
    "limits", [Limits(visit_seconds=0.2), Limits(visit_seconds=60)], ids=["short", "long"]
)
async def test_a_visitor_goes_when_its_time_is_over(brokers: Brokers, limits: Limits) -> None:
    broker = await brokers.start(limits=limits)
    async with await greet(broker, client(1, only_looks=True)) as stream:
        raw = Raw(stream)
        if limits.visit_seconds < 1:
            assert await raw.is_cut_off()
        else:
            await raw.say(KeepAlive(1, answer=False), StatusRequest())
            await raw.hear()
            await raw.hear()
            assert await raw.hear() == KeepAlive(1, answer=True)


async def test_who_only_looks_does_nothing_else(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with await greet(broker, client(1, only_looks=True)) as stream:
        raw = Raw(stream)
        await raw.say(Subscribe(1, Ask("#")))
        assert await raw.is_cut_off()
    async with await greet(broker, client(2, only_looks=True)) as stream:
        raw = Raw(stream)
        await raw.publish(1)
        assert await raw.is_cut_off()
    assert broker.driver.counters["protocol_errors"] == 2
    assert broker.driver.counters["internal_errors"] == 0


async def test_some_slots_are_for_certificates_and_tokens(
    brokers: Brokers, issue: Issue, tmp_path: Path
) -> None:
    token = issue_token(tmp_path / "tokens", "line-1", 0, None)
    broker = await brokers.start(
        identity=issue(Role.BROKER),
        tokens=tmp_path / "tokens",
        limits=Limits(clients=16, clients_of_one=0, clients_reserved=2),
    )
    assert broker.secure_url is not None
    async with crowd(broker, [client(number) for number in range(16)]) as answers:
        assert [isinstance(answer, Attached) for answer in answers] == [True] * 14 + [False] * 2
        with trio.fail_after(DEADLINE_SECONDS):
            async with (
                connect(broker.secure_url, identity=issue(Role.CLIENT)),
                connect(broker.url, token=token),
            ):
                assert broker.clients.size == 16


async def test_false_links_of_one_address_keep_no_newcomer_out(brokers: Brokers) -> None:
    """Neither one from elsewhere, nor one of that address: links of less use make room."""
    limits = Limits(links=40, links_of_one=10, links_per_second=0)
    first = await brokers.start(limits=limits)
    false = [false_broker(number) for number in range(60)]
    with trio.fail_after(DEADLINE_SECONDS):
        async with crowd(first, false) as answers:
            assert all(isinstance(answer, Welcome) for answer in answers)
            assert len(first.driver.links) == 10
            assert first.driver.counters["links_made_room"] == 50
            await brokers.start(limits=limits)
            await brokers.whole()


async def test_false_links_of_the_same_address_keep_no_newcomer_out(brokers: Brokers) -> None:
    limits = Limits(links=12, links_of_one=0, links_per_second=0)
    first = await brokers.start(limits=limits)
    with trio.fail_after(DEADLINE_SECONDS):
        async with AsyncExitStack() as stack:
            for number in range(20):
                stream = await greet(first, false_broker(number), host="127.0.0.1")
                await stack.enter_async_context(stream)
            await until(lambda: len(first.driver.links) >= 10)
            await brokers.start(limits=limits)
            await brokers.whole()
            # What the ring stands on does not make room for those who come later.
            for number in range(20, 60):
                stream = await greet(first, false_broker(number), host="127.0.0.1")
                await stack.enter_async_context(stream)
            await until(lambda: first.driver.counters["links_made_room"] >= 40)
            assert brokers.findings() == []


async def test_a_broker_with_many_links_is_looked_at_as_any_other(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status outgrows a frame, and so would end the connection."""
    # A slow machine has all of these links at once, too: none is given up while others come.
    patient = replace(LOCAL, linger_ns=nanos(3600), chord_refresh_ns=nanos(3600))
    monkeypatch.setitem(PROFILES, "local", patient)
    broker = await brokers.start(limits=Limits(links_per_second=0))
    await brokers.start()
    await brokers.whole()
    async with crowd(broker, [false_broker(number, LONG_HOST) for number in range(250)]):
        async with attach(broker) as ordinary:
            assert len((await ordinary.status()).links) > 250
        await brokers.whole()  # a busy broker may be late, and held for dead for a moment
        walk = await walk_ring(broker.url)
        assert (len(walk.brokers), walk.findings) == (2, ())
        async with await greet(broker, client(1)) as stream:  # one that knows no pages
            raw = Raw(stream)
            await raw.say(StatusRequest())
            while not isinstance(told := await raw.hear(), Status):
                assert told is not None
            assert told.more > 0
            assert any("left" in link.roles for link in told.links)


async def test_a_flood_of_links_of_one_address_is_refused_and_brokers_from_elsewhere_link(
    brokers: Brokers,
) -> None:
    """A link costs a broker much more than to refuse one."""
    limits = Limits(links=40, links_of_one=10, links_per_second=0.001)
    first = await brokers.start(limits=limits)
    await brokers.start(limits=limits)
    await brokers.whole()
    async with crowd(first, [false_broker(number) for number in range(30)]) as answers:
        assert [type(answer) for answer in answers] == [Welcome] * 10 + [Refusal] * 20
        told = "too many new links of address 127.0.0.2; try again later"
        assert answers[10] == Refusal(Refused.BUSY, told)
        assert first.driver.counters["links_too_fast"] == 20
        await brokers.start(limits=limits)
        await brokers.whole()
