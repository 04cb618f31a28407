"""The MQTT door of a real broker: limits, rules, silence, and clients of both kinds together."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.access.token_file import issue_token, revoke_token
from ges.broker import Broker
from ges.client import connect
from ges.http.tls import CERTIFICATE, CLIENTS, KEY, AdminTls
from ges.mqtt.door import MqttDoor, listen
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from ges.mqtt.properties import Properties, Property
from ges.mqtt.reasons import Reason
from ges.mqtt.settings import mqtt_settings
from ges.sessions import clients
from ges.wire.operator_messages import Kick
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.limits import Limits
from overlay.queues.lanes import Policy
from tests.ges.mqtt.device import (
    Device,
    Told,
    connect_packet,
    device,
    dial,
    disconnect_packet,
    door_of,
    puback_packet,
    publish_packet,
    subscribe_packet,
    will_part,
)
from tests.helpers.web_certificates import WebAuthority

DEADLINE_SECONDS = 20
GARBAGE = {
    "nothing that is known": b"\x00\x01\x02\xff" * 100,
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a length without end": b"\x10\xff\xff\xff\xff\xff",
    "a packet of 256 MB": b"\x10\xff\xff\xff\x7f" + b"x" * 1000,
    "our own greeting": b"\x00\x00\x00\x10\x02\x01hello",
}
RULES = """
[[allow]]
subject = "token:line-1"
publish = ["sensors/line-1/#"]

