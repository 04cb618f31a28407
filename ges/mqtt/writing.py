"""Writes the packets that clients get, of MQTT 3.1.1 and of MQTT 5."""

from __future__ import annotations

from collections.abc import Iterable

from ges.mqtt.codec import packed_text, packed_u16, packed_varint, packet
from ges.mqtt.packets import MQTT_5, Kind, Publish
from ges.mqtt.properties import NONE, Properties, Property, pack_properties
from ges.mqtt.reasons import RETURN_CODES, UNAVAILABLE_CODE, Reason

PINGRESP = bytes((Kind.PINGRESP << 4, 0))
MAX_REASON_CHARACTERS = 256


def connack(reason: int, level: int, properties: Properties = NONE) -> bytes:
    """Return the answer to a greeting; no session is ever kept."""
    if level != MQTT_5:
        code = RETURN_CODES.get(Reason(reason), UNAVAILABLE_CODE)
        return packet(Kind.CONNACK << 4, bytes((0, code)))
    return packet(Kind.CONNACK << 4, bytes((0, reason)) + pack_properties(properties))


def publish(message: Publish, level: int) -> bytes:
    """Return a message for a client."""
    first = Kind.PUBLISH << 4 | message.dup << 3 | message.qos << 1 | message.retain
    parts = [packed_text(message.topic)]
    if message.qos:
        parts.append(packed_u16(message.packet_id))
    if level == MQTT_5:
        properties = pack_properties(message.properties)
        if message.subscription_ids:
            more = b"".join(
                bytes((Property.SUBSCRIPTION_ID,)) + packed_varint(each)
                for each in message.subscription_ids
            )
            body = _behind_length(properties) + more
            properties = packed_varint(len(body)) + body
        parts.append(properties)
    parts.append(message.payload)
    return packet(first, b"".join(parts))


def puback(packet_id: int, level: int, reason: int = Reason.SUCCESS, why: str = "") -> bytes:
    """Return the answer to a message of QoS 1; of MQTT 3.1.1 it can only say yes."""
    body = packed_u16(packet_id)
    if level == MQTT_5 and (reason or why):
        body += bytes((reason,)) + pack_properties(told(why))
    return packet(Kind.PUBACK << 4, body)


def suback(packet_id: int, level: int, codes: Iterable[int], why: str = "") -> bytes:
    """Return the answer to a SUBSCRIBE: for each filter its QoS, or why not."""
    properties = pack_properties(told(why)) if level == MQTT_5 else b""
    return packet(Kind.SUBACK << 4, packed_u16(packet_id) + properties + bytes(codes))


def unsuback(packet_id: int, level: int, codes: Iterable[int]) -> bytes:
    """Return the answer to an UNSUBSCRIBE; of MQTT 3.1.1 it says nothing more."""
    body = packed_u16(packet_id)
    if level == MQTT_5:
        body += pack_properties(NONE) + bytes(codes)
    return packet(Kind.UNSUBACK << 4, body)


def disconnect(reason: int, level: int, why: str = "") -> bytes:
    """Return why the client is cut off; of MQTT 3.1.1 there is no such packet."""
    if level != MQTT_5:
        return b""
    return packet(Kind.DISCONNECT << 4, bytes((reason,)) + pack_properties(told(why)))


def told(why: str) -> Properties:
    """Return properties that say why; nothing: none."""
    if not why:
        return NONE
    return Properties({Property.REASON_STRING: why[:MAX_REASON_CHARACTERS]})


def _behind_length(packed: bytes) -> bytes:
    at = 0
    while packed[at] & 128:
        at += 1
    return packed[at + 1 :]
