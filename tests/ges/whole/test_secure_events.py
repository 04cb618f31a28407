"""Secure events go over TLS between certified brokers, to certified clients, or nowhere."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers, secure_uids
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription, connect
from ges.errors import ConnectionLost, PublishRefused
from ges.wire.client_messages import CLIENT_CODEC, Attached
from ges.wire.delivered import Event
from overlay.address import parse_url
from overlay.errors import ConfigError, NoTlsError
from overlay.ids import LinkClass, Peer
from overlay.links.first_message import read_greeting
from overlay.net.connection import BROKEN
from overlay.net.tls_stream import TlsStream
from overlay.net.transport import TcpTransport
from overlay.security.identity import Role, load_identity
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Hello
from tests.ges.conftest import Issue
from tests.ges.sessions.test_clients import event
from tests.helpers.secured import is_meshed

DEADLINE_SECONDS = 20
SECURE = LinkClass.SECURE

#: All that OpenSSL has for TLS 1.3 by default (RFC 8446, appendix B.4).
TLS_CIPHERS = (
    "TLSv1.3 TLS_AES_128_GCM_SHA256",
    "TLSv1.3 TLS_AES_256_GCM_SHA384",
    "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256",
)


async def next_of(subscription: Subscription) -> Event:
    with trio.fail_after(DEADLINE_SECONDS):
        return await anext(subscription)


def url(broker: Broker) -> str:
    assert broker.secure_url is not None
    return broker.secure_url


async def meshed(ring: list[Broker]) -> None:
    """Wait until all brokers know of secure links between all that are neighbours."""
    await until(lambda: is_meshed(ring))


async def reason(client: Client, topic: str = "a") -> str:
    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(PublishRefused) as caught:
        await client.publish(topic, b"secret", link_class=SECURE, confirm=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_from_any_secure_broker_to_any_other(brokers: Brokers, issue: Issue) -> None:
    ring = await brokers.ring_of(5, *(issue(Role.BROKER) for _ in range(5)))
    await meshed(ring)
    identity = issue(Role.CLIENT)
    async with trio.open_nursery() as nursery:

        async def receive(broker: Broker, *, task_status: trio.TaskStatus[None]) -> None:
            async with (
                connect(url(broker), identity=identity) as client,
                client.subscribe("a", link_class=SECURE) as events,
            ):
                task_status.started()
                got = [await next_of(events) for _ in range(30)]
                assert [event.payload for event in got] == [b"%d" % number for number in range(30)]
                assert {event.link_class for event in got} == {SECURE}

        for broker in ring:
            await nursery.start(receive, broker)
        async with connect(url(ring[2]), identity=identity) as publisher:
            for number in range(30):
                await publisher.publish("a", b"%d" % number, link_class=SECURE)
            await publisher.flush()
    forwarded = sum(broker.driver.counters["events_forwarded"] for broker in ring)
    assert forwarded == 30 * (len(ring) - 1)


async def test_a_plain_subscriber_never_sees_a_secure_event(brokers: Brokers, issue: Issue) -> None:
    ring = await brokers.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    await meshed(ring)
    a, b = ring
    async with (
        connect(url(a), identity=issue(Role.CLIENT)) as publisher,
        connect(a.url) as plain_here,
        connect(b.url) as plain_there,
        connect(url(b), identity=issue(Role.CLIENT)) as secured,
        plain_here.subscribe("#") as here,
        plain_there.subscribe("#") as there,
        secured.subscribe("#") as both,
        secured.subscribe("#", link_class=LinkClass.NORMAL) as normal,
    ):
        await publisher.publish("a", b"secret", link_class=SECURE, confirm=True)
        assert (await next_of(both)).payload == b"secret"
        await publisher.publish("a", b"open", confirm=True)
        for subscription in (here, there, both, normal):
            assert (await next_of(subscription)).payload == b"open"


async def test_without_an_all_secure_path_the_event_is_refused(
    brokers: Brokers, issue: Issue
) -> None:
    """One who wants it is where TLS does not lead: that broker is named, and nobody gets it."""
    ring = await brokers.ring_of(3, *(issue(Role.BROKER) for _ in range(3)))
    await meshed(ring)
    a, b, c = ring
    async with (
        connect(url(a), identity=issue(Role.CLIENT)) as publisher,
        connect(url(b), identity=issue(Role.CLIENT)) as reader,
        connect(url(c), identity=issue(Role.CLIENT)) as far,
        reader.subscribe("a") as events,
        far.subscribe("a"),
    ):
        _cut_tls(c, ring)
        slot = a.node.gateways.slots[c.node.peer.uid]
        await until(lambda: a.node.gateways.tables[SECURE].next_hop(slot) < 0)
        await publisher.publish("other", b"for nobody there", link_class=SECURE, confirm=True)
        text = await reason(publisher)
        assert f"no all-secure path to broker {c.node.peer.uid[:8]}" in text
        await publisher.publish("a", b"open", confirm=True)
        assert (await next_of(events)).payload == b"open"


def _cut_tls(broker: Broker, ring: list[Broker]) -> None:
    """Break the secure links of one broker, and let no new ones be made."""
    for other in ring:
        other.node._secure_links._wanted = lambda uid: None
    for (_, link_class), link in list(broker.driver.links.items()):
        if link_class is SECURE:
            link.connection.abort()


async def test_among_plain_brokers_a_secure_one_refuses(brokers: Brokers, issue: Issue) -> None:
    a, _, _ = await brokers.ring_of(3, issue(Role.BROKER))
    async with connect(url(a), identity=issue(Role.CLIENT)) as client:
        assert "no all-secure path from this broker to any other" in await reason(client)


async def test_after_a_refusal_all_else_goes_on(brokers: Brokers, issue: Issue) -> None:
    a, _, _ = await brokers.ring_of(3, issue(Role.BROKER))
    async with (
        connect(url(a), identity=issue(Role.CLIENT)) as client,
        client.subscribe("mine") as events,
    ):
        await client.publish("mine", b"1", link_class=SECURE)
        await client.publish("theirs", b"2", link_class=SECURE)
        with trio.fail_after(DEADLINE_SECONDS):
            with pytest.raises(PublishRefused):
                await client.flush()
            await client.flush()
            await client.publish("mine", b"3", link_class=SECURE, confirm=True)
        assert [(await next_of(events)).payload for _ in range(2)] == [b"1", b"3"]


async def test_alone_a_secure_broker_serves_its_own(brokers: Brokers, issue: Issue) -> None:
    (broker,) = await brokers.ring_of(1, issue(Role.BROKER))
    async with (
        connect(url(broker), identity=issue(Role.CLIENT)) as client,
        client.subscribe("a", link_class=SECURE) as events,
    ):
        assert client.secure
        await client.publish("a", b"secret", link_class=SECURE, confirm=True)
        assert (await next_of(events)).payload == b"secret"


async def test_the_death_of_a_row_of_brokers_does_not_end_secure_events(
    brokers: Brokers, issue: Issue
) -> None:
    ring = await brokers.ring_of(8, *(issue(Role.BROKER) for _ in range(8)))
    await meshed(ring)
    order = sorted(ring, key=lambda b: b.node.ring.member.ring_id if b.node.ring.member else -1)
    for broker in order[2:6]:
        brokers.kill(broker)
    await brokers.whole()
    await until(lambda: is_meshed(brokers.alive))
    async with connect(url(order[0]), identity=issue(Role.CLIENT)) as client:
        await client.publish("a", b"secret", link_class=SECURE, confirm=True)


async def test_a_broker_without_identity_cannot_be_called_over_tls(
    brokers: Brokers, issue: Issue
) -> None:
    broker = await brokers.start()
    with pytest.raises(ConnectionLost, match="no identity at that end"):
        async with connect(
            broker.url.replace("chordal:", "chordals:"),
            identity=issue(Role.CLIENT),
            timeout=0.2,
        ):
            pass


async def test_tls_needs_an_identity(brokers: Brokers, issue: Issue, tmp_path: Path) -> None:
    (broker,) = await brokers.ring_of(1, issue(Role.BROKER))
    with pytest.raises(ConfigError, match="needs an identity"):
        async with connect(url(broker)):
            pass
    with pytest.raises(ConfigError, match="nowhere"):
        async with connect(url(broker), identity=tmp_path / "nowhere"):
            pass


async def test_a_client_attaches_only_to_whom_the_certificate_names(issue: Issue) -> None:
    """Even a broker of this overlay may not speak in another's name."""
    liar = TcpTransport(load_identity(issue(Role.BROKER)))
    port = await liar.listen("127.0.0.1", 0)

    async def lie(stream: trio.abc.Stream) -> None:
        with suppress(NoTlsError, *BROKEN):  # the client's last attempt, when its time is up
            wire = await liar.accept(stream)
            await read_greeting(wire.stream, FrameReader())
            posed = Attached("f" * 32, f"chordal://127.0.0.1:{port}", True, PROTOCOL_VERSION)
            await wire.stream.send_all(CLIENT_CODEC.encode(posed))
            await wire.stream.receive_some()

    async with trio.open_nursery() as nursery:
        await nursery.start(liar.serve, lie)
        with pytest.raises(ConnectionLost, match="the certificate names another uid"):
            async with connect(
                f"chordals://127.0.0.1:{port}", identity=issue(Role.CLIENT), timeout=0.5
            ):
                pass
        nursery.cancel_scope.cancel()


