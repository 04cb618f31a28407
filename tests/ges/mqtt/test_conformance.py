"""What MQTT 3.1.1 and 5 ask of a server, statement by statement; docs/mqtt.md has the list.

Each test is one case of the list there, over TCP, at a broker of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from time import time

import pytest

from ges.mqtt.door import MqttDoor
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from ges.mqtt.properties import Properties, Property
from ges.mqtt.reasons import Reason
from tests.ges.mqtt.device import (
    PINGREQ,
    Told,
    connect_packet,
    device,
    dial,
    disconnect_packet,
    puback_packet,
    publish_packet,
    subscribe_packet,
    unsubscribe_packet,
    will_part,
)

PAGE = Path(__file__).parents[3] / "docs" / "mqtt.md"
BOTH = pytest.mark.parametrize("level", [MQTT_3, MQTT_5])


async def told_off(door: MqttDoor, said: bytes, level: int = MQTT_5) -> int | None:
    """Return why a client is cut off that says something wrong; None: it is not told."""
    async with await device(door, level=level) as client:
        await client.send(said)
        last = await client.end()
    if level != MQTT_5:
        assert not last
        return None
    assert [each.kind for each in last] == [Kind.DISCONNECT]
    return last[0].codes[0]


async def turned_away(door: MqttDoor, said: bytes, level: int = MQTT_5) -> tuple[int, ...] | None:
    """Return what a greeting is answered with, before the connection is closed."""
    async with await dial(door, level) as client:
        await client.send(said)
        found = await client.end()
    return found[0].codes if found else None


def test_the_list_has_each_case() -> None:
    listed = re.findall(r"^\| [\d.]+ \| [^|]+ \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    cases = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert len(listed) == len(set(listed))
    assert set(listed) == cases - {"the_list_has_each_case"}


# ── connecting ────────────────────────────────────────────────────────────────────────────────


async def test_first_packet_is_connect(door: MqttDoor) -> None:
    for said in (PINGREQ, publish_packet("a"), subscribe_packet("a"), disconnect_packet()):
        assert await turned_away(door, said) is None


@BOTH
async def test_second_connect(door: MqttDoor, level: int) -> None:
    said = connect_packet(level=level)
    assert await told_off(door, said, level) in (None, Reason.PROTOCOL_ERROR)


async def test_protocol_name_and_level(door: MqttDoor) -> None:
    assert await turned_away(door, connect_packet(level=3, name="MQIsdp"), MQTT_3) == (0, 1)
    assert await turned_away(door, connect_packet(level=6), MQTT_5) == (0, 0x84)


async def test_reserved_flag_of_connect(door: MqttDoor) -> None:
    assert await turned_away(door, connect_packet(will_flags=1)) == (0, Reason.MALFORMED_PACKET)
    assert await turned_away(door, connect_packet(level=MQTT_3, will_flags=1), MQTT_3) is None


async def test_flags_of_a_will_that_is_not_there(door: MqttDoor) -> None:
    for flags in (0x08, 0x20, 0x18):
        assert await turned_away(door, connect_packet(will_flags=flags)) == (0, 0x81)


@BOTH
async def test_no_session_is_present(door: MqttDoor, level: int) -> None:
    for _ in range(2):
        async with await dial(door, level) as client:
            said = connect_packet("same", level, clean=False)
            assert (await client.ask(said, Kind.CONNACK)).codes == (0, 0)


async def test_empty_client_id(door: MqttDoor) -> None:
    async with await dial(door) as client:
        told = await client.ask(connect_packet(""), Kind.CONNACK)
        assert str(told.properties.text(Property.ASSIGNED_CLIENT_ID)).startswith("chordal-")
    said = connect_packet("", MQTT_3, clean=False)
    assert await turned_away(door, said, MQTT_3) == (0, 2)
    async with await device(door, "", MQTT_3) as client:
        assert await client.is_quiet()


@BOTH
async def test_same_client_id_ends_the_earlier_connection(door: MqttDoor, level: int) -> None:
    async with await device(door, "twin", level) as first, await device(door, "twin", level) as two:
        last = await first.end()
        codes = [each.codes for each in last if each.kind is Kind.DISCONNECT]
        assert codes == ([(Reason.TAKEN_OVER,)] if level == MQTT_5 else [])
        assert await two.is_quiet()


async def test_what_a_client_is_told_of_the_door(door: MqttDoor) -> None:
    async with await dial(door) as client:
        wishes = {Property.SESSION_EXPIRY: 3600}
        told = await client.ask(connect_packet(properties=wishes), Kind.CONNACK)
    number = told.properties.number
    assert number(Property.MAXIMUM_QOS, 2) == 1
    assert number(Property.SESSION_EXPIRY, 3600) == 0
    assert number(Property.RECEIVE_MAXIMUM, 0) == 1024
    assert number(Property.TOPIC_ALIAS_MAXIMUM, 0) == 32
    assert number(Property.SERVER_KEEP_ALIVE, 0) == 600
    assert number(Property.MAXIMUM_PACKET, 0) > 1024 * 1024


async def test_no_other_authentication(door: MqttDoor) -> None:
    said = connect_packet(properties={Property.AUTH_METHOD: "SCRAM-SHA-1"})
    assert await turned_away(door, said) == (0, Reason.BAD_METHOD)


async def test_properties_that_do_not_belong_or_come_twice(door: MqttDoor) -> None:
    said = connect_packet(properties={Property.TOPIC_ALIAS: 1})
    assert await turned_away(door, said) == (0, Reason.PROTOCOL_ERROR)
    said = connect_packet(properties={Property.RECEIVE_MAXIMUM: 0})
    assert await turned_away(door, said) == (0, Reason.PROTOCOL_ERROR)
    twice = bytes.fromhex("3008000161052100012100017a")[2:]
    assert await told_off(door, b"\x30" + bytes((len(twice),)) + twice) == Reason.PROTOCOL_ERROR


@BOTH
async def test_ping(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        assert (await client.ask(PINGREQ, Kind.PINGRESP)).flags == 0


@BOTH
async def test_keep_alive(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level, keep_alive=1) as client:
        last = await client.end()
    assert [each.codes for each in last] == ([(Reason.KEEP_ALIVE,)] if level == MQTT_5 else [])


# ── packets ───────────────────────────────────────────────────────────────────────────────────


async def test_flags_of_packets(door: MqttDoor) -> None:
    for said in (
        b"\xc1\x00",
        b"\x80" + subscribe_packet("a")[1:],
        b"\xe1\x00",
        b"\x41\x02\x00\x01",
    ):
        assert await told_off(door, said) == Reason.MALFORMED_PACKET


async def test_packets_that_a_client_does_not_send(door: MqttDoor) -> None:
    for first in (0x20, 0x90, 0xB0, 0xD0):
        assert await told_off(door, bytes((first, 0))) == Reason.PROTOCOL_ERROR
    assert await told_off(door, b"\x00\x00") == Reason.MALFORMED_PACKET


async def test_text_that_is_no_utf_8(door: MqttDoor) -> None:
    for wrong in (b"\xff\xfe", b"a\x00", b"\xed\xa0\x80"):
        body = bytes((0, len(wrong))) + wrong + b"\0"
        assert await told_off(door, bytes((0x30, len(body))) + body) == Reason.MALFORMED_PACKET


async def test_length_with_too_many_bytes(door: MqttDoor) -> None:
    assert await told_off(door, b"\x30\xff\xff\xff\xff\x01") == Reason.MALFORMED_PACKET


async def test_packet_that_is_too_large(door: MqttDoor) -> None:
    assert await told_off(door, b"\x30\xff\xff\xff\x7f") == Reason.PACKET_TOO_LARGE


async def test_packet_identifier_of_zero(door: MqttDoor) -> None:
    said = publish_packet("a", qos=1, packet_id=0)
    assert await told_off(door, said) == Reason.PROTOCOL_ERROR
    assert await told_off(door, subscribe_packet("a", packet_id=0)) == Reason.PROTOCOL_ERROR


# ── publishing ────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_qos_1_is_acknowledged(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        said = publish_packet("a", b"x", qos=1, packet_id=77, level=level)
        told = await client.ask(said, Kind.PUBACK)
        assert (told.packet_id, told.codes) == (77, (0,))


@BOTH
async def test_qos_2_is_refused(door: MqttDoor, level: int) -> None:
    said = publish_packet("a", qos=2, level=level)
    assert await told_off(door, said, level) in (None, Reason.QOS)
    will = will_part("a", b"gone", level)
    said = connect_packet("mortal", level, will=will, will_flags=0x10)
    if level == MQTT_5:
        assert await turned_away(door, said, level) == (0, Reason.QOS)
        return
    async with await device(door, "watcher", level) as watcher:
        await watcher.subscribe("a")
        async with await dial(door, level) as mortal:
            await mortal.ask(said, Kind.CONNACK)
        told = await watcher.expect(Kind.PUBLISH)
        assert (told.payload, told.qos) == (b"gone", 1)


async def test_qos_3_and_dup_without_qos(door: MqttDoor) -> None:
    assert await told_off(door, publish_packet("a", qos=3)) == Reason.MALFORMED_PACKET
    assert await told_off(door, publish_packet("a", dup=True)) == Reason.MALFORMED_PACKET


async def test_topic_with_a_wildcard(door: MqttDoor) -> None:
    for topic in ("a/#", "a/+/b"):
        assert await told_off(door, publish_packet(topic)) == Reason.TOPIC_NAME
        will = will_part(topic, b"")
        assert await turned_away(door, connect_packet(will=will)) == (0, Reason.TOPIC_NAME)


async def test_topic_that_brokers_do_not_take(door: MqttDoor) -> None:
    async with await device(door) as client:
        for topic in ("a" * 1025, "/".join("a" * 70), "line\nfeed"):
            told = await client.ask(publish_packet(topic, qos=1), Kind.PUBACK)
            assert told.codes == (Reason.TOPIC_NAME,)
            assert told.properties.text(Property.REASON_STRING)
        assert await client.is_quiet()


async def test_topic_alias(door: MqttDoor) -> None:
    def aliased(topic: str, alias: int) -> bytes:
        return publish_packet(topic, b"x", properties=Properties({Property.TOPIC_ALIAS: alias}))

    async with await device(door) as client:
        await client.subscribe("#")
        await client.send(aliased("long/topic", 3) + aliased("", 3) + aliased("other", 3))
        await client.send(aliased("", 3))
        topics = [(await client.expect(Kind.PUBLISH)).topic for _ in range(4)]
        assert topics == ["long/topic", "long/topic", "other", "other"]
    assert await told_off(door, aliased("", 4)) == Reason.PROTOCOL_ERROR
    assert await told_off(door, aliased("a", 0)) == Reason.TOPIC_ALIAS
    assert await told_off(door, aliased("a", 33)) == Reason.TOPIC_ALIAS
    assert await told_off(door, publish_packet("")) == Reason.TOPIC_NAME


async def test_properties_of_a_message(door: MqttDoor) -> None:
    sent = Properties(
        {
            Property.PAYLOAD_FORMAT: 1,
            Property.MESSAGE_EXPIRY: 90,
            Property.CONTENT_TYPE: "text/plain",
            Property.RESPONSE_TOPIC: "answers/7",
            Property.CORRELATION: b"\x00\xff7",
        },
        (("unit", "C"), ("place", "hall")),
    )
    async with await device(door) as client:
        await client.subscribe("t")
        await client.publish("t", b"21", properties=sent)
        told = await client.expect(Kind.PUBLISH)
        got = told.properties
        assert 89 <= got.number(Property.MESSAGE_EXPIRY, 0) <= 90
        assert {**got.values, Property.MESSAGE_EXPIRY: 90} == dict(sent.values)
        assert got.user == sent.user
        twice = Properties({}, (("a", "1"), ("b", "2"), ("a", "3"), ("mqtt-content-type", "x")))
        await client.publish("t", b"21", properties=twice)
        assert (await client.expect(Kind.PUBLISH)).properties == twice
    no_topic = Properties({Property.RESPONSE_TOPIC: "answers/+"})
    assert await told_off(door, publish_packet("t", properties=no_topic)) == Reason.PROTOCOL_ERROR


@BOTH
async def test_order(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        await client.subscribe("t")
        sent = [
            publish_packet("t", b"%d" % each, qos=each % 2, packet_id=each + 1, level=level)
            for each in range(200)
        ]
        await client.send(b"".join(sent))
        got: list[int] = []
        while len(got) < 200:
            told = await client.next()
            assert told is not None
            if told.kind is Kind.PUBLISH:
                got.append(int(told.payload))
                if told.qos:
                    await client.send(puback_packet(told.packet_id))
        assert got == list(range(200))


async def test_receive_maximum_of_the_client(door: MqttDoor) -> None:
    async with (
        await device(door, "slow", properties={Property.RECEIVE_MAXIMUM: 2}) as slow,
        await device(door, "fast") as fast,
    ):
        await slow.subscribe("t")
        for each in range(5):
            said = publish_packet("t", b"%d" % each, qos=1, packet_id=each + 1)
            await fast.ask(said, Kind.PUBACK)
        first = [await slow.expect(Kind.PUBLISH) for _ in range(2)]
        await slow.ping()
        await slow.send(puback_packet(first[1].packet_id))
        third = await slow.expect(Kind.PUBLISH)
        assert third.payload == b"2"
        await slow.ping()
        await slow.send(puback_packet(first[0].packet_id) + puback_packet(third.packet_id))
        rest = [(await slow.expect(Kind.PUBLISH)).payload for _ in range(2)]
        assert rest == [b"3", b"4"]


async def test_maximum_packet_of_the_client(door: MqttDoor) -> None:
    async with await device(door, properties={Property.MAXIMUM_PACKET: 100}) as client:
        await client.subscribe("t")
        await client.publish("t", b"x" * 200)
        await client.publish("t", b"short")
        assert (await client.expect(Kind.PUBLISH)).payload == b"short"


async def test_message_that_expires(door: MqttDoor) -> None:
    ends = Properties({Property.MESSAGE_EXPIRY: 1})
    async with await device(door, "keeper") as client:
        said = publish_packet("t", b"x", qos=1, retain=True, properties=ends)
        began = time()
        await client.ask(said, Kind.PUBACK)
        found = True
        while found:
            async with await device(door, "asker") as asker:
                await asker.subscribe("t")
                found = bool(await asker.rest())
        assert time() - began >= 1.0


# ── retained messages ─────────────────────────────────────────────────────────────────────────


async def retained(door: MqttDoor, level: int) -> list[Told]:
    """Return what a new subscriber to ``r/#`` gets at once."""
    async with await device(door, "reader", level) as client:
        await client.subscribe("r/#", options=0)
        return await client.rest()


