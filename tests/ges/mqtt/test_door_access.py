"""Who may do what at the MQTT door: tokens, rules and certificates."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.access.token_file import revoke_token
from ges.client import connect
from ges.http.tls import CLIENTS, AdminTls
from ges.mqtt.door import MqttDoor
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from ges.mqtt.properties import Property
from ges.mqtt.reasons import Reason
from ges.wire.operator_messages import Kick
from overlay.limits import Limits
from tests.ges.mqtt.device import (
    GARBAGE,
    Device,
    connect_packet,
    counted,
    device,
    dial,
    disconnect_packet,
    door_of,
    publish_packet,
    will_part,
)
from tests.helpers.web_certificates import WebAuthority

DEADLINE_SECONDS = 20
RULES = """
[[allow]]
subject = "token:line-1"
publish = ["sensors/line-1/#"]

[[allow]]
subject = "anyone"
subscribe = ["sensors/#"]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


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