[[allow]]
subject = "anyone"
subscribe = ["sensors/#"]
"""


async def counted(broker: Broker, name: str, most: int = 1) -> None:
    await until(lambda: broker.driver.counters[name] >= most, DEADLINE_SECONDS)


# ── strangers ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_harms_nobody(door: MqttDoor, sent: bytes) -> None:
    async with await device(door, "good") as good:
        await good.subscribe("t")
        async with await dial(door) as bad:
            await bad.send(sent)
            assert [each.codes[1] for each in await bad.end()] in ([], [1])
        async with await device(door, "worse") as worse:
            await worse.send(sent)
            with trio.move_on_after(0.2):  # some of it may be the beginning of a packet
                await worse.end()
        await good.publish("t", b"x")
        assert (await good.expect(Kind.PUBLISH)).payload == b"x"


async def test_who_does_not_greet_in_time_is_dropped(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(handshake_seconds=0.2))
    async with door_of(broker) as door:
        for said in (b"", connect_packet()[:-1]):
            async with await dial(door) as client:
                await client.send(said)
                assert await client.end() == []
        assert broker.driver.counters["mqtt_greetings_late"] == 2
        async with await device(door) as client:
            assert await client.is_quiet()


async def test_a_packet_that_never_ends(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(frame_seconds=0.2, client_silence_seconds=0.6))
    async with door_of(broker) as door, await device(door) as client:
        await client.send(publish_packet("t", b"x" * 100)[:-1])
        assert [each.codes for each in await client.end()] == [(Reason.MALFORMED_PACKET,)]


async def test_strangers_and_connections_are_limited(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(strangers=4, connections=20))
    async with door_of(broker) as door:
        first = await dial(door)
        await until(lambda: len(door._strangers) == 1)
        async with await dial(door) as second:
            assert await second.end() == []
        assert broker.driver.counters["mqtt_turned_away"] == 1
        await first.stream.aclose()
        await until(lambda: len(door._strangers) == 0)
        async with await device(door) as third:
            assert await third.is_quiet()
        broker.parts.limits.become(Limits(connections=0))
        async with await dial(door) as fourth:
            assert await fourth.end() == []
        assert broker.driver.counters["mqtt_turned_away"] == 2


# ── clients ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("level", "code"), [(MQTT_3, 3), (MQTT_5, Reason.BUSY)])
async def test_mqtt_clients_take_the_slots_of_clients(
    brokers: Brokers, level: int, code: int
) -> None:
    broker = await brokers.start(limits=Limits(clients=8, clients_of_one=2))
    async with (
        door_of(broker) as door,
        connect(broker.url),
        await device(door, "one", level) as one,
        await dial(door, level) as two,
    ):
        assert broker.clients.size == 2
        told = await two.ask(connect_packet("two", level), Kind.CONNACK)
        assert told.codes == (0, code)
        assert await two.end() == []
        assert await one.is_quiet()


async def test_a_third_connection_of_the_same_client_ends_both_others(door: MqttDoor) -> None:
    found: list[Device] = []
    for _ in range(6):
        found.append(await dial(door))
        await found[-1].send(connect_packet("same"))
    await until(lambda: door.size == 1)
    last = [client for client in found[:-1] if await client.end() is not None]
    assert len(last) == 5
    await found[-1].expect(Kind.CONNACK)
    assert await found[-1].is_quiet()
    for client in found:
        await trio.aclose_forcefully(client.stream)
    await until(lambda: door.size == 0)


async def test_a_client_that_promises_nothing_may_be_silent(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(client_silence_seconds=0.5))
    async with door_of(broker) as door, await device(door, level=MQTT_3) as client:
        await client.subscribe("t")
        await trio.sleep(1.5)  # three times what clients of our own may be silent
        await client.publish("t", b"x")
        assert (await client.expect(Kind.PUBLISH)).payload == b"x"


@pytest.mark.parametrize("policy", Policy)
async def test_a_client_that_reads_nothing_loses_events_or_its_connection(
    brokers: Brokers, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CLIENT_QUEUE_BYTES", 256 * 1024)
    broker = await brokers.start(slow_clients=policy)
    async with (
        door_of(broker) as door,
        await device(door, "slow") as slow,
        await device(door, "quick") as quick,
    ):
        await slow.subscribe("t", options=1)  # and never acknowledges
        await quick.subscribe("t", options=0)
        for number in range(3000):
            await quick.publish("t", b"%04d" % number * 500)
            await quick.expect(Kind.PUBLISH)
            if policy is Policy.DISCONNECT and broker.driver.counters["clients_too_slow"]:
                break
        if policy is Policy.DISCONNECT:
            await counted(broker, "clients_too_slow")
            await until(lambda: door.size == 1)
        else:
            assert broker.clients.dropped.total() > 0
            assert door.size == 2
        assert await quick.is_quiet()


async def test_filters_of_a_client_are_limited(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(subscriptions=2))
    async with door_of(broker) as door, await device(door) as client:
        told = await client.subscribe("a", "b", "c")
        assert told.codes == (1, 1, Reason.QUOTA)
        assert "2" in str(told.properties.text(Property.REASON_STRING))


async def test_payloads_are_limited(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(payload_bytes=1000))
    async with door_of(broker) as door, await device(door) as client:
        told = await client.ask(publish_packet("t", b"x" * 1001, qos=1), Kind.PUBACK)
        assert told.codes == (Reason.QUOTA,)
        assert "payload of 1001 bytes" in str(told.properties.text(Property.REASON_STRING))
        await client.send(publish_packet("t", b"x" * 20_000, qos=1))
        assert [each.codes for each in await client.end()] == [(Reason.PACKET_TOO_LARGE,)]


async def test_reasons_are_not_told_to_who_does_not_want_them(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(payload_bytes=1000))
    wishes = {Property.PROBLEM_INFORMATION: 0}
    async with door_of(broker) as door, await device(door, properties=wishes) as client:
        told = await client.ask(publish_packet("t", b"x" * 1001, qos=1), Kind.PUBACK)
        assert (told.codes, told.properties.values) == ((Reason.QUOTA,), {})


async def test_a_message_of_mqtt_3_that_is_not_taken_now_ends_the_connection(
    brokers: Brokers,
) -> None:
    broker = await brokers.start(limits=Limits(retained=0))
    async with door_of(broker) as door, await device(door, level=MQTT_3) as client:
        await client.send(publish_packet("t", b"x", qos=1, retain=True, level=MQTT_3))
        assert await client.end() == []


async def test_a_message_of_mqtt_3_that_is_never_taken_is_acknowledged(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(payload_bytes=1000))
    async with door_of(broker) as door:
        async with await device(door, level=MQTT_3) as client:
            for topic, size in (("t", 1001), ("line\nfeed", 1)):
                said = publish_packet(topic, b"x" * size, qos=1, level=MQTT_3)
                assert (await client.ask(said, Kind.PUBACK)).codes == (0,)
        await counted(broker, "mqtt_messages_refused", 2)


async def test_a_retained_message_too_many_is_refused(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(retained=1))
    async with door_of(broker) as door, await device(door) as client:
        for topic, code in (("a", 0), ("b", Reason.QUOTA), ("a", 0)):
            said = publish_packet(topic, b"x", qos=1, retain=True)
            assert (await client.ask(said, Kind.PUBACK)).codes == (code,)


# ── who may do what ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def token(book: Path) -> str:
    return issue_token(book, "line-1", int(time.time()), None)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def authority(tmp_path: Path) -> WebAuthority:
    folder = tmp_path / "web"
    found = WebAuthority(folder)
    found.issue(folder / CERTIFICATE, folder / KEY)
    return found


async def dial_tls(door: MqttDoor, authority: WebAuthority, level: int = MQTT_5) -> Device:
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", door.port, ssl_context=authority.client()
    )
    return Device(stream, level)


@pytest.mark.parametrize("shape", ["name and secret", "name and token", "token alone"])
async def test_a_token_is_a_user_name_and_a_password(
    brokers: Brokers, book: Path, token: str, rules: Path, authority: WebAuthority, shape: str
) -> None:
    broker = await brokers.start(tokens=book, access=rules)
    tls = AdminTls(authority.certificate.parent, "--mqtt-tls", "mqtt")
    user = None if shape == "token alone" else "line-1"
    password = token.partition(".")[2] if shape == "name and secret" else token
    async with door_of(broker, tls) as door, await dial_tls(door, authority) as client:
        said = connect_packet(user=user, password=password.encode())
        assert (await client.ask(said, Kind.CONNACK)).codes == (0, 0)
        said = publish_packet("sensors/line-1/7", qos=1)
        assert (await client.ask(said, Kind.PUBACK)).codes == (0,)
        told = await client.ask(publish_packet("sensors/line-2/7", qos=1), Kind.PUBACK)
        assert told.codes == (Reason.NOT_AUTHORIZED,)
        assert "no rule allows it" in str(told.properties.text(Property.REASON_STRING))
        assert (await client.subscribe("sensors/+", "secret")).codes == (1, Reason.NOT_AUTHORIZED)
        revoke_token(book, "line-1")
        await client.end()


async def test_a_token_that_has_ended_publishes_no_will(
    brokers: Brokers, book: Path, token: str, rules: Path, authority: WebAuthority
) -> None:
    rules.write_text(  # noqa: ASYNC240
        RULES.replace(
            'subscribe = ["sensors/#"]',
            'subscribe = ["sensors/#"]\npublish = ["sensors/fence"]\noperate = ["kick"]',
        )
    )
    broker = await brokers.start(tokens=book, access=rules)
    tls = AdminTls(authority.certificate.parent, "--mqtt-tls", "mqtt")
    async with connect(broker.url) as watcher, watcher.subscribe("sensors/#") as wills:
        for is_revoked in (False, True):
            will = will_part("sensors/line-1/will", b"gone")
            said = connect_packet(user="line-1", password=token.encode(), will=will)
            async with door_of(broker, tls) as door, await dial_tls(door, authority) as client:
                assert (await client.ask(said, Kind.CONNACK)).codes == (0, 0)
                if is_revoked:
                    revoke_token(book, "line-1")
                else:
                    (uid,) = {session.uid for session in broker.clients._sessions} - {watcher.uid}
                    await watcher.operate(Kick(uid))
                assert [each.codes for each in await client.end()] == [(Reason.ADMINISTRATIVE,)]
                await until(lambda: door.size == 0, DEADLINE_SECONDS)
        await watcher.publish("sensors/fence", b"end")
        with trio.fail_after(DEADLINE_SECONDS):
            assert [(await anext(wills)).payload for _ in range(2)] == [b"gone", b"end"]


@pytest.mark.parametrize(("level", "code"), [(MQTT_3, 4), (MQTT_5, Reason.BAD_CREDENTIALS)])
async def test_a_token_that_is_wrong_or_sent_in_the_open(
    brokers: Brokers, book: Path, token: str, authority: WebAuthority, level: int, code: int
) -> None:
    broker = await brokers.start(tokens=book)
    said = connect_packet(level=level, user="line-1", password=token.encode())
    async with door_of(broker) as door, await dial(door, level) as client:
        assert (await client.ask(said, Kind.CONNACK)).codes == (0, code)
    wrong = connect_packet(level=level, user="line-1", password=b"wrong")
    tls = AdminTls(authority.certificate.parent, "--mqtt-tls", "mqtt")
    async with door_of(broker, tls) as door, await dial_tls(door, authority, level) as client:
        assert (await client.ask(wrong, Kind.CONNACK)).codes == (0, code)
        assert await client.end() == []


async def test_rules_that_change(brokers: Brokers, rules: Path) -> None:
    broker = await brokers.start(access=rules)
    async with door_of(broker) as door, await device(door) as client:
        assert (await client.subscribe("sensors/#")).codes == (1,)
        denied = await client.ask(publish_packet("sensors/1", qos=1), Kind.PUBACK)
        assert denied.codes == (Reason.NOT_AUTHORIZED,)
        rules.write_text(RULES.replace("anyone", "authenticated"))  # noqa: ASYNC240
        await broker.reload()
        last = await client.end()
        assert [each.codes for each in last] == [(Reason.NOT_AUTHORIZED,)]


async def test_a_denied_message_of_mqtt_3_is_acknowledged_and_counted(
    brokers: Brokers, rules: Path
) -> None:
    broker = await brokers.start(access=rules)
    async with door_of(broker) as door:
        async with await device(door, level=MQTT_3) as client:
            said = publish_packet("sensors/1", qos=1, level=MQTT_3)
            assert (await client.ask(said, Kind.PUBACK)).codes == (0,)
        await counted(broker, "mqtt_messages_refused")


async def test_plain_bytes_and_garbage_at_a_door_with_tls(
    brokers: Brokers, authority: WebAuthority
) -> None:
    tls = AdminTls(authority.certificate.parent, "--mqtt-tls", "mqtt")
    async with door_of(await brokers.start(), tls) as door:
        for said in (connect_packet(), *GARBAGE.values()):
            async with await dial(door) as client:
                await client.send(said)
                with trio.fail_after(DEADLINE_SECONDS), suppress(trio.BrokenResourceError):
                    while await client.stream.receive_some():
                        pass
        async with await dial_tls(door, authority) as client:
            assert (await client.ask(connect_packet(), Kind.CONNACK)).codes == (0, 0)
            await client.send(disconnect_packet())
            assert await client.end() == [], "and TLS ends as it should"


async def test_certificates_of_clients(
    brokers: Brokers, authority: WebAuthority, tmp_path: Path
) -> None:
    folder = authority.certificate.parent
    others = WebAuthority(tmp_path / "devices", "devices")
    (folder / CLIENTS).write_bytes(others.certificate.read_bytes())
    broker = await brokers.start(limits=Limits(client_silence_seconds=0.9))
    context = authority.client(certified_by=others)
    async with door_of(broker, AdminTls(folder, "--mqtt-tls", "mqtt")) as door:
        async with await dial_tls(door, authority) as client:
            told = await client.ask(connect_packet(), Kind.CONNACK)
            assert told.codes == (0, Reason.NOT_AUTHORIZED)
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", door.port, ssl_context=context)
        async with Device(stream, MQTT_5) as client:
            assert (await client.ask(connect_packet(), Kind.CONNACK)).codes == (0, 0)
            await trio.sleep(1.5)  # the broker hears of it five times: that does not harm TLS
            assert await client.is_quiet()


# ── together with our own clients ─────────────────────────────────────────────────────────────


async def test_events_of_either_kind_come_to_both_over_two_brokers(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        door_of(a) as door,
        await device(door) as mqtt,
        connect(b.url) as client,
        client.subscribe("t/#") as events,
    ):
        await mqtt.subscribe("t/#")
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            sent = Properties({Property.CONTENT_TYPE: "text/csv"}, (("unit", "C"),))
            await mqtt.publish("t/1", b"21", properties=sent)
            event = await anext(events)
            assert (event.payload, event.attributes) == (
                b"21",
                {"mqtt-content-type": "text/csv", "unit": "C"},
            )
            told = await mqtt.expect(Kind.PUBLISH)
            assert (told.payload, told.properties) == (b"21", sent)
            correlation = bytes(range(16))
            more = {"mqtt-response-topic": "t/#", "unit": "F"}
            await client.publish("t/2", b"70", attributes=more, correlation=correlation, ttl=60)
            told = await mqtt.expect(Kind.PUBLISH)
            assert (told.topic, told.qos) == ("t/2", 1)
            assert told.properties.user == (("unit", "F"),), "no wildcard in a response topic"
            assert told.properties.values[Property.CORRELATION] == correlation
            assert 1 <= told.properties.number(Property.MESSAGE_EXPIRY, 0) <= 60


async def test_express_events_come_to_mqtt_clients(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as mqtt, connect(b.url) as client:
        await mqtt.subscribe("t")
        await client.publish("t", b"quick", link_class=LinkClass.EXPRESS)
        assert (await mqtt.expect(Kind.PUBLISH)).payload == b"quick"


async def test_what_has_ended_while_it_waited_for_an_mqtt_client_is_dropped(door: MqttDoor) -> None:
    async with (
        await device(door, "slow", properties={Property.RECEIVE_MAXIMUM: 1}) as slow,
        await device(door, "quick") as quick,
    ):
        await slow.subscribe("t")
        ends = Properties({Property.MESSAGE_EXPIRY: 1})
        for number in range(3):
            lasts = Properties() if number != 1 else ends
            said = publish_packet("t", b"%d" % number, qos=1, properties=lasts)
            await quick.ask(said, Kind.PUBACK)
        first = await slow.expect(Kind.PUBLISH)
        await trio.sleep(1.1)
        await slow.send(puback_packet(first.packet_id))
        assert (await slow.expect(Kind.PUBLISH)).payload == b"2"


async def test_an_mqtt_client_answers_a_request(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as adder, connect(b.url) as client:
        await adder.subscribe("service/add", options=0)

        async def answer() -> None:
            told = await adder.expect(Kind.PUBLISH)
            topic = told.properties.text(Property.RESPONSE_TOPIC)
            assert topic is not None
            assert topic.startswith("$reply/")
            correlation = told.properties.values[Property.CORRELATION]
            back = Properties({Property.CORRELATION: correlation})
            await adder.publish(topic, told.payload + b"!", properties=back)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            reply = await client.request("service/add", b"hello", timeout=DEADLINE_SECONDS)
        assert reply.payload == b"hello!"
        told = await adder.subscribe("$reply/#")
        assert told.codes[0] >= 0x80, "replies to others are not for it"


async def test_groups_have_members_of_both_kinds(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    got: list[bytes] = []
    async with (
        door_of(a) as door,
        await device(door, "worker") as worker,
        connect(b.url) as client,
        client.subscribe("jobs/+", queue="workers") as events,
        await device(door, "source") as source,
    ):
        await worker.subscribe("$share/workers/jobs/+", options=0)
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()

            async def hear() -> None:
                while True:
                    got.append((await anext(events)).payload)

            async def take() -> None:
                while True:
                    got.append((await worker.expect(Kind.PUBLISH)).payload)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                nursery.start_soon(take)
                for number in range(60):
                    await source.publish(f"jobs/{number}", b"%d" % number)
                await until(lambda: len(got) >= 60, DEADLINE_SECONDS)
                nursery.cancel_scope.cancel()
    assert sorted(got, key=int) == [b"%d" % number for number in range(60)]


async def test_a_broker_that_leaves_says_so_and_wills_go_out(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        door_of(a) as door,
        connect(b.url) as client,
        client.subscribe("wills/#") as wills,
        await device(door, will=will_part("wills/1", b"gone")) as mqtt,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await wills.active.wait()
            last: list[Told] = []

            async def hear() -> None:
                last.extend(await mqtt.end())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                a.drain()
                await a.drained()
            assert [each.codes for each in last] == [(Reason.SHUTTING_DOWN,)]
            assert (await anext(wills)).payload == b"gone"


async def test_a_client_that_is_kicked_is_told_and_its_will_goes_out(door: MqttDoor) -> None:
    async with await device(door, "watcher") as watcher:
        await watcher.subscribe("wills/#", options=0)
        broker = door._broker
        before = {session.uid for session in broker.clients._sessions}
        async with await device(door, "bad", will=will_part("wills/bad", b"gone")) as bad:
            (uid,) = {session.uid for session in broker.clients._sessions} - before
            async with connect(broker.url) as operator:
                await operator.operate(Kick(uid))
            assert [each.codes for each in await bad.end()] == [(Reason.ADMINISTRATIVE,)]
        assert (await watcher.expect(Kind.PUBLISH)).payload == b"gone"


async def test_a_subscription_holds_at_all_brokers_when_it_is_acknowledged(
    brokers: Brokers,
) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as mqtt, connect(b.url) as client:
        for number in range(20):
            assert (await mqtt.subscribe(f"t/{number}", options=0)).codes == (0,)
            await client.publish(f"t/{number}", b"x")
            assert (await mqtt.expect(Kind.PUBLISH)).topic == f"t/{number}"


async def test_unacknowledged_subscriptions_are_limited(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.send(b"".join(subscribe_packet("a", packet_id=n + 1) for n in range(5000)))
        answers = 0
        while (told := await client.next()) is not None and answers < 5000:
            assert told.kind in (Kind.SUBACK, Kind.DISCONNECT)
            answers += told.kind is Kind.SUBACK
            if answers == 5000:
                break
        assert told is None or told.kind in (Kind.SUBACK, Kind.DISCONNECT)


async def test_acknowledgements_of_nothing_change_nothing(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.send(b"".join(puback_packet(number) for number in range(1, 2000)))
        assert await client.is_quiet()


# ── settings ──────────────────────────────────────────────────────────────────────────────────


def test_a_port_alone_is_one_on_loopback(authority: WebAuthority) -> None:
    assert (mqtt_settings("1883").host, mqtt_settings("1883").port) == ("127.0.0.1", 1883)
    found = mqtt_settings("0.0.0.0:8883", authority.certificate.parent)
    assert (found.host, found.port) == ("0.0.0.0", 8883)
    assert found.tls is not None


@pytest.mark.parametrize("wrong", ["nonsense:port", "1:2:3", "127.0.0.1:70000"])
def test_an_address_that_is_none(wrong: str) -> None:
    with pytest.raises(ConfigError):
        mqtt_settings(wrong)


async def test_an_address_that_is_in_use(door: MqttDoor) -> None:
    with pytest.raises(ConfigError, match=r"--mqtt .*another process"):
        await listen(mqtt_settings(f"127.0.0.1:{door.port}"))


def test_certificates_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--mqtt-tls wants"):
        mqtt_settings("1883", tmp_path)