@BOTH
async def test_retained_message(door: MqttDoor, level: int) -> None:
    async with await device(door, "writer", level) as client:
        for payload in (b"old", b"new"):
            said = publish_packet("r/1", payload, qos=1, retain=True, level=level)
            await client.ask(said, Kind.PUBACK)
        await client.publish("r/1", b"not retained")
        assert await client.is_quiet()
        assert [(each.payload, each.retain) for each in await retained(door, level)] == [
            (b"new", True)
        ]
        await client.ask(publish_packet("r/1", qos=1, retain=True, level=level), Kind.PUBACK)
        assert await retained(door, level) == []


async def test_retain_flag_of_news(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.subscribe("plain")
        await client.subscribe("kept", options=0x08)
        for topic in ("plain", "kept"):
            await client.publish(topic, b"x", retain=True)
            assert (await client.expect(Kind.PUBLISH)).retain is (topic == "kept")


async def test_retain_handling(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.ask(publish_packet("r/1", b"x", qos=1, retain=True), Kind.PUBACK)
        assert (await client.subscribe("r/1", options=0x20)).codes == (0,)
        assert await client.is_quiet()
        await client.subscribe("r/1", options=0x10)  # it is there already
        assert await client.is_quiet()
        await client.subscribe("r/1", options=0x00)
        assert (await client.expect(Kind.PUBLISH)).retain
        await client.subscribe("r/+", options=0x10)  # it is new
        assert (await client.expect(Kind.PUBLISH)).retain
    assert await told_off(door, subscribe_packet("a", options=0x30)) == Reason.PROTOCOL_ERROR


# ── subscribing ───────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_suback_has_a_code_for_each_filter(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        said = subscribe_packet("a", "b/#/c", "c/+", "d+", options=2, packet_id=9, level=level)
        told = await client.ask(said, Kind.SUBACK)
        wrong = Reason.TOPIC_FILTER if level == MQTT_5 else 0x80
        assert (told.packet_id, told.codes) == (9, (1, wrong, 1, wrong))


async def test_subscribe_without_filters(door: MqttDoor) -> None:
    assert await told_off(door, subscribe_packet()) == Reason.PROTOCOL_ERROR
    assert await told_off(door, unsubscribe_packet()) == Reason.PROTOCOL_ERROR


async def test_reserved_options_of_a_subscription(door: MqttDoor) -> None:
    for options in (0x03, 0x40, 0x80):
        said = subscribe_packet("a", options=options)
        assert await told_off(door, said) == Reason.MALFORMED_PACKET
    said = subscribe_packet("a", options=0x04, level=MQTT_3)
    await told_off(door, said, MQTT_3)


@BOTH
async def test_unsubscribe(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        await client.subscribe("a", "b")
        said = unsubscribe_packet("a", "never", packet_id=5, level=level)
        told = await client.ask(said, Kind.UNSUBACK)
        assert (told.packet_id, told.codes) == (5, (0, 0x11) if level == MQTT_5 else ())
        await client.publish("a", b"x")
        await client.publish("b", b"y")
        assert (await client.expect(Kind.PUBLISH)).topic == "b"


@pytest.mark.parametrize(
    ("text", "topics", "others"),
    [
        ("sport/tennis/player1/#", ["sport/tennis/player1", "sport/tennis/player1/ranking"], []),
        ("#", ["a", "a/b/c", "/"], ["$SYS/a"]),
        ("sport/+", ["sport/", "sport/a"], ["sport", "sport/a/b"]),
        ("+/+", ["/finance"], ["a"]),
        ("/+", ["/finance"], ["finance"]),
        ("+/monitor/Clients", ["a/monitor/Clients"], ["$SYS/monitor/Clients"]),
        ("$SYS/#", ["$SYS/a"], ["SYS/a"]),
        ("a//b", ["a//b"], ["a/b"]),
        ("ACCOUNTS", ["ACCOUNTS"], ["Accounts"]),
    ],
)
async def test_what_filters_match(
    door: MqttDoor, text: str, topics: list[str], others: list[str]
) -> None:
    async with await device(door) as client:
        await client.subscribe(text)
        for topic in (*others, *topics):
            await client.publish(topic, b"x")
        assert [(await client.expect(Kind.PUBLISH)).topic for _ in topics] == topics


@BOTH
async def test_qos_of_deliveries(door: MqttDoor, level: int) -> None:
    async with await device(door, level=level) as client:
        for granted in (0, 1):
            assert (await client.subscribe(f"q{granted}", options=granted)).codes == (granted,)
            for sent in (0, 1):
                said = publish_packet(f"q{granted}", b"x", qos=sent, level=level)
                await client.send(said)
                told = [await client.expect_any() for _ in range(1 + sent)]
                message = next(each for each in told if each.kind is Kind.PUBLISH)
                assert message.qos == min(sent, granted)
                if message.qos:
                    await client.send(puback_packet(message.packet_id))


async def test_overlapping_subscriptions_and_their_identifiers(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.subscribe("a/+", options=0, identifier=7)
        await client.subscribe("a/#", options=1, identifier=300)
        await client.subscribe("a/b", options=0)
        said = publish_packet("a/b", b"x", qos=1)
        await client.send(said)
        told = [await client.expect_any() for _ in range(2)]
        (message,) = [each for each in told if each.kind is Kind.PUBLISH]
        assert message.qos == 1
        assert sorted(message.subscription_ids) == [7, 300]
        assert await client.is_quiet()


async def test_no_local(door: MqttDoor) -> None:
    async with await device(door, "one") as one, await device(door, "two") as two:
        await one.subscribe("t", options=0x04)
        await one.publish("t", b"own")
        await one.ask(publish_packet("fence", qos=1), Kind.PUBACK)
        await two.publish("t", b"other")
        assert (await one.expect(Kind.PUBLISH)).payload == b"other"
    said = subscribe_packet("$share/g/a", options=0x04)
    assert await told_off(door, said) == Reason.PROTOCOL_ERROR


async def test_shared_subscription(door: MqttDoor) -> None:
    async with await device(door, "one") as one, await device(door, "two") as two:
        for each in (one, two):
            assert (await each.subscribe("$share/workers/jobs/+", options=0)).codes == (0,)
        async with await device(door, "source") as source:
            for number in range(40):
                await source.publish(f"jobs/{number}", b"x")
            await source.ask(publish_packet("fence", qos=1), Kind.PUBACK)
        shares = [await each.rest() for each in (one, two)]
        assert all(shares)
        got = [told.topic for share in shares for told in share]
        assert sorted(got) == sorted(f"jobs/{number}" for number in range(40))


async def test_shared_subscription_without_retained_messages(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.ask(publish_packet("t", b"x", qos=1, retain=True), Kind.PUBACK)
        await client.subscribe("$share/g/t")
        assert await client.is_quiet()


async def test_shared_filter_that_is_none(door: MqttDoor) -> None:
    async with await device(door) as client:
        told = await client.subscribe("$share/g", "$share//a", "$share/a+/b", "$share/g/")
        assert told.codes == (Reason.TOPIC_FILTER,) * 4


# ── the end ───────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_will(door: MqttDoor, level: int) -> None:
    async with await device(door, "watcher", level) as watcher:
        await watcher.subscribe("wills/#", options=0)
        will = will_part("wills/1", b"gone", level)
        async with await device(door, "mortal", level, will=will, will_flags=0x20):
            pass
        told = await watcher.expect(Kind.PUBLISH)
        assert (told.topic, told.payload, told.retain) == ("wills/1", b"gone", False)
        will = will_part("wills/2", b"gone", level)
        async with await device(door, "polite", level, will=will) as polite:
            await polite.send(disconnect_packet(level=level))
            assert await polite.end() == []
        assert await watcher.is_quiet()
    async with await device(door, "later", level) as later:
        await later.subscribe("wills/#", options=0)
        told = await later.expect(Kind.PUBLISH)
        assert (told.payload, told.retain) == (b"gone", True)


async def test_will_where_the_client_broke_the_protocol_or_asks_for_it(door: MqttDoor) -> None:
    async with await device(door, "watcher") as watcher:
        await watcher.subscribe("wills/#", options=0)
        endings = {"broken": b"\x00\x00", "asked": disconnect_packet(Reason.WITH_WILL)}
        for name, said in endings.items():
            will = will_part(f"wills/{name}", b"gone")
            async with await device(door, name, will=will) as client:
                await client.send(said)
                await client.end()
            assert (await watcher.expect(Kind.PUBLISH)).topic == f"wills/{name}"


async def test_nothing_after_disconnect(door: MqttDoor) -> None:
    async with await device(door, "watcher") as watcher, await device(door, "goes") as client:
        await watcher.subscribe("t")
        await client.send(publish_packet("t", b"1") + disconnect_packet() + publish_packet("t"))
        assert await client.end() == []
        assert (await watcher.expect(Kind.PUBLISH)).payload == b"1"
        assert await watcher.is_quiet()


async def test_session_expiry_that_grows_at_the_end(door: MqttDoor) -> None:
    said = bytes.fromhex("e00700051100000e10")
    assert await told_off(door, said) == Reason.PROTOCOL_ERROR
