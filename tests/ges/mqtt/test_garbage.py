"""Bytes that make no sense: an error of MQTT, never another one, and never much memory."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ges.errors import MqttError
from ges.mqtt.codec import PacketReader
from ges.mqtt.gateway import TURN_BYTES, Gateway
from ges.mqtt.greeting import greet
from ges.mqtt.mapping import Publisher
from ges.mqtt.packets import MQTT_3, MQTT_5, Connect
from ges.mqtt.properties import Properties, Property
from ges.mqtt.reading import read_connect, read_packet
from ges.wire.client_messages import CLIENT_CODEC, Attached, Subscribed
from ges.wire.delivered import pack_matches
from overlay.wire.codec import FrameReader
from overlay.wire.frames import DELIVERY, EVENT, frame
from tests.ges.mqtt.device import (
    connect_packet,
    publish_packet,
    subscribe_packet,
    unsubscribe_packet,
    will_part,
)
from tests.helpers.packed import packed

LIMIT = 4096
GOOD = [
    connect_packet("c", keep_alive=9, user="u", password=b"p", will=will_part("w", b"x")),
    connect_packet("c", MQTT_3),
    publish_packet("a/b", b"x", qos=1, properties=Properties({Property.MESSAGE_EXPIRY: 9})),
    subscribe_packet("a/+", "$share/g/b", identifier=7),
    unsubscribe_packet("a/+"),
]


def gateway_of(level: int = MQTT_5, limit_bytes: int = LIMIT) -> Gateway:
    """Return one of a client that the broker has taken."""
    connect = Connect(level, True, 0, "c")
    greeted = greet(connect, "fresh", limit_bytes)
    reader = PacketReader(limit_bytes)
    found = Gateway(connect, greeted, Publisher(bytes(16), 1), reader, lambda: 10**18)
    found.tell(CLIENT_CODEC.encode(Attached(bytes(16).hex(), "chordal://127.0.0.1:1", False)))
    return found


@given(st.integers(0, 255), st.binary(max_size=200))
@example(0x10, connect_packet()[2:])
def test_packets_are_read_or_refused(first: int, body: bytes) -> None:
    for level in (MQTT_3, MQTT_5):
        for read in (read_connect, lambda f, b: read_packet(f, b, level)):  # noqa: B023
            with suppress(MqttError):
                read(first, body)


@given(st.sampled_from(GOOD), st.data())
def test_a_good_packet_with_a_few_wrong_bytes(good: bytes, data: st.DataObject) -> None:
    wrong = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(wrong) - 1))
        wrong[at] = data.draw(st.integers(0, 255))
    reader = PacketReader(LIMIT)
    reader.feed(wrong)
    with suppress(MqttError):
        while (found := reader.next()) is not None:
            read_connect(*found) if found[0] >> 4 == 1 else read_packet(*found, MQTT_5)


@given(st.lists(st.one_of(st.binary(max_size=64), st.sampled_from(GOOD)), max_size=20))
def test_a_gateway_takes_anything_in_any_pieces(pieces: list[bytes]) -> None:
    gateway = gateway_of()
    try:
        for piece in pieces:
            gateway.receive(piece)
    except MqttError as error:
        gateway.cut_off(error.reason, str(error))
    assert gateway.held_bytes < LIMIT + TURN_BYTES + 64 * 1024
    reader = FrameReader()
    reader.feed(bytes(gateway.to_broker))
    reader.runs()
    assert not reader.has_begun, "what the broker gets is whole"


@given(st.lists(st.sampled_from(GOOD[2:]), max_size=6), st.integers(1, 30))
def test_pieces_make_no_difference(packets: list[bytes], size: int) -> None:
    said = b"".join(packets)
    at_once, bit_by_bit = gateway_of(), gateway_of()
    at_once.receive(said)
    for at in range(0, len(said), size):
        bit_by_bit.receive(said[at : at + size])
    assert at_once.to_broker == bit_by_bit.to_broker
    assert at_once.to_client == bit_by_bit.to_client


@pytest.mark.parametrize("size", [LIMIT + 1, 268_435_455])
def test_a_packet_that_is_too_large_is_refused_before_it_has_come(size: int) -> None:
    reader = PacketReader(LIMIT)
    length = bytearray()
    while size:
        length.append(size & 127 | (128 if size > 127 else 0))
        size >>= 7
    reader.feed(b"\x30" + length)
    with pytest.raises(MqttError, match="bytes"):
        reader.next()


def test_what_grows_on_the_way_to_the_broker_is_taken_in_turns() -> None:
    gateway = gateway_of(limit_bytes=1024 * 1024)
    alias = Properties({Property.TOPIC_ALIAS: 1})
    gateway.receive(publish_packet("t" * 1024, properties=alias))
    gateway.receive(publish_packet("", properties=alias) * 4000)  # 32,000 bytes, for 4 MB of frames
    count = 0
    while True:
        assert len(gateway.to_broker) < TURN_BYTES + 2048
        reader = FrameReader()
        reader.feed(bytes(gateway.to_broker))
        count += sum(len(run.bounds) - 1 for run in reader.runs())
        gateway.to_broker.clear()
        if not gateway.is_paused:
            break
        gateway.receive(b"")
    assert count == 4001


def test_an_event_that_makes_no_sense_is_left_out_and_the_client_stays() -> None:
    gateway = gateway_of()
    gateway.receive(subscribe_packet("#"))
    gateway.tell(CLIENT_CODEC.encode(Subscribed(1)))
    gateway.to_client.clear()
    bodies = (
        packed(attributes=b"\xc1"),
        packed(topic=b"\xff"),
        packed(topic=b"t", payload=b"good"),
    )
    events = b"".join(frame(EVENT, body) for body in bodies)
    gateway.tell(frame(DELIVERY, pack_matches((1,)) + events))
    assert gateway.unmapped == 2
    assert not gateway.is_over
    assert gateway.to_client.endswith(b"good")
