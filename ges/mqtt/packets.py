"""What MQTT clients and the door say to each other, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ges.mqtt.properties import NONE, Properties
from ges.mqtt.reasons import Reason

MQTT_3 = 4  #: the protocol level of MQTT 3.1.1 ...
MQTT_5 = 5  #: ... and of MQTT 5


class Kind(IntEnum):
    """The type of a packet (table 2.1)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


@dataclass(frozen=True, slots=True)
class Publish:
    """A message, either way."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0  #: 0: none, as with QoS 0
    properties: Properties = NONE
    subscription_ids: tuple[int, ...] = ()  #: only to clients


@dataclass(frozen=True, slots=True)
class Will:
    """What is to be published when a client goes without a word."""

    message: Publish
    delay_s: int = 0


@dataclass(frozen=True, slots=True)
class Connect:
    """A client greets."""

    level: int
    clean: bool
    keep_alive_s: int
    client_id: str
    user: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NONE


@dataclass(frozen=True, slots=True)
class Wish:
    """One filter of a SUBSCRIBE packet."""

    filter: str
    qos: int = 0
    no_local: bool = False
    as_published: bool = False  #: the retain flag stays as it was published
    handling: int = 0  #: retained values: 0: send them, 1: if it is new, 2: do not


@dataclass(frozen=True, slots=True)
class SubscribePacket:
    """A client wants messages."""

    packet_id: int
    wishes: tuple[Wish, ...]
    identifier: int = 0  #: comes with each message; 0: none


@dataclass(frozen=True, slots=True)
class UnsubscribePacket:
    """A client wants messages no more."""

    packet_id: int
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Puback:
    """A client has a message of QoS 1."""

    packet_id: int


@dataclass(frozen=True, slots=True)
class Pingreq:
    """A client is there."""


@dataclass(frozen=True, slots=True)
class DisconnectPacket:
    """A client goes, or is to go."""

    reason: int = Reason.SUCCESS
    session_expiry_s: int | None = None


Packet = (
    Connect | Publish | SubscribePacket | UnsubscribePacket | Puback | Pingreq | DisconnectPacket
)
