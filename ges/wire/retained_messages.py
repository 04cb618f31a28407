"""What members say to each other of the retained values that they keep.

The values themselves travel as events, over links of their class.
"""

from __future__ import annotations

import struct
from typing import Annotated

import msgspec

from overlay.machine import Message

BUCKETS = 256  #: of topics

_MARKS = struct.Struct(f"!{BUCKETS}Q")


class RetainedWanted(Message, frozen=True):
    """Send me your values in the buckets whose marks differ from mine.

    ``answer``: the sender was asked this itself, and has sent what it has; it is not asked back.
    """

    secure: bool
    marks: Annotated[bytes, msgspec.Meta(min_length=_MARKS.size, max_length=_MARKS.size)]
    answer: bool


def pack_marks(marks: tuple[int, ...]) -> bytes:
    """Return the marks of all buckets as they go over the wire."""
    return _MARKS.pack(*marks)


def read_marks(packed: bytes) -> tuple[int, ...]:
    """Return what :func:`pack_marks` has packed."""
    return _MARKS.unpack(packed)


RETAINED_MESSAGES: tuple[type[Message], ...] = (RetainedWanted,)
