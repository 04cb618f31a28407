"""The layout of frames.

A connection carries frames::

    u32 length of what follows | u8 protocol version | u8 kind | body

Control frames (kind 0) are messages, and long frames go in slices (kind 4):
:mod:`overlay.wire.codec` and :mod:`overlay.wire.fragments` read them. Event frames (kinds 1
and 2) are laid out by the layer above.
"""

from __future__ import annotations

import struct

PROTOCOL_VERSION = 3  #: the highest spoken
OLDEST_SPOKEN = 3  #: the lowest: before, subscriptions and headers of events were others
LOWEST_VERSION = 1  #: control frames are laid out as in this one, greetings for ever

#: Frame kinds.
CONTROL = 0
EVENT = 1
DELIVERY = 2
FRAGMENT = 4  #: a slice of a long frame
KINDS = frozenset((CONTROL, EVENT, DELIVERY, FRAGMENT))

MAX_CONTROL_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1024 * 1024 + 16 * 1024  #: a payload of 1 MiB, and all that goes before it

HEADER = struct.Struct("!IBB")
LENGTH_AND_TAG = struct.Struct("!IH")  #: the same, version and kind in one number
LENGTH_COVERS = 2  # version and kind are counted in the length


Bytes = bytes | bytearray | memoryview


def frame_start(kind: int, size: int) -> bytes:
    """Return what a frame begins with whose body has ``size`` bytes, in the highest version."""
    return HEADER.pack(size + LENGTH_COVERS, PROTOCOL_VERSION, kind)


def frame(kind: int, body: bytes, version: int | None = None) -> bytes:
    """Return ``body`` as one frame, in the layout of ``version``; None: that of its kind."""
    if version is None:
        version = LOWEST_VERSION if kind == CONTROL else PROTOCOL_VERSION
    return HEADER.pack(len(body) + LENGTH_COVERS, version, kind) + body
