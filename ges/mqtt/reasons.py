"""Reason codes of MQTT 5 (section 2.4), and what MQTT 3.1.1 has in their place."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why something is as it is; from 0x80 on it has failed."""

    SUCCESS = 0x00
    WITH_WILL = 0x04
    NO_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID = 0x85
    BAD_CREDENTIALS = 0x86
    NOT_AUTHORIZED = 0x87
    UNAVAILABLE = 0x88
    BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    BAD_METHOD = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    TOPIC_FILTER = 0x8F
    TOPIC_NAME = 0x90
    RECEIVE_MAXIMUM = 0x93
    TOPIC_ALIAS = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA = 0x97
    ADMINISTRATIVE = 0x98
    PAYLOAD_FORMAT = 0x99
    QOS = 0x9B
    SHARED = 0x9E
    CONNECTION_RATE = 0x9F


#: Return codes of CONNACK in MQTT 3.1.1 (table 3.1); what is not here is 3, server unavailable.
RETURN_CODES = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID: 2,
    Reason.BAD_CREDENTIALS: 4,
    Reason.BAD_METHOD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
UNAVAILABLE_CODE = 3
SUBSCRIPTION_FAILED = 0x80  #: in the SUBACK of MQTT 3.1.1
