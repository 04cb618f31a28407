"""Clients that say who they are, and may do what the rules allow them: through the library."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.greetings import client_hello, prove_token
from benchmarks.stage.waiting import until
from ges.access.token_file import issue_token, revoke_token
from ges.broker import Broker
from ges.client import connect
from ges.errors import ConnectionLost, PublishRefused, SubscribeRefused
from overlay.address import parse_url
from overlay.errors import ConfigError
from overlay.links.first_message import read_greeting
from overlay.net.transport import Wire
from overlay.security.identity import Role
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame
from overlay.wire.greetings import GREETINGS, Refusal
from tests.ges.conftest import Issue
from tests.ges.sessions.test_clients import event

DEADLINE_SECONDS = 20
RULES = """
[[allow]]
subject = "token:line-1"
publish = ["sensors/line-1/#"]

[[allow]]
subject = "anyone"
subscribe = ["sensors/#"]

[[allow]]
subject = "certificate"
publish = ["{uid}/#"]

[[deny]]
subject = "anyone"
subscribe = ["sensors/secret/#"]
"""


@pytest.fixture
def access(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
async def broker(brokers: Brokers, access: Path, book: Path, token: str) -> Broker:
    return await brokers.start(access=access, tokens=book)


async def test_what_is_denied_is_an_error_that_names_topic_subject_and_rule(
    broker: Broker, token: str
) -> None:
    async with connect(broker.url, token=token) as client, connect(broker.url) as nobody:
        with pytest.raises(
            PublishRefused, match="'sensors/line-2/7' is denied to token:line-1: no rule allows it"
        ):
            await client.publish("sensors/line-2/7", confirm=True)
        with pytest.raises(PublishRefused, match="denied to anyone"):
            await nobody.publish("sensors/line-1/7", confirm=True)
        with pytest.raises(
            SubscribeRefused, match=r"'sensors/#' is denied .* deny rule on line 14"
        ):
            async with client.subscribe("sensors/#"):
                pass
        with pytest.raises(SubscribeRefused, match="'#' is denied to anyone"):
            async with nobody.subscribe("#"):
                pass
        await client.publish("sensors/line-1/7", confirm=True)  # the client goes on
    assert broker.driver.counters["events_denied"] == 2
    assert broker.driver.counters["subscriptions_denied"] == 2


async def test_a_denied_event_reaches_nobody_and_those_after_it_do(
    brokers: Brokers, access: Path, book: Path, token: str
) -> None:
    here = await brokers.start(access=access, tokens=book)
    there = await brokers.start()
    async with (
        connect(here.url, token=token) as client,
        connect(there.url) as free,
        free.subscribe("#") as events,
    ):
        await client.publish("elsewhere", b"denied")
        await client.publish("sensors/line-1/1", b"allowed")
        with pytest.raises(PublishRefused):
            await client.flush()
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"allowed"


async def test_a_certificate_proves_a_uid(brokers: Brokers, access: Path, issue: Issue) -> None:
    broker = await brokers.start(access=access, identity=issue(Role.BROKER))
    mine = issue(Role.CLIENT)
    assert broker.secure_url is not None
    async with connect(broker.secure_url, identity=mine) as client:
        await client.publish(f"{client.uid}/a", confirm=True)
        with pytest.raises(PublishRefused, match=f"denied to uid:{client.uid}"):
            await client.publish(f"{'0' * 32}/a", confirm=True)
        uid = client.uid
    async with connect(broker.url) as nobody:
        with pytest.raises(PublishRefused):
            await nobody.publish(f"{uid}/a", confirm=True)


# Tokens


async def stay(broker: Broker, token: str, attached: Callable[[], None] = lambda: None) -> None:
    """Attach, and stay until that is no longer possible."""
    async with connect(broker.url, token=token):
        attached()
        with trio.fail_after(DEADLINE_SECONDS):
            await trio.sleep_forever()


async def test_a_wrong_token_is_refused_at_once(broker: Broker, book: Path, tmp_path: Path) -> None:
    stranger = issue_token(tmp_path / "other", "line-1", int(time.time()), None)
    ended = issue_token(book, "ended", int(time.time()) - 100, 50)
    await broker.reload()
    for wrong in (stranger, ended):
        with (
            trio.fail_after(5),
            pytest.raises(ConnectionLost, match=r"not known .* or has expired"),
        ):
            async with connect(broker.url, token=wrong):
                pass
    assert broker.driver.counters["clients_not_authenticated"] == 2
    assert broker.clients.size == 0


async def test_who_is_being_cut_off_may_do_nothing_more(
    brokers: Brokers, book: Path, token: str
) -> None:
    broker = await brokers.start(tokens=book)
    async with connect(broker.url) as other, other.subscribe("#") as events:
        address = parse_url(broker.url)
        async with await trio.open_tcp_stream(address.host, address.port) as stream:
            await prove_token(stream, token)
            await until(lambda: broker.clients.size == 2)
            revoke_token(book, "line-1")
            await broker.reload()
            broker.clients.check_tokens()
            await stream.send_all(frame(EVENT, event(1, topic=b"a", payload=b"too late")))
            await until(lambda: broker.driver.counters["events_denied"] == 1)
        await other.publish("a", b"fence")
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"fence"
    assert broker.driver.counters["clients_token_ended"] == 1


async def test_a_token_that_ends_ends_the_attachment(broker: Broker, book: Path) -> None:
    brief = issue_token(book, "brief", int(time.time()), 3)
    await broker.reload()
    with pytest.raises(ConnectionLost, match="has expired"):
        await stay(broker, brief)


async def test_a_token_goes_nowhere_in_the_clear(token: str) -> None:
    for url in ("chordal://192.0.2.1:9470", "chordal://broker.example:9470"):
        with pytest.raises(ConfigError, match=r"plain connection to another host.*chordals://"):
            async with connect(url, token=token):
                pass


async def test_a_name_that_turns_out_to_be_another_host_gets_no_token(
    broker: Broker, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where ``localhost`` is somebody else: the address connected to decides."""
    monkeypatch.setattr(Wire, "is_exposed", True)
    with pytest.raises(ConnectionLost, match="plain connection to another host"):
        async with connect(broker.url, token=token, timeout=1):
            pass
    assert broker.driver.counters["clients_not_authenticated"] == 0, "it was not sent"


