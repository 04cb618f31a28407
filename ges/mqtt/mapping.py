"""What MQTT has and events have not, and the reverse.

For example, a message with the content type ``text/csv`` and the user property ``unit`` = ``C``
becomes an event with the attributes ``mqtt-content-type`` and ``unit``. A subscriber with MQTT 5
gets the message as it was, any other subscriber gets the attributes.

Topics and filters are alike in both, but for what :mod:`ges.wire.topics` does not take: they have
at most 1024 bytes and 64 levels, and no control characters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import msgspec

from ges.errors import MqttError, TopicError
from ges.mqtt.codec import wrong
from ges.mqtt.packets import Publish
from ges.mqtt.properties import NONE, Properties, Property, Value
from ges.mqtt.reasons import Reason
from ges.wire.attributes import attribute_text, pack_attributes
from ges.wire.delivered import Event
from ges.wire.events import CORRELATION_BYTES, MAX_TTL_MS, pack_event
from ges.wire.topics import check_topic
from overlay.errors import ConfigError

#: The attributes of what only MQTT has.
CONTENT_TYPE = "mqtt-content-type"
RESPONSE_TOPIC = "mqtt-response-topic"
CORRELATION = "mqtt-correlation"  #: in hexadecimal, unless it has the size of an event's own
PAYLOAD_FORMAT = "mqtt-payload-format"
USER = "mqtt-user-properties"  #: all of them, as JSON, where a name is there more than once
_OWN = frozenset({CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, PAYLOAD_FORMAT, USER})
_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...])

MILLIS = 1000


@dataclass(frozen=True, slots=True)
class Publisher:
    """Whose events they are."""

    uid: bytes
    incarnation: int


def why_no_message(message: Publish) -> str | None:
    """Return why a message breaks MQTT's own rules, or None.

    Those of topics are in MQTT 5, section 4.7, and 3.3.2.3.5 is about the response topic.
    """
    response = message.properties.text(Property.RESPONSE_TOPIC)
    if "+" in message.topic or "#" in message.topic:
        return "a topic with a wildcard"
    if response is not None and ("+" in response or "#" in response or not response):
        return "a response topic that is none"
    return None


def event_of(message: Publish, publisher: Publisher, sequence: int, now_ns: int) -> bytes:
    """Return the body of the event that a message becomes.

    Raises:
        MqttError: its topic is none that brokers take, or its properties are too large.
    """
    try:
        topic = check_topic(message.topic).encode()
    except TopicError as error:
        raise MqttError(Reason.TOPIC_NAME, str(error)) from None
    properties = message.properties
    attributes = {name: value for name, value in properties.user if name not in _OWN}
    correlation = properties.binary(Property.CORRELATION) or b""
    own = {
        CONTENT_TYPE: properties.text(Property.CONTENT_TYPE),
        RESPONSE_TOPIC: properties.text(Property.RESPONSE_TOPIC),
        CORRELATION: correlation.hex() if len(correlation) != CORRELATION_BYTES else None,
        PAYLOAD_FORMAT: "1" if properties.number(Property.PAYLOAD_FORMAT, 0) else None,
    }
    if len(attributes) < len(properties.user):
        own[USER] = msgspec.json.encode(properties.user).decode()
    attributes |= {name: value for name, value in own.items() if value}
    try:
        packed = pack_attributes(attributes)
    except ConfigError as error:
        raise MqttError(Reason.QUOTA, f"properties of a message: {error}") from None
    return pack_event(
        False,
        publisher.uid,
        publisher.incarnation,
        sequence,
        now_ns,
        topic,
        packed,
        message.payload,
        correlation=correlation if len(correlation) == CORRELATION_BYTES else b"",
        retain=message.retain,
        # It ends at once if it says 0; an event has a millisecond at least.
        ttl_ms=max(1, MILLIS * expiry) if (expiry := _expiry(properties)) is not None else 0,
        at_most_once=message.qos == 0,
    )


def with_rest(message: Publish, ends_ms: int, now_ms: int) -> Publish:
    """Return a message that says for how many seconds from now on it counts; one at least."""
    rest = min(max(1, ceil((ends_ms - now_ms) / MILLIS)), MAX_TTL_MS // MILLIS)
    properties = message.properties
    values = {**properties.values, Property.MESSAGE_EXPIRY: rest}
    return replace(message, properties=Properties(values, properties.user))


def properties_of(event: Event) -> Properties:
    """Return the properties of the message that an event becomes, but for when it ends."""
    values: dict[Property, Value] = {}
    attributes = {name: attribute_text(value) for name, value in event.attributes.items()}
    correlation = event.correlation
    if event.reply_to:
        values[Property.RESPONSE_TOPIC] = event.reply_to
    if not attributes:
        if correlation:
            values[Property.CORRELATION] = correlation
        return Properties(values) if values else NONE
    if attributes.get(PAYLOAD_FORMAT) == "1":
        values[Property.PAYLOAD_FORMAT] = 1
    # MQTT takes no U+0000, and whoever publishes may set attributes to anything.
    if (text := attributes.get(CONTENT_TYPE)) is not None and "\0" not in text:
        values[Property.CONTENT_TYPE] = text
    if (text := attributes.get(RESPONSE_TOPIC)) is not None and _is_topic(text):
        values.setdefault(Property.RESPONSE_TOPIC, text)
    if not correlation and (text := attributes.get(CORRELATION)) is not None:
        correlation = _unhexed(text)
    if correlation:
        values[Property.CORRELATION] = correlation
    user = [(name, value) for name, value in attributes.items() if name not in _OWN]
    if (text := attributes.get(USER)) is not None:
        user = [*_read_pairs(text)] or user
    return Properties(values, tuple(pair for pair in user if "\0" not in pair[0] + pair[1]))


def checked_wildcards(message: Publish) -> Publish:
    """Return a message that keeps MQTT's own rules.

    Raises:
        MqttError: it does not.
    """
    problem = why_no_message(message)
    if problem is not None:
        if problem.startswith("a topic"):
            raise MqttError(Reason.TOPIC_NAME, problem)
        raise wrong(problem)
    return message


def _expiry(properties: Properties) -> int | None:
    value = properties.number(Property.MESSAGE_EXPIRY, -1)
    return None if value < 0 else value


def _is_topic(text: str) -> bool:
    """Say whether a client may be told to answer there: anybody may have set the attribute."""
    return bool(text) and not any(each in text for each in "+#\0")


def _read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Read what stands in :data:`USER`; nothing, where that is something else."""
    try:
        return _pairs.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ()


def _unhexed(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
