"""Reading frames (:mod:`overlay.wire.frames`), and what control messages look like in them.

A control frame holds one :class:`overlay.machine.Message` as a msgpack array that starts with the
message's name; msgspec checks types, ranges and lengths while decoding. Event frames are not
decoded here.

Everything a stranger can make us hold is bounded: a frame announces its length first, and a length
beyond the limit ends the connection before a byte of the body is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import msgspec

from overlay.errors import CodecError
from overlay.machine import Message
from overlay.wire.fragments import Assembler
from overlay.wire.frames import (
    CONTROL,
    FRAGMENT,
    HEADER,
    KINDS,
    LENGTH_AND_TAG,
    LENGTH_COVERS,
    LOWEST_VERSION,
    MAX_CONTROL_BYTES,
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    Bytes,
    frame,
)

#: Bytes for one read: about so many frames, as they have been of late, and not beyond these.
FRAMES_A_READ = 256
READ_BYTES = 32 * 1024
MAX_READ_BYTES = 256 * 1024

SMALL_PIECE = 4096  #: pieces below are joined: each takes memory of its own beside its bytes
UNCOPIED = 1024  #: bytes of an unfinished frame from which on what follows it is not joined to it
MANY = 8  #: frames of one length in a row that make it likely that others follow


def piece(data: bytes, start: int, end: int) -> Bytes:
    """Return a part of what was read, to be queued: copied unless it is most of it.

    A small part that is not copied would keep the whole in memory.
    """
    return memoryview(data)[start:end] if 2 * (end - start) > len(data) else data[start:end]


class FrameRun(msgspec.Struct, frozen=True, gc=False):
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


def _alike_at(data: bytes, at: int, size: int) -> int:
    """Return how many whole frames of ``size`` bytes begin one behind the other at ``at``.

    Their headers are the same: so all first bytes are, all second ones, and so on, and there is one
    comparison for each byte of a header instead of one for each frame.
    """
    count = (len(data) - at) // size
    end = at + count * size
    for byte in range(at, at + HEADER.size):
        column = data[byte:end:size]
        count = min(count, len(column) - len(column.lstrip(data[byte : byte + 1])))
    return count


class FrameReader:
    """Cuts a byte stream into frames.

    ``feed`` bytes as they come, then take ``runs`` or ``frames``; at most one unfinished frame is
    kept. Bytes are not copied while a frame is unfinished, but for small pieces.
    """

    __slots__ = ("_assembler", "_highest", "_limit", "_missing", "_pieces", "appetite")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self.appetite = READ_BYTES  #: bytes to read and feed next
        self._pieces: list[bytes] = []
        self._missing = 0  #: bytes to come before there is anything to cut
        self._assembler = Assembler(limit_bytes)
        self._limit = limit_bytes
        self._highest = PROTOCOL_VERSION

    @property
    def version(self) -> int:
        """The highest version of frames it takes."""
        return self._highest

    def agree(self, version: int) -> None:
        """Take frames of versions up to this one, as agreed in the greetings."""
        self._highest = version

    def limit(self, limit_bytes: int) -> None:
        """Change the largest length accepted, as when a stranger has become a peer."""
        self._limit = limit_bytes
        self._missing = 0
        self._assembler.limit(limit_bytes)

    @property
    def has_begun(self) -> bool:
        """A frame has begun, and is not whole yet."""
        return bool(self._pieces) or self._assembler.number > 0

    @property
    def in_slices(self) -> int:
        """Which frame in slices has begun and is not whole yet, as they are counted; 0: none.

        Others may have come whole since it began.
        """
        return self._assembler.number

    @property
    def kept_bytes(self) -> int:
        """Bytes of frames that are not whole yet."""
        return sum(map(len, self._pieces)) + self._assembler.kept_bytes

    def feed(self, data: bytes | bytearray) -> None:
        """Take more bytes from the connection."""
        pieces = self._pieces
        if pieces and len(pieces[-1]) < SMALL_PIECE and len(data) < SMALL_PIECE:
            pieces[-1] += data
        else:
            pieces.append(bytes(data))
        self._missing -= len(data)

    def next_frame(self) -> tuple[int, bytes] | None:
        """Return ``(kind, body)`` of the next whole frame alone, or None.

        Raises:
            CodecError: as :meth:`runs` does.
        """
        data = b"".join(self._pieces)
        self._pieces = [data]
        if len(data) < HEADER.size:
            return None
        length, tag = LENGTH_AND_TAG.unpack_from(data)
        self._check(length, tag, self._limit_of(tag))
        end = 4 + length
        if end > len(data):
            return None
        self._pieces = [data[end:]]
        return tag & 255, data[HEADER.size : end]

    def frames(self) -> list[tuple[int, bytes]]:
        """Return ``(kind, body)`` of every whole frame received.

        Raises:
            CodecError: as :meth:`runs` does.
        """
        return [(run.kind, body) for run in self.runs() for body in run.bodies()]

    def runs(self) -> list[FrameRun]:
        """Return every whole frame received, in runs of one kind.

        Raises:
            CodecError: the stream is not ours, or a frame is too long; the stream is then lost.
        """
        if self._missing > 0 or not self._pieces:
            return []
        found: list[FrameRun] = []
        pieces = self._pieces
        data = pieces[-1]
        before = sum(map(len, pieces)) - len(data)
        after = -self._missing  #: bytes of the last piece behind the frame that was unfinished
        at = 0
        if before > UNCOPIED and 0 < after < len(data):
            # A long frame is finished by the first bytes of the last piece; the rest of that piece
            # is cut where it stands.
            at = len(data) - after
            head = b"".join([*pieces[:-1], data[:at]])
            self._cut(head, 0, found)
        elif before:
            data = b"".join(pieces)
        end = self._cut(data, at, found)
        self._pieces = [data[end:]] if end < len(data) else []
        if found:
            frames = 0
            is_sliced = False
            for run in found:
                frames += len(run.bounds) - 1
                is_sliced = is_sliced or run.kind == FRAGMENT
            average = (before + len(data)) // frames
            self.appetite = min(max(READ_BYTES, average * FRAMES_A_READ), MAX_READ_BYTES)
            if is_sliced:
                return list(self._assembled(found))
        return found

    def _assembled(self, runs: list[FrameRun]) -> Iterator[FrameRun]:
        """Yield the runs, with whole frames in place of the last slices of long ones."""
        for run in runs:
            if run.kind != FRAGMENT:
                yield run
                continue
            for body in run.bodies():
                whole = self._assembler.take(body)
                if whole is not None:
                    yield self._whole(whole)

    def _whole(self, data: bytes) -> FrameRun:
        if len(data) >= HEADER.size:
            length, tag = LENGTH_AND_TAG.unpack_from(data)
            self._check(length, tag, self._limit_of(tag))
            if length + 4 == len(data) and tag & 255 not in (CONTROL, FRAGMENT):
                return FrameRun(tag & 255, data, [0, len(data)])
        raise CodecError(f"slices of {len(data)} bytes that make no event frame")

    def _cut(self, data: bytes, at: int, found: list[FrameRun]) -> int:
        """Add to ``found`` the whole frames from ``at`` on; return where they end."""
        size = len(data)
        last = size - HEADER.size  #: where a header may begin
        unpack = LENGTH_AND_TAG.unpack_from
        bounds: list[int] = []
        tag = -1  #: version and kind of the run
        limit = length = last_length = 0
        is_even = True  #: many frames of one length have followed each other, if any
        self._missing = 0
        while at <= last:
            length, this_tag = unpack(data, at)
            if this_tag != tag:
                limit = self._limit_of(this_tag)
                tag = this_tag
                bounds = []
            if not LENGTH_COVERS <= length <= limit:
                self._check(length, tag, limit)
            end = at + 4 + length
            if end > size:
                self._missing = end - size
                break
            if not bounds:
                bounds.append(at)
                found.append(FrameRun(tag & 255, data, bounds))
            if length == last_length and is_even:
                alike = _alike_at(data, at, 4 + length)
                is_even = alike >= MANY
                end = at + alike * (4 + length)
                bounds.extend(range(at + 4 + length, end, 4 + length))
            last_length = length
            bounds.append(end)
            at = end
        return at

    def _check(self, length: int, tag: int, limit: int) -> None:
        if not LENGTH_COVERS <= length <= limit:
            raise CodecError(f"no frame of kind {tag & 255} may have {length} bytes")

    def _limit_of(self, tag: int) -> int:
        version, kind = tag >> 8, tag & 255
        if not LOWEST_VERSION <= version <= self._highest:
            raise CodecError(f"a frame of version {version}, agreed is at most {self._highest}")
        if kind not in KINDS:
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