async def test_a_broker_refuses_a_token_that_came_in_the_clear(
    broker: Broker, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlay.net.transport.remote_end", lambda stream: ("192.0.2.1", 4711))
    address = parse_url(broker.url)
    said = client_hello(token=token)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(GREETINGS.encode(said))
        with trio.fail_after(DEADLINE_SECONDS):
            refusal = await read_greeting(stream, FrameReader())
    assert isinstance(refusal, Refusal)
    assert "held for stolen" in refusal.detail
    assert token not in repr(said)


async def test_no_token_is_logged(brokers: Brokers, book: Path, token: str) -> None:
    with structlog.testing.capture_logs() as lines:
        broker = await brokers.start(tokens=book)
        async with connect(broker.url, token=token) as client:
            await client.publish("a", confirm=True)
            status = await client.status()
        wrong = token[:-4] + "AAAA"
        with pytest.raises(ConnectionLost) as caught:
            async with connect(broker.url, token=wrong):
                pass
    secret = token.rpartition(".")[2][:-4]
    for told in (str(lines), str(status), str(caught.value)):
        assert secret not in told


# Rules that change


def rewrite(access: Path, old: str, new: str) -> None:
    access.write_text(RULES.replace(old, new))


def place(access: Path, network: str) -> None:
    access.write_text(f"brokers = ['{network}']\n{RULES}")


async def test_new_rules_apply_to_those_attached(broker: Broker, access: Path, token: str) -> None:
    async with (
        connect(broker.url, token=token) as client,
        connect(broker.url) as other,
        other.subscribe("sensors/line-1/#") as events,
    ):
        await client.publish("sensors/line-1/1", b"before", confirm=True)
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"before"
        rewrite(access, "sensors", "readings")
        await broker.reload()
        with pytest.raises(PublishRefused):
            await client.publish("sensors/line-1/1", confirm=True)
        await client.publish("readings/line-1/1", confirm=True)
        with trio.fail_after(DEADLINE_SECONDS), pytest.raises(SubscribeRefused, match="denied"):
            await anext(events)
        assert broker.stack.deliveries.subscriptions == 0


async def test_a_subscription_that_the_next_broker_denies_ends_with_an_error(
    brokers: Brokers, access: Path
) -> None:
    first = await brokers.start()
    second = await brokers.start(access=access)
    await brokers.whole()
    async with connect(first.url) as client, client.subscribe("#") as events:
        await until(lambda: second.url in client.alternates)
        brokers.kill(first)
        with (
            trio.fail_after(DEADLINE_SECONDS),
            pytest.raises(SubscribeRefused, match="'#' is denied"),
        ):
            await anext(events)


async def test_only_brokers_at_the_addresses_named_may_link(brokers: Brokers, access: Path) -> None:
    place(access, "192.0.2.0/24")
    closed = await brokers.start(access=access)
    async with trio.open_nursery() as nursery:
        with structlog.testing.capture_logs() as lines:
            nursery.start_soon(brokers.start)
            await until(lambda: closed.driver.counters["brokers_denied"] > 1)
        told = {line["event"] for line in lines if "refused" in line["event"]}
        assert told == {"broker refused by the rules"}, "and not as a greeting refused besides"
        assert closed.driver.links == {}
        async with connect(closed.url):
            pass  # clients are no brokers
        place(access, "127.0.0.0/8")
        await closed.reload()
    assert len({uid for uid, _ in closed.driver.links}) == 1, "it went on trying"