async def test_secure_links_stand_beside_the_rings_normal_ones(
    brokers: Brokers, issue: Issue
) -> None:
    ring = await brokers.ring_of(4, *(issue(Role.BROKER) for _ in range(3)))
    await until(lambda: all(len(secure_uids(broker)) == 2 for broker in ring[:3]))
    assert secure_uids(ring[3]) == set()
    async with connect(ring[0].url) as client:
        status = await client.status()
    secure = [link for link in status.links if link.link_class is SECURE]
    normal = {link.uid for link in status.links if link.link_class is LinkClass.NORMAL}
    assert len(secure) == 2
    assert {link.uid for link in secure} <= normal
    for link in secure:
        stream = ring[0].driver.links[link.uid, SECURE].connection.stream
        assert isinstance(stream, TlsStream)
        name, version, _ = stream.session.cipher() or ("", "", 0)
        assert link.cipher == f"{version} {name}"
        assert link.cipher in TLS_CIPHERS
    assert all(link.cipher is None for link in status.links if link.link_class is not SECURE)


async def test_a_secure_event_that_comes_in_the_open_ends_the_link(
    brokers: Brokers, issue: Issue
) -> None:
    """Whoever sends one over a plain link has let others read it, or has made it up."""
    broker = await brokers.start(identity=issue(Role.BROKER))
    liar = Peer("c" * 32, 1, "chordal://127.0.0.1:1")
    greeting = Hello("chordal", PROTOCOL_VERSION, liar.uid, 1, liar, LinkClass.NORMAL, None, 1)
    async with (
        connect(url(broker), identity=issue(Role.CLIENT)) as client,
        client.subscribe("a") as events,
        await trio.open_tcp_stream("127.0.0.1", parse_url(broker.url).port) as stream,
    ):
        await stream.send_all(GREETINGS.encode(greeting))
        await stream.send_all(frame(EVENT, event(1, secure=True, payload=b"made up")))
        await until(lambda: broker.driver.counters["protocol_errors"] == 1)
        await until(lambda: not broker.driver.links)
        await client.publish("a", b"right", confirm=True)
        assert (await next_of(events)).payload == b"right"
