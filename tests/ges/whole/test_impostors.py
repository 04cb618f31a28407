"""A client's uid is proven: nobody greets by one that stands in a delivery."""

from __future__ import annotations

import msgspec
import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.greetings import SECRET, client_hello
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription, connect, greeting
from ges.errors import ConnectionLost
from ges.wire.delivered import Event
from overlay.address import parse_url
from overlay.ids import SECRET_BYTES, LinkClass, uid_of
from overlay.machine import Refused
from overlay.net.connection import BROKEN
from overlay.security.identity import Role
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from tests.ges.conftest import Issue
from tests.ges.sessions.test_clients import event

DEADLINE_SECONDS = 20
PATIENCE_SECONDS = 2  #: for what a broker without this check says to an impostor
GENUINE = range(2, 12)  #: numbers of the events that an impostor wants nobody to get
REFUSALS = "greetings_refused_not_authenticated"


async def said_to(broker: Broker, hello: Hello, *frames: bytes) -> bytes:
    """Greet, say more in the same breath, and return all that the broker answers."""
    heard = b""
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(GREETINGS.encode(hello) + b"".join(frames))
        with trio.move_on_after(PATIENCE_SECONDS):
            try:
                while chunk := await stream.receive_some(65536):
                    heard += chunk
            except BROKEN:
                pass
    return heard


async def impersonate(broker: Broker, seen: Event, secret: bytes | None) -> bytes:
    """Greet as the publisher of ``seen``, and publish under the numbers that it comes to next."""
    hello = msgspec.structs.replace(
        client_hello(), uid=seen.publisher, incarnation=seen.incarnation, secret=secret
    )
    publisher = bytes.fromhex(seen.publisher)
    forged = [
        frame(
            EVENT,
            event(n, publisher=publisher, incarnation=seen.incarnation, topic=b"elsewhere"),
        )
        for n in range(2, 50)
    ]
    return await said_to(broker, hello, *forged)


def refusal(heard: bytes) -> Refusal:
    reader = FrameReader()
    reader.feed(heard)
    found = reader.next_frame()
    assert found is not None
    answer = GREETINGS.decode(found[1])
    assert isinstance(answer, Refusal)
    return answer


async def take(events: Subscription, count: int) -> list[Event]:
    with trio.fail_after(DEADLINE_SECONDS):
        return [await anext(events) for _ in range(count)]


async def stands_up_to_impostors(
    publisher: Client, events: Subscription, broker: Broker, secrets: tuple[bytes | None, ...]
) -> None:
    """Each way to greet in the publisher's name is refused, and all its events arrive."""
    await publisher.publish("line", b"1", confirm=True)
    (seen,) = await take(events, 1)
    assert seen.publisher == publisher.uid
    answers = [await impersonate(broker, seen, secret) for secret in secrets]
    for number in GENUINE:
        await publisher.publish("line", b"%d" % number)
    await publisher.flush()
    got = await take(events, len(GENUINE))
    assert [each.payload for each in got] == [b"%d" % number for number in GENUINE]
    for answer in answers:
        assert refusal(answer).reason is Refused.NOT_AUTHENTICATED
    assert broker.driver.counters[REFUSALS] == len(secrets)


@pytest.mark.parametrize("here", [True, False], ids=["same broker", "other broker"])
@pytest.mark.parametrize("proof", ["none", "own", "uid"])
async def test_an_impostor_of_a_plain_client_is_refused(
    brokers: Brokers, here: bool, proof: str
) -> None:
    a, b, c = await brokers.ring_of(3)
    async with (
        connect(a.url) as publisher,
        connect(c.url) as subscriber,
        subscriber.subscribe("line") as events,
    ):
        secret = {"none": None, "own": SECRET, "uid": bytes.fromhex(publisher.uid)}[proof]
        await stands_up_to_impostors(publisher, events, a if here else b, (secret,))


@pytest.mark.parametrize("here", [True, False], ids=["same broker", "other broker"])
async def test_an_impostor_of_a_client_with_a_certificate_is_refused(
    brokers: Brokers, issue: Issue, here: bool
) -> None:
    a, b = await brokers.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    assert a.secure_url is not None
    async with (
        connect(a.secure_url, identity=issue(Role.CLIENT)) as publisher,
        connect(b.url) as subscriber,
        subscriber.subscribe("line", link_class=LinkClass.NORMAL) as events,
    ):
        await stands_up_to_impostors(publisher, events, a if here else b, (None, SECRET))


async def test_a_certificate_that_is_not_shown_proves_nothing(
    brokers: Brokers, issue: Issue
) -> None:
    """Over a plain connection its holder is one client more."""
    broker = await brokers.start(identity=issue(Role.BROKER))
    assert broker.secure_url is not None
    mine = issue(Role.CLIENT)
    async with (
        connect(broker.secure_url, identity=mine) as secured,
        connect(broker.url, identity=mine) as plain,
        connect(broker.url, identity=mine) as another,
    ):
        assert len({secured.uid, plain.uid, another.uid}) == 3
        await plain.publish("a", confirm=True)
    assert broker.driver.counters[REFUSALS] == 0


async def test_a_client_has_one_uid_wherever_it_goes(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        connect(b.url) as subscriber,
        subscriber.subscribe("line") as events,
        connect(a.url) as publisher,
    ):
        await publisher.publish("line", b"1", confirm=True)
        brokers.kill(a)
        await until(lambda: publisher.gaps)
        await publisher.publish("line", b"2", confirm=True)
        first, second = await take(events, 2)
    assert first.publisher == second.publisher == publisher.uid
    assert first.incarnation == second.incarnation
    assert (first.sequence, second.sequence) == (1, 2)
    assert b.driver.counters[REFUSALS] == 0


async def test_a_client_of_before_is_told_what_to_do(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its greeting ends with the token."""
    monkeypatch.setattr(greeting, "Hello", lambda *fields, **named: Hello(*fields[:11]))
    broker = await brokers.start()
    with (
        structlog.testing.capture_logs() as lines,
        trio.fail_after(5),
        pytest.raises(ConnectionLost, match="update its library"),
    ):
        async with connect(broker.url):
            pass
    assert broker.driver.counters[REFUSALS] == 1
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert (line["event"], line["host"]) == ("greeting refused", "127.0.0.1")


async def test_no_secret_is_told_to_anybody_else(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = b"not for anybody's eyes, nor ears"
    assert len(secret) == SECRET_BYTES
    with structlog.testing.capture_logs() as lines:
        broker = await brokers.start()
        monkeypatch.setattr("ges.client.wish.secrets.token_bytes", lambda count: secret[:count])
        async with connect(broker.url) as client, client.subscribe("a") as events:
            assert client.uid == uid_of(secret)
            await client.publish("a", confirm=True)
            (seen,) = await take(events, 1)
            status = await client.status()
            wish = client._attachment.wish
        false = msgspec.structs.replace(client_hello(secret), uid="a" * 32)
        heard = await said_to(broker, false)
    assert wish.secret == secret
    for told in (lines, status, seen, wish, false, refusal(heard)):
        for form in (secret.decode(), secret.hex()):
            assert form not in str(told)
            assert form not in repr(told)
