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
from operator import or_
from typing import Any

import msgspec

from overlay.errors import CodecError
from overlay.machine import Message

PROTOCOL_VERSION = 1  #: the highest spoken
LOWEST_VERSION = 1  #: the lowest; greetings are framed so for ever

#: Frame kinds.
CONTROL = 0
EVENT = 1
DELIVERY = 2
DETOUR = 3  #: an event on its way round a failed link

MAX_CONTROL_BYTES = 64 * 1024
MAX_FRAME_BYTES = 1024 * 1024 + 8 * 1024  #: a payload of 1 MiB, its topic and its attributes

HEADER = struct.Struct("!IBB")
_LENGTH_COVERS = 2  # version and kind are counted in the length


def frame(kind: int, body: bytes, version: int = LOWEST_VERSION) -> bytes:
    """Return ``body`` as one frame, in the layout of ``version``."""
    return HEADER.pack(len(body) + _LENGTH_COVERS, version, kind) + body


class FrameReader:
    """Cuts a byte stream into frames.

    ``feed`` bytes as they come, then take ``frames``; at most one unfinished frame is kept.
    """

    __slots__ = ("_buffer", "_highest", "_limit")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = bytearray()
        self._limit = limit_bytes
        self._highest = LOWEST_VERSION

    @property
    def version(self) -> int:
        """The highest version of frames it takes."""
        return self._highest

    @property
    def has_begun(self) -> bool:
        """A frame has begun, and is not whole yet."""
        return bool(self._buffer)

    def agree(self, version: int) -> None:
        """Take frames of versions up to this one, as agreed in the greetings."""
        self._highest = version

    def limit(self, limit_bytes: int) -> None:
        """Change the largest length accepted, as when a stranger has become a peer."""
        self._limit = limit_bytes

    def feed(self, data: bytes | bytearray) -> None:
        """Take more bytes from the connection."""
        self._buffer += data

    def next_frame(self) -> tuple[int, bytes] | None:
        """Return ``(kind, body)`` of the next whole frame alone, or None.

        Raises:
            CodecError: as :meth:`frames` does.
        """
        for kind, body, end in self._cut():
            del self._buffer[:end]
            return kind, body
        return None

    def frames(self) -> list[tuple[int, bytes]]:
        """Return ``(kind, body)`` of every whole frame received.

        Raises:
            CodecError: the stream is not ours, or a frame is too long; the stream is then lost.
        """
        found = []
        end = 0
        for kind, body, end in self._cut():  # noqa: B007 - the last end counts
            found.append((kind, body))
        del self._buffer[:end]
        return found

    def _cut(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield kind, body and end of each whole frame in the buffer."""
        buffer = self._buffer
        size = len(buffer)
        at = 0
        unpack = HEADER.unpack_from
        highest = self._highest
        while size - at >= HEADER.size:
            length, version, kind = unpack(buffer, at)
            if not LOWEST_VERSION <= version <= highest:
                raise CodecError(f"a frame of version {version}, agreed is at most {highest}")
            if length < _LENGTH_COVERS or length > self._limit or kind > DETOUR:
                raise CodecError(f"no frame of kind {kind} may have {length} bytes")
            if kind == CONTROL and length > MAX_CONTROL_BYTES:
                raise CodecError(f"control message of {length} bytes")
            end = at + 4 + length
            if end > size:
                return
            yield kind, bytes(buffer[at + HEADER.size : end]), end
            at = end


class MessageCodec:
    """Encodes and decodes the control messages it was made for."""

    def __init__(self, *types: type[Message]) -> None:
        names = [kind.__struct_config__.tag for kind in types]
        if len(set(names)) != len(names):
            raise ValueError(f"two messages share a name: {sorted(map(str, names))}")
        union: Any = reduce(or_, types)
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(union)
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, message: Message, version: int = LOWEST_VERSION) -> bytes:
        """Return ``message`` as a whole frame of that version."""
        return frame(CONTROL, self._encoder.encode(message), version)

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
