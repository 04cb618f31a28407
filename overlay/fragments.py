"""Long frames in slices, so that others can go in between.

A slice is a frame of kind ``FRAGMENT``::

    u8 1 if it is the last, else 0 | bytes of the frame in slices, its header included

The slices of one frame follow each other on a connection, with frames of other kinds between them
at most. :class:`overlay.codec.FrameReader` puts them together again.
"""

from __future__ import annotations

import struct

from overlay.codec import FRAGMENT, HEADER, LENGTH_COVERS, PROTOCOL_VERSION, Bytes

SLICE_BYTES = 64 * 1024
LENGTH = struct.Struct("!I")  #: what a header begins with


def is_long(item: Bytes) -> bool:
    """Say whether an item is one frame that is to be sent in slices."""
    return len(item) > SLICE_BYTES and LENGTH.unpack_from(item)[0] + LENGTH.size == len(item)


def slice_at(frame: Bytes, at: int) -> tuple[bytes, memoryview]:
    """Return what stands before the slice that begins at ``at``, and the slice."""
    part = memoryview(frame)[at : at + SLICE_BYTES]
    is_last = at + SLICE_BYTES >= len(frame)
    length = len(part) + 1 + LENGTH_COVERS
    return HEADER.pack(length, PROTOCOL_VERSION, FRAGMENT) + bytes((is_last,)), part
