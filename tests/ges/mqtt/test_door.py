"""The MQTT door of a real broker: strangers, limits and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.client import connect
from ges.mqtt.door import MqttDoor, listen
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from ges.mqtt.properties import Property
from ges.mqtt.reasons import Reason
from ges.mqtt.settings import mqtt_settings
from ges.sessions import clients
from overlay.errors import ConfigError
from overlay.limits import Limits
from overlay.queues.lanes import Policy
from tests.ges.mqtt.device import (
    GARBAGE,
    Device,
    connect_packet,
    counted,
    device,
    dial,
    door_of,
    publish_packet,
)
from tests.helpers.web_certificates import WebAuthority

DEADLINE_SECONDS = 20
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


async def test_a_fault_of_ours_ends_one_client_and_is_counted(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError

    broker = await brokers.start()
    async with door_of(broker) as door, await device(door, "good") as good:
        await good.subscribe("t")
        with monkeypatch.context() as patch:
            patch.setattr("ges.mqtt.door.greet", broken)
            async with await dial(door) as unlucky:
                await unlucky.send(connect_packet())
                assert await unlucky.end() == []
        assert broker.driver.counters["internal_errors"] == 1
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
