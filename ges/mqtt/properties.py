"""Properties of MQTT 5 packets (section 2.2.2): which there are, and in which packets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from ges.errors import MqttError
from ges.mqtt.codec import (
    Fields,
    malformed,
    packed_binary,
    packed_text,
    packed_u16,
    packed_u32,
    packed_varint,
    wrong,
)

MAX_USER = 64  #: user properties of one packet


class Property(IntEnum):
    """A property, by its identifier."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTH_METHOD = 0x15
    AUTH_DATA = 0x16
    PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    RESPONSE_INFORMATION = 0x19
    RESPONSE_TOPICS = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER = 0x26
    MAXIMUM_PACKET = 0x27
    WILDCARDS_AVAILABLE = 0x28
    IDENTIFIERS_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


class _Form(Enum):
    BYTE = "byte"
    FLAG = "flag"  #: a byte that is 0 or 1
    U16 = "u16"
    U16_POSITIVE = "u16, not 0"
    U32 = "u32"
    U32_POSITIVE = "u32, not 0"
    VARINT_POSITIVE = "varint, not 0"
    TEXT = "text"
    BINARY = "binary"


_FORMS = {
    Property.PAYLOAD_FORMAT: _Form.FLAG,
    Property.MESSAGE_EXPIRY: _Form.U32,
    Property.CONTENT_TYPE: _Form.TEXT,
    Property.RESPONSE_TOPIC: _Form.TEXT,
    Property.CORRELATION: _Form.BINARY,
    Property.SUBSCRIPTION_ID: _Form.VARINT_POSITIVE,
    Property.SESSION_EXPIRY: _Form.U32,
    Property.ASSIGNED_CLIENT_ID: _Form.TEXT,
    Property.SERVER_KEEP_ALIVE: _Form.U16,
    Property.AUTH_METHOD: _Form.TEXT,
    Property.AUTH_DATA: _Form.BINARY,
    Property.PROBLEM_INFORMATION: _Form.FLAG,
    Property.WILL_DELAY: _Form.U32,
    Property.RESPONSE_INFORMATION: _Form.FLAG,
    Property.RESPONSE_TOPICS: _Form.TEXT,
    Property.SERVER_REFERENCE: _Form.TEXT,
    Property.REASON_STRING: _Form.TEXT,
    Property.RECEIVE_MAXIMUM: _Form.U16_POSITIVE,
    Property.TOPIC_ALIAS_MAXIMUM: _Form.U16,
    Property.TOPIC_ALIAS: _Form.U16,
    Property.MAXIMUM_QOS: _Form.FLAG,
    Property.RETAIN_AVAILABLE: _Form.FLAG,
    Property.MAXIMUM_PACKET: _Form.U32_POSITIVE,
    Property.WILDCARDS_AVAILABLE: _Form.FLAG,
    Property.IDENTIFIERS_AVAILABLE: _Form.FLAG,
    Property.SHARED_AVAILABLE: _Form.FLAG,
}

OF_CONNECT = frozenset(
    {
        Property.SESSION_EXPIRY,
        Property.RECEIVE_MAXIMUM,
        Property.MAXIMUM_PACKET,
        Property.TOPIC_ALIAS_MAXIMUM,
        Property.RESPONSE_INFORMATION,
        Property.PROBLEM_INFORMATION,
        Property.AUTH_METHOD,
        Property.AUTH_DATA,
        Property.USER,
    }
)
OF_MESSAGE = frozenset(
    {
        Property.PAYLOAD_FORMAT,
        Property.MESSAGE_EXPIRY,
        Property.CONTENT_TYPE,
        Property.RESPONSE_TOPIC,
        Property.CORRELATION,
        Property.USER,
    }
)
OF_WILL = OF_MESSAGE | {Property.WILL_DELAY}
OF_PUBLISH = OF_MESSAGE | {Property.TOPIC_ALIAS}
OF_SUBSCRIBE = frozenset({Property.SUBSCRIPTION_ID, Property.USER})
OF_ANSWER = frozenset({Property.REASON_STRING, Property.USER})
OF_DISCONNECT = OF_ANSWER | {Property.SESSION_EXPIRY}

