"""The event that all systems of the comparison carry, and how frames of it are made and cut.

u32 length of what follows | u8 version | u8 kind | u8 topic bytes | topic | u64 stamp | payload
"""

from __future__ import annotations

import struct

from overlay.wire.frames import EVENT, HEADER, PROTOCOL_VERSION

TOPIC = b"bench/links"
_START = struct.Struct(f"!IBBB{len(TOPIC)}sQ")
LENGTH = struct.Struct("!I")
TOPIC_AT = HEADER.size + 1
STAMP_AT = TOPIC_AT + len(TOPIC)


def make(payload: bytes, stamp: int) -> bytes:
    """Return one frame."""
    length = _START.size - LENGTH.size + len(payload)
    return _START.pack(length, PROTOCOL_VERSION, EVENT, len(TOPIC), TOPIC, stamp) + payload


def topic_of(data: bytes, at: int) -> bytes:
    """Return the topic of the frame that begins at ``at``."""
    return data[at + TOPIC_AT : at + TOPIC_AT + data[at + HEADER.size]]
