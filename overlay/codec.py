"""Frames and control messages.

A connection carries frames::

    u32 length of what follows | u8 protocol version | u8 kind | body

Control frames (kind 0) hold one :class:`overlay.machine.Message` as a msgpack array that starts
with the message's name; msgspec checks types, ranges and lengths while decoding. Event frames
(kinds 1 to 3) are laid out by the layer above and are not decoded here.

Everything a stranger can make us hold is bounded: a frame announces its length first, and a length
beyond the limit ends the connection before a byte of the body is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import msgspec

from overlay.errors import CodecError
from overlay.machine import Message

PROTOCOL_VERSION = 1

#: Frame kinds.
CONTROL = 0
EVENT = 1
DELIVERY = 2
DETOUR = 3  #: an event on its way round a failed link
LAST_KIND = DETOUR

MAX_CONTROL_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1024 * 1024 + 16 * 1024  #: a payload of 1 MiB, and all that goes before it

HEADER = struct.Struct("!IBB")
_LENGTH_AND_TAG = struct.Struct("!IH")  #: the same, version and kind in one number
_LENGTH_COVERS = 2  # version and kind are counted in the length


def frame(kind: int, body: bytes) -> bytes:
    """Return ``body`` as one frame."""
    return HEADER.pack(len(body) + _LENGTH_COVERS, PROTOCOL_VERSION, kind) + body


class Run(msgspec.Struct, frozen=True, gc=False):
    """Frames of one kind that came one behind the other, still in the bytes they came in.

    Frame ``i`` is ``data[bounds[i]:bounds[i + 1]]``, its header included, so neighbours can be
    passed on as one slice.
    """

    kind: int
    data: bytes
    bounds: list[int]

    def bodies(self) -> Iterator[bytes]:
        """Yield a copy of the body of each frame."""
        for start, end in pairwise(self.bounds):
            yield self.data[start + HEADER.size : end]


class FrameReader:
    """Cuts a byte stream into frames.

    ``feed`` bytes as they come, then take ``runs`` or ``frames``; at most one unfinished frame is
    kept. Bytes are not copied while a frame is unfinished, however many pieces it comes in.
    """

    __slots__ = ("_limit", "_missing", "_pieces")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._pieces: list[bytes] = []
        self._missing = 0  #: bytes to come before there is anything to cut
        self._limit = limit_bytes

    def limit(self, limit_bytes: int) -> None:
        """Change the largest length accepted, as when a stranger has become a peer."""
        self._limit = limit_bytes
        self._missing = 0

    def feed(self, data: bytes | bytearray) -> None:
        """Take more bytes from the connection."""
        self._pieces.append(bytes(data))
        self._missing -= len(data)

    def next_frame(self) -> tuple[int, bytes] | None:
        """Return ``(kind, body)`` of the next whole frame alone, or None.

        Raises:
            CodecError: as :meth:`runs` does.
        """
        for run in self._cut(most=1):
            return run.kind, next(run.bodies())
        return None

    def frames(self) -> list[tuple[int, bytes]]:
        """Return ``(kind, body)`` of every whole frame received.

        Raises:
            CodecError: as :meth:`runs` does.
        """
        return [(run.kind, body) for run in self.runs() for body in run.bodies()]

    def runs(self) -> list[Run]:
        """Return every whole frame received, in runs of one kind.

        Raises:
            CodecError: the stream is not ours, or a frame is too long; the stream is then lost.
        """
        return self._cut()

    def _cut(self, most: int = 2**31) -> list[Run]:
        """Take up to ``most`` frames from the beginning of what was fed."""
        if self._missing > 0 or not self._pieces:
            return []
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        found: list[Run] = []
        size = len(data)
        last = size - HEADER.size  #: where a header may begin
        unpack = _LENGTH_AND_TAG.unpack_from
        at = 0
        tag = -1  #: version and kind of the run
        limit = 0
        bounds: list[int] = []
        while at <= last and most:
            length, this_tag = unpack(data, at)
            if this_tag != tag:
                tag = this_tag
                limit = self._limit_of(tag)
                bounds = [at]
                new = True
            if not _LENGTH_COVERS <= length <= limit:
                raise CodecError(f"no frame of kind {tag & 255} may have {length} bytes")
            end = at + 4 + length
            if end > size:
                self._missing = end - size
                break
            if new:
                found.append(Run(tag & 255, data, bounds))
                new = False
            bounds.append(end)
            at = end
            most -= 1
        else:
            self._missing = 0
        self._pieces = [data[at:]] if at < size else []
        return found

    def _limit_of(self, tag: int) -> int:
        version, kind = tag >> 8, tag & 255
        if version != PROTOCOL_VERSION:
            raise CodecError(f"protocol version {version}, this broker speaks {PROTOCOL_VERSION}")
        if kind > LAST_KIND:
            raise CodecError(f"no frame is of kind {kind}")
        return min(self._limit, MAX_CONTROL_BYTES) if kind == CONTROL else self._limit


class MessageCodec:
    """Encodes and decodes the control messages it was made for."""

    def __init__(self, *types: type[Message]) -> None:
        names = [kind.__struct_config__.tag for kind in types]
        if len(set(names)) != len(names):
            raise ValueError(f"two messages share a name: {sorted(map(str, names))}")
        union: Any = reduce(or_, types)
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(union)
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, message: Message) -> bytes:
        """Return ``message`` as a whole frame."""
        return frame(CONTROL, self._encoder.encode(message))

    def decode(self, body: bytes) -> Message:
        """Return the message in the body of a control frame.

        Raises:
            CodecError: it is none, or a field is out of bounds; the text names the field.
        """
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise CodecError(f"bad message: {error}") from None
        except (UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise CodecError(f"bad message: {type(error).__name__}") from None
