"""The first packet of an MQTT client: whether it makes sense here, and what is answered. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ges.errors import MqttError, TopicError
from ges.mqtt.aliases import TOPIC_ALIASES
from ges.mqtt.codec import wrong
from ges.mqtt.mapping import checked_wildcards
from ges.mqtt.packets import MQTT_5, Connect
from ges.mqtt.properties import NONE, Properties, Property, Value
from ges.mqtt.reasons import Reason
from ges.wire.topics import check_topic

RECEIVE_MAXIMUM = 1024  #: messages of QoS 1 from a client that are not acknowledged yet
KEEP_ALIVE_S = 600  #: a client of MQTT 5 is told to be heard that often, if it wanted less
MAX_CLIENT_ID_BYTES = 256
MAX_USER_BYTES = 256


@dataclass(frozen=True, slots=True)
class Greeted:
    """What a client is told, and what holds for it."""

    client_id: str
    keep_alive_s: int  #: 0: it need not be heard
    properties: Properties = NONE


def greet(connect: Connect, fresh_id: str, packet_bytes: int) -> Greeted:
    """Return what is answered to a client; ``fresh_id`` is for one that has no name.

    Raises:
        MqttError: it is not served as it is; ``reason`` goes into its CONNACK.
    """
    is_5 = connect.level == MQTT_5
    if Property.AUTH_METHOD in connect.properties.values:
        raise MqttError(Reason.BAD_METHOD, "no methods of authentication are served here")
    client_id = connect.client_id
    if len(client_id.encode()) > MAX_CLIENT_ID_BYTES:
        raise MqttError(Reason.CLIENT_ID, f"a client id of more than {MAX_CLIENT_ID_BYTES} bytes")
    if not client_id and not is_5 and not connect.clean:
        raise MqttError(Reason.CLIENT_ID, "an empty client id is for clean sessions")
    if connect.user is not None and len(connect.user.encode()) > MAX_USER_BYTES:
        raise MqttError(Reason.BAD_CREDENTIALS, f"a user name of more than {MAX_USER_BYTES} bytes")
    _check_will(connect)
    keep_alive = connect.keep_alive_s
    values: dict[Property, Value] = {}
    if is_5:
        values |= {
            Property.RECEIVE_MAXIMUM: RECEIVE_MAXIMUM,
            Property.MAXIMUM_QOS: 1,
            Property.MAXIMUM_PACKET: packet_bytes,
            Property.TOPIC_ALIAS_MAXIMUM: TOPIC_ALIASES,
        }
        if connect.properties.number(Property.SESSION_EXPIRY, 0):
            values[Property.SESSION_EXPIRY] = 0  # sessions end with their connections
        if not client_id:
            values[Property.ASSIGNED_CLIENT_ID] = fresh_id
        if not 0 < keep_alive <= KEEP_ALIVE_S:
            keep_alive = values[Property.SERVER_KEEP_ALIVE] = KEEP_ALIVE_S
    return Greeted(client_id or fresh_id, keep_alive, Properties(values))


def _check_will(connect: Connect) -> None:
    if connect.will is None:
        return
    message = connect.will.message
    if message.qos == 2 and connect.level == MQTT_5:  # of MQTT 3.1.1 it is published as of QoS 1
        raise MqttError(Reason.QOS, "a will of QoS 2; QoS 0 and 1 are served here")
    if not message.topic:
        raise wrong("a will without a topic")
    checked_wildcards(message)
    try:
        check_topic(message.topic)
    except TopicError as error:
        raise MqttError(Reason.TOPIC_NAME, str(error)) from None