Value = int | str | bytes


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of one packet; user properties may have a name more than once."""

    values: Mapping[Property, Value] = field(default_factory=dict)
    user: tuple[tuple[str, str], ...] = ()

    def number(self, name: Property, default: int) -> int:
        """Return a property that is a number."""
        value = self.values.get(name, default)
        assert isinstance(value, int)
        return value

    def text(self, name: Property) -> str | None:
        """Return a property that is text, if it is there."""
        value = self.values.get(name)
        assert value is None or isinstance(value, str)
        return value

    def binary(self, name: Property) -> bytes | None:
        """Return a property that is bytes, if it is there."""
        value = self.values.get(name)
        assert value is None or isinstance(value, bytes)
        return value


NONE = Properties()


def read_properties(fields: Fields, allowed: Collection[Property]) -> Properties:
    """Read the properties of a packet in which some are allowed.

    Raises:
        MqttError: one is none, is not allowed here, is there twice, or makes no sense.
    """
    part = fields.part(fields.varint())
    values: dict[Property, Value] = {}
    user: list[tuple[str, str]] = []
    while part.left:
        identifier = part.varint()
        try:
            name = Property(identifier)
        except ValueError:
            raise malformed(f"{identifier:#x} is no property") from None
        if name not in allowed:
            raise wrong(f"the property {name.name} does not belong here")
        if name is Property.USER:
            user.append((part.text(), part.text()))
            if len(user) > MAX_USER:
                raise wrong(f"more than {MAX_USER} user properties")
            continue
        if name in values:
            raise wrong(f"the property {name.name} is there twice")
        values[name] = _read(part, name)
    return Properties(values, tuple(user))


def pack_properties(properties: Properties) -> bytes:
    """Return properties as they stand in a packet, with their length in front."""
    parts = [bytes((name,)) + _packed(name, value) for name, value in properties.values.items()]
    parts += [
        bytes((Property.USER,)) + packed_text(name) + packed_text(value)
        for name, value in properties.user
    ]
    body = b"".join(parts)
    return packed_varint(len(body)) + body


def _read(fields: Fields, name: Property) -> Value:
    form = _FORMS[name]
    if form is _Form.TEXT:
        return fields.text()
    if form is _Form.BINARY:
        return fields.binary()
    if form in (_Form.BYTE, _Form.FLAG):
        value = fields.u8()
    elif form in (_Form.U16, _Form.U16_POSITIVE):
        value = fields.u16()
    elif form is _Form.VARINT_POSITIVE:
        value = fields.varint()
    else:
        value = fields.u32()
    if form is _Form.FLAG and value > 1:
        raise wrong(f"the property {name.name} is {value}; 0 and 1 are allowed")
    if "not 0" in form.value and not value:
        raise wrong(f"the property {name.name} is 0")
    return value


def _packed(name: Property, value: Value) -> bytes:
    form = _FORMS[name]
    if isinstance(value, str):
        return packed_text(value)
    if isinstance(value, bytes):
        return packed_binary(value)
    if form in (_Form.BYTE, _Form.FLAG):
        return bytes((value,))
    if form in (_Form.U16, _Form.U16_POSITIVE):
        return packed_u16(value)
    return packed_varint(value) if form is _Form.VARINT_POSITIVE else packed_u32(value)


__all__ = [
    "NONE",
    "OF_ANSWER",
    "OF_CONNECT",
    "OF_DISCONNECT",
    "OF_PUBLISH",
    "OF_SUBSCRIBE",
    "OF_WILL",
    "MqttError",
    "Properties",
    "Property",
    "pack_properties",
    "read_properties",
]
