"""Messages to events and back: nothing of a message is lost, and no event makes a bad message."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ges.mqtt import writing
from ges.mqtt.mapping import Publisher, event_of, properties_of, with_rest
from ges.mqtt.packets import MQTT_5, Publish
from ges.mqtt.properties import Properties, Property
from ges.mqtt.reading import read_packet
from ges.wire.delivered import Event, read_events
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, frame

NOW_NS = 1_700_000_000_000_000_000
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
USER = st.lists(st.tuples(TEXT, TEXT), max_size=5).map(tuple)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        Property.PAYLOAD_FORMAT: st.just(1),
        Property.CONTENT_TYPE: TEXT.filter(bool),
        Property.RESPONSE_TOPIC: TEXT.filter(lambda text: text and not set("+#") & set(text)),
        Property.CORRELATION: st.binary(min_size=1, max_size=40),
    },
)


def as_event(message: Publish) -> Event:
    """Return what a subscriber gets of a message."""
    (event,) = read_events(frame(EVENT, event_of(message, Publisher(bytes(16), 1), 1, NOW_NS)))
    return event


@given(PROPERTIES, USER, st.binary(max_size=50), st.integers(0, 1), st.booleans())
def test_what_was_sent_comes_back(
    values: dict[Property, int | str | bytes],
    user: tuple[tuple[str, str], ...],
    payload: bytes,
    qos: int,
    retain: bool,
) -> None:
    sent = Properties(values, user)
    event = as_event(Publish("a/b", payload, qos, retain, properties=sent))
    assert (event.topic, event.payload, event.retain) == ("a/b", payload, retain)
    assert event.at_most_once is (qos == 0)
    assert properties_of(event) == sent


@given(
    st.dictionaries(
        st.one_of(
            TEXT, st.sampled_from(["mqtt-response-topic", "mqtt-correlation", "mqtt-content-type"])
        )
        | st.just("mqtt-user-properties"),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
        | st.sampled_from(['[["a","b\\u0000"]]', "[[]]", "a/+", "zz", '[["a","b"]]']),
        max_size=6,
    )
)
@example({"mqtt-content-type": "\0", "a\0": "b"})
def test_no_attributes_make_a_message_that_cannot_be_read(attributes: dict[str, str]) -> None:
    event = Event("t", b"", attributes, LinkClass.NORMAL, bytes(16).hex(), 1, NOW_NS, 0)
    packed = writing.publish(Publish("t", b"", properties=properties_of(event)), MQTT_5)
    at = 2 if packed[1] < 128 else 3
    read = read_packet(packed[0], packed[at:], MQTT_5)
    assert isinstance(read, Publish)
    response = read.properties.text(Property.RESPONSE_TOPIC)
    assert response is None or not set("+#") & set(response)


def test_an_end_is_a_time_and_the_rest_is_told() -> None:
    sent = Properties({Property.MESSAGE_EXPIRY: 90}, (("a", "b"),))
    message = Publish("t", b"", properties=sent)
    assert as_event(message).ends_unix_ms == 90_000, "which the broker makes a time of"
    told = with_rest(Publish("t", b"", properties=sent), 61_500, 1_000).properties
    assert told == Properties({Property.MESSAGE_EXPIRY: 61}, (("a", "b"),))
    assert with_rest(message, 1_001, 1_000).properties.number(Property.MESSAGE_EXPIRY, 0) == 1
    late = with_rest(message, 2**63 - 1, 1_000).properties
    assert late.number(Property.MESSAGE_EXPIRY, 0) == 2**32 - 1, "as much as MQTT can say"
