"""Long frames in slices, so that others can go in between.

A slice is a frame of kind ``FRAGMENT``::

    u8 1 if it is the last, else 0 | bytes of the frame in slices, its header included

The slices of one frame follow each other on a connection, with frames of other kinds between them
at most.
"""

from __future__ import annotations

import struct

from overlay.errors import CodecError
from overlay.wire.frames import FRAGMENT, Bytes, frame_start

SLICE_BYTES = 64 * 1024
MIN_SLICE_BYTES = 1024  #: of a slice that is not the last, so that there are not too many
LENGTH = struct.Struct("!I")  #: what a header begins with


def is_long(item: Bytes) -> bool:
    """Say whether an item is one frame that is to be sent in slices."""
    return len(item) > SLICE_BYTES and LENGTH.unpack_from(item)[0] + LENGTH.size == len(item)


def slice_at(frame: Bytes, at: int) -> tuple[bytes, memoryview]:
    """Return what stands before the slice that begins at ``at``, and the slice."""
    part = memoryview(frame)[at : at + SLICE_BYTES]
    is_last = at + SLICE_BYTES >= len(frame)
    return frame_start(FRAGMENT, 1 + len(part)) + bytes((is_last,)), part


class Assembler:
    """Puts the slices of one connection together again.

    It keeps no more than one unfinished frame of the largest size allowed.
    """

    __slots__ = ("_finished", "_limit", "_parts", "_size")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._finished = 0  #: frames

    @property
    def number(self) -> int:
        """Which frame has begun and is not whole, as they are counted from 1; 0: none."""
        return self._finished + 1 if self._parts else 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the unfinished frame."""
        return self._size

    def take(self, body: bytes) -> bytes | None:
        """Take the body of a fragment; returns the whole frame after the last.

        Raises:
            CodecError: the frame gets too long, or is cut too finely.
        """
        self._size += len(body) - 1
        if len(body) < 2 or body[0] > 1 or self._size > self._limit + 4:
            raise CodecError(f"fragment of {len(body)} bytes, {self._size} in all")
        if not body[0] and len(body) <= MIN_SLICE_BYTES:
            raise CodecError(f"fragment of {len(body)} bytes that is not the last")
        self._parts.append(body[1:])
        if not body[0]:
            return None
        whole = b"".join(self._parts)
        self._parts.clear()
        self._finished += 1
        self._size = 0
        return whole

    def limit(self, limit_bytes: int) -> None:
        """Change the largest length accepted."""
        self._limit = limit_bytes
