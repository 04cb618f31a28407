"""Reads the packets that clients send, of MQTT 3.1.1 and of MQTT 5."""

from __future__ import annotations

from collections.abc import Callable

from ges.errors import MqttError
from ges.mqtt.codec import Fields, malformed, wrong
from ges.mqtt.packets import (
    MQTT_3,
    MQTT_5,
    Connect,
    DisconnectPacket,
    Kind,
    Packet,
    Pingreq,
    Puback,
    Publish,
    SubscribePacket,
    UnsubscribePacket,
    Will,
    Wish,
)
from ges.mqtt.properties import (
    NONE,
    OF_ANSWER,
    OF_CONNECT,
    OF_DISCONNECT,
    OF_PUBLISH,
    OF_SUBSCRIBE,
    OF_WILL,
    Property,
    read_properties,
)
from ges.mqtt.reasons import Reason

PROTOCOL_NAME = b"MQTT"
MAX_FILTERS = 1024  #: in one packet

#: Flags in the first byte of packets that have no choice of them (table 2.2).
_FLAGS = {Kind.SUBSCRIBE: 2, Kind.UNSUBSCRIBE: 2, Kind.PUBREL: 2}


def read_connect(first: int, body: bytes) -> Connect:
    """Read what must be a client's first packet.

    Raises:
        MqttError: it is another packet, cannot be read, or is of a version not spoken here.
    """
    if first != Kind.CONNECT << 4:
        raise wrong("the first packet is no CONNECT")
    fields = Fields(body)
    if (name := fields.binary()) != PROTOCOL_NAME:
        raise MqttError(Reason.UNSUPPORTED_VERSION, f"the protocol is {name[:16]!r}, not MQTT")
    level = fields.u8()
    if level not in (MQTT_3, MQTT_5):
        raise MqttError(
            Reason.UNSUPPORTED_VERSION, f"protocol level {level}; 4 (3.1.1) and 5 are spoken here"
        )
    flags = fields.u8()
    if flags & 1:
        raise malformed("the reserved flag of CONNECT is set")
    keep_alive = fields.u16()
    is_5 = level == MQTT_5
    properties = read_properties(fields, OF_CONNECT) if is_5 else NONE
    client_id = fields.text()
    will = _read_will(fields, flags, is_5=is_5)
    user = fields.text() if flags & 0x80 else None
    if flags & 0x40 and user is None and not is_5:
        raise malformed("a password without a user name")
    password = fields.binary() if flags & 0x40 else None
    fields.end()
    if Property.AUTH_DATA in properties.values and Property.AUTH_METHOD not in properties.values:
        raise wrong("authentication data without a method")
    clean = bool(flags & 2)
    return Connect(level, clean, keep_alive, client_id, user, password, will, properties)


def read_packet(first: int, body: bytes, level: int) -> Packet:
    """Read a later packet of a client that speaks MQTT of this level.

    Raises:
        MqttError: it cannot be read, or is none that a client may send.
    """
    try:
        kind = Kind(first >> 4)
    except ValueError:
        raise malformed(f"{first >> 4} is no type of a packet") from None
    if kind is Kind.PUBLISH:
        return _read_publish(first & 15, body, is_5=level == MQTT_5)
    if first & 15 != _FLAGS.get(kind, 0):
        raise malformed(f"flags {first & 15:#x} of {kind.name}")
    read = _READ.get(kind)
    if read is None:
        raise wrong(f"{kind.name} from a client")
    return read(Fields(body), level == MQTT_5)


def _read_will(fields: Fields, flags: int, *, is_5: bool) -> Will | None:
    qos, retain = flags >> 3 & 3, bool(flags & 0x20)
    if not flags & 4:
        if qos or retain:
            raise malformed("flags of a will, and no will")
        return None
    if qos == 3:
        raise malformed("a will of QoS 3")
    properties = read_properties(fields, OF_WILL) if is_5 else NONE
    topic, payload = fields.text(), fields.binary()
    message = Publish(topic, payload, qos, retain, properties=properties)
    return Will(message, properties.number(Property.WILL_DELAY, 0))


def _read_publish(flags: int, body: bytes, *, is_5: bool) -> Publish:
    qos, dup, retain = flags >> 1 & 3, bool(flags & 8), bool(flags & 1)
    if qos == 3:
        raise malformed("a message of QoS 3")
    if dup and not qos:
        raise malformed("a message of QoS 0 is marked as sent again")
    fields = Fields(body)
    topic = fields.text()
    packet_id = _read_packet_id(fields) if qos else 0
    properties = read_properties(fields, OF_PUBLISH) if is_5 else NONE
    return Publish(topic, fields.rest(), qos, retain, dup, packet_id, properties)


def _read_puback(fields: Fields, is_5: bool) -> Puback:
    packet_id = _read_packet_id(fields)
    if is_5 and fields.left:
        fields.u8()
        if fields.left:
            read_properties(fields, OF_ANSWER)
    fields.end()
    return Puback(packet_id)


def _read_subscribe(fields: Fields, is_5: bool) -> SubscribePacket:
    packet_id = _read_packet_id(fields)
    properties = read_properties(fields, OF_SUBSCRIBE) if is_5 else NONE
    wishes: list[Wish] = []
    while fields.left:
        text, options = fields.text(), fields.u8()
        qos, handling = options & 3, options >> 4 & 3
        if qos == 3 or options & (0xC0 if is_5 else 0xFC):
            raise malformed(f"options {options:#x} of a subscription")
        if handling == 3:
            raise wrong("retain handling 3 of a subscription")
        no_local = bool(options & 4)
        if no_local and text.startswith("$share/"):
            raise wrong("a shared subscription without a client's own messages")
        wishes.append(Wish(text, qos, no_local, bool(options & 8), handling))
    _check_many(len(wishes))
    return SubscribePacket(packet_id, tuple(wishes), properties.number(Property.SUBSCRIPTION_ID, 0))


def _read_unsubscribe(fields: Fields, is_5: bool) -> UnsubscribePacket:
    packet_id = _read_packet_id(fields)
    if is_5:
        read_properties(fields, (Property.USER,))
    filters: list[str] = []
    while fields.left:
        filters.append(fields.text())
    _check_many(len(filters))
    return UnsubscribePacket(packet_id, tuple(filters))


def _read_pingreq(fields: Fields, is_5: bool) -> Pingreq:
    fields.end()
    return Pingreq()


def _read_disconnect(fields: Fields, is_5: bool) -> DisconnectPacket:
    if not is_5 or not fields.left:
        fields.end()
        return DisconnectPacket()
    reason = fields.u8()
    properties = read_properties(fields, OF_DISCONNECT) if fields.left else NONE
    fields.end()
    expiry = properties.number(Property.SESSION_EXPIRY, -1)
    return DisconnectPacket(reason, None if expiry < 0 else expiry)


def _read_packet_id(fields: Fields) -> int:
    packet_id = fields.u16()
    if not packet_id:
        raise wrong("a packet identifier of 0")
    return packet_id


def _check_many(count: int) -> None:
    if not count:
        raise wrong("a packet about subscriptions without any")
    if count > MAX_FILTERS:
        raise MqttError(Reason.QUOTA, f"{count} filters in one packet; {MAX_FILTERS} are allowed")


_READ: dict[Kind, Callable[[Fields, bool], Packet]] = {
    Kind.PUBACK: _read_puback,
    Kind.SUBSCRIBE: _read_subscribe,
    Kind.UNSUBSCRIBE: _read_unsubscribe,
    Kind.PINGREQ: _read_pingreq,
    Kind.DISCONNECT: _read_disconnect,
}
