"""Frames that anybody who reaches a port can send: of every kind, at the edges of every field.

Most fields of a frame are as they should be, one to three are not, so that a frame comes as far as
it can. Many events are marked, or leave a gap before them: these are held before they are read
again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from ges.wire.attributes import MAX_ATTRIBUTE_BYTES
from ges.wire.event_flags import (
    CORRELATION_FLAG,
    EXPIRES_FLAG,
    EXPRESS_FLAG,
    FLAGS,
    GROUPS_FLAG,
    LEVELS_FLAG,
    MARK_FLAG,
    NAMED_FLAG,
    RECALLED_FLAG,
    RETAIN_FLAG,
    STORED_FLAG,
)
from ges.wire.events import HEADER, MAX_PAYLOAD_BYTES, WORD_BYTES
from ges.wire.groups import Serving
from ges.wire.levels import UPPER_BYTES
from ges.wire.names import pack_names
from overlay.ids import MAX_COUNT, MAX_SEQUENCE
from overlay.wire.frames import CONTROL, DELIVERY, EVENT, FRAGMENT, frame

Draw = Callable[[random.Random], int]

LAST_NUMBERS = 100  #: drawn of one life where numbers are the largest
EVERYBODY = 2**64 - 1  #: as destinations

_COUNTS = (0, 1, 2, 3, 2**31, 2**32, MAX_SEQUENCE, MAX_COUNT, MAX_COUNT + 1, 2**64 - 1)
_TIMES = (0, 0, 1, 2, 2**32, 2**41, 2**62, MAX_COUNT, MAX_COUNT + 1)
_GAPS = (1, 1, 2, 40)  #: between the numbers of two events
_KINDS = (EVENT, DELIVERY, CONTROL, FRAGMENT)
_U32 = (0, 1, 2**31, 2**32 - 1)
_MASKS = (0, 1, 2, EVERYBODY, 1 << 63)
_PARTS = (CORRELATION_FLAG, EXPRESS_FLAG, GROUPS_FLAG, LEVELS_FLAG, RETAIN_FLAG, EXPIRES_FLAG)
_LATER = tuple(each for each in FLAGS if each.bit >> 18)  #: what later versions may say
_attributes = msgspec.msgpack.Encoder().encode

#: What stands where topics do.
_TOPICS = (
    *(b"odd", b"odd/" + b"a/" * 62 + b"b", b"", b"\xff\xfe", b"odd/\x00", b"odd/\x1b[2J", b"odd/+"),
    *(b"#", b"$name/kitchen", b"$SYS/odd", b"odd/" + b"a" * 1019, b"odd/" + b"/" * 64),
)
#: What stands where attributes do.
_ATTRIBUTES = (
    *(b"", _attributes({"unit": "C"}), _attributes({"a" * 60: "b" * 4000}), b"\xc0", b"\xc1"),
    *(b"\x80", b"\x81", b"\x81\xa1k\xa1", b"\x81\xa1k\xa1\xff", _attributes({"k": 1})),
    *(_attributes({1: "v"}), _attributes([1, 2]), b"\xdf\xff\xff\xff\xff", b"\x91" * 3000),
    *(_attributes({"mqtt-user-properties": '[["a","\\ud800"]]'}), bytes(MAX_ATTRIBUTE_BYTES)),
    _attributes({"mqtt-response-topic": "#", "mqtt-content-type": "\0", "traceparent": "00-"}),
)
#: What stands before the payload of an event that is for named clients.
_NAMES = (
    *(pack_names(["kitchen"]), pack_names(["kitchen", "hall"]), b"", b"\0", b"\0\0", b"\xff\xff"),
    *(b"\0\x02\x01", b"\0\x02\x01?", b"\0\x03\x01ab", b"\0\x01\x00", pack_names(["a" * 64] * 64)),
    pack_names(["x"] * 65),
)
#: What stands behind the payload of an event that names who serves groups.
_GROUPS = (
    *(Serving({}).pack(), Serving({1: 0, 2: 63, 3: 64, 4: 255}).pack(), b"", b"\0", b"\xff" * 10),
    *(Serving({1: 1}, tried=6).pack(), Serving({1: 1}, tried=2**256 - 1).pack(), b"\xff" * 40),
    *(Serving({1: 2**32 - 1}, has_places=True).pack(), Serving({1: 0}, 1, has_places=True).pack()),
    *(bytes(8) + b"\x02\x00", bytes(8) + b"\x40\x01", bytes(8) + b"\x80\x00"),
    Serving(dict.fromkeys(range(512), 1)).pack(),
)


class OddFrames:
    """Draws frames of one publisher."""

    def __init__(self, rng: random.Random, publisher: bytes, incarnation: int = 1) -> None:
        self._rng = rng
        self._publisher = publisher
        self._incarnation = incarnation
        self._sequence = 0

    def event(self) -> bytes:
        """Return the body of an event frame."""
        rng = self._rng
        self._sequence += rng.choice(_GAPS)
        odd = rng.sample(range(12), rng.choice((0, 0, 0, 1, 1, 2)))
        flags = MARK_FLAG if rng.random() < 0.6 else 0
        for part in _PARTS:
            flags |= part if rng.random() < 0.12 else 0
        flags |= rng.choice((0, 0, 0, 0, RECALLED_FLAG, STORED_FLAG))
        flags |= NAMED_FLAG if rng.random() < 0.2 else 0
        flags |= rng.choice(_LATER).bit if rng.random() < 0.05 else 0
        words = rng.choice((1, 2, 255)) if rng.random() < 0.05 else 0
        if 0 in odd:
            flags ^= 1 << rng.randrange(32)
        topic = rng.choice(_TOPICS if 1 in odd else (b"odd", b"odd/b"))
        attributes = rng.choice(_ATTRIBUTES if 2 in odd else _ATTRIBUTES[:2])
        levels = bool(flags & LEVELS_FLAG)
        # An answer that is led to a place: its target is that, and it tells its age.
        led = bool(flags & RECALLED_FLAG) and not levels and rng.random() < 0.4
        head = HEADER.pack(
            flags,
            rng.choice((0, 1, 31, 32, 254, 255) if 3 in odd else (0, 1)),
            rng.randrange(6) if 4 in odd else (2 if levels else 0 if led else 1),
            rng.randrange(2) if 4 in odd else 0,
            rng.choice(_U32),
            rng.getrandbits(32) if rng.random() < 0.5 else rng.choice(_U32),
            rng.choice(_U32) if 5 in odd or led else 0,
            rng.choice(_U32) if 5 in odd or led else 0,
            rng.choice(_MASKS) if 6 in odd else 0 if led else EVERYBODY,
            rng.choice(_MASKS) if 6 in odd else 0,
            self._publisher,
            rng.choice(_COUNTS) if 7 in odd else self._incarnation,
            rng.choice(_COUNTS) if 8 in odd else self._sequence,
            rng.choice(_COUNTS),
            rng.choice((0, 1, 255)) if 9 in odd else 0,
            rng.randrange(256) if 9 in odd else rng.randrange(10),
            rng.randrange(6) if 9 in odd else 4,
            words,
            rng.choice((0, 1, 2**16 - 1)) if 10 in odd else len(topic),
            rng.choice((0, 1, 2**16 - 1)) if 11 in odd else len(attributes),
        )
        body = b"".join(
            (
                head,
                bytes(8) if flags & EXPRESS_FLAG else b"",
                rng.randbytes(16) if flags & CORRELATION_FLAG else b"",
                self._time() if flags & RETAIN_FLAG else b"",
                self._time() if flags & EXPIRES_FLAG else b"",
                *(rng.randbytes(each.extension) for each in _LATER if flags & each.bit),
                rng.randbytes(WORD_BYTES * words),
                topic,
                attributes,
                self._mostly(_NAMES) if flags & NAMED_FLAG else b"",
                bytes(MAX_PAYLOAD_BYTES) if rng.random() < 0.004 else rng.randbytes(3),
                self._mostly(_GROUPS) if flags & GROUPS_FLAG else b"",
                self._upper() if levels else b"",
            )
        )
        return body[: rng.randrange(len(body))] if rng.random() < 0.05 else body

    def frame(self) -> bytes:
        """Return a frame of any kind."""
        rng = self._rng
        kind = rng.choices(_KINDS, (22, 1, 1, 1))[0]
        if kind in (EVENT, DELIVERY):
            return frame(kind, self.event())
        return frame(kind, rng.randbytes(rng.choice((0, 1, 20))))

    def _mostly(self, parts: tuple[bytes, ...]) -> bytes:
        """Return one of the first two, which make sense, or any."""
        return self._rng.choice(parts if self._rng.random() < 0.4 else parts[:2])

    def _time(self) -> bytes:
        return self._rng.choice(_TIMES).to_bytes(8)

    def _upper(self) -> bytes:
        rng = self._rng
        masks = b"".join(rng.choice(_MASKS).to_bytes(8) for _ in range(6))
        address = rng.choice((0, 0, 1, 2, 2**24, 2**32 - 1)).to_bytes(4)
        return rng.choice((masks + address + bytes((rng.randrange(5),)), bytes(UPPER_BYTES)))


class LargestFrames(OddFrames):
    """Draws frames of a publisher whose lives and numbers are the largest that brokers let in."""

    def __init__(self, rng: random.Random, publisher: bytes) -> None:
        super().__init__(rng, publisher, MAX_COUNT + 1)
        self._begin()

    def event(self) -> bytes:
        """Return the body of an event frame."""
        if self._sequence + max(_GAPS) > MAX_SEQUENCE:
            self._begin()
        return super().event()

    def _begin(self) -> None:
        self._incarnation -= 1
        self._sequence = MAX_SEQUENCE - LAST_NUMBERS
