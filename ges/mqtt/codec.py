"""Bytes of MQTT packets: numbers, texts, and where a packet ends (MQTT 5, sections 1.5 and 2.1)."""

from __future__ import annotations

import struct

from ges.errors import MqttError
from ges.mqtt.reasons import Reason

_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")
MAX_REMAINING = 268_435_455  #: what four bytes of a length can say
MAX_TEXT_BYTES = 65_535


class Fields:
    """The fields of one packet, read one after the other.

    All methods raise :class:`~ges.errors.MqttError` where the packet ends before the field does.
    """

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = at
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return self._end - self._at

    def u8(self) -> int:
        """Read a byte."""
        return self._take(1)[0]

    def u16(self) -> int:
        """Read a number of two bytes."""
        return int(_U16.unpack(self._take(2))[0])

    def u32(self) -> int:
        """Read a number of four bytes."""
        return int(_U32.unpack(self._take(4))[0])

    def varint(self) -> int:
        """Read a number of one to four bytes, of the fewest that it needs."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.u8()
            value |= (byte & 127) << shift
            if byte < 128:
                if shift and not byte:
                    raise malformed("a number has more bytes than it needs")
                return value
        raise malformed("a number has more than four bytes")

    def binary(self) -> bytes:
        """Read bytes with their length in front."""
        return self._take(self.u16())

    def text(self) -> str:
        """Read UTF-8 with its length in front; neither U+0000 nor halves of pairs are in it."""
        try:
            text = self.binary().decode()
        except UnicodeDecodeError:
            raise malformed("a text is not UTF-8") from None
        if "\0" in text:
            raise malformed("a text has U+0000 in it")
        return text

    def part(self, size: int) -> Fields:
        """Return the next bytes as fields of their own."""
        at = self._at
        self._take(size)
        return Fields(self._data, at, at + size)

    def rest(self) -> bytes:
        """Read all that is left."""
        return self._take(self.left)

    def end(self) -> None:
        """Nothing is to be left.

        Raises:
            MqttError: something is.
        """
        if self.left:
            raise malformed(f"{self.left} bytes behind the end of a packet")

    def _take(self, size: int) -> bytes:
        at = self._at
        if size > self._end - at:
            raise malformed("a packet ends before its fields do")
        self._at = at + size
        return self._data[at : at + size]


class PacketReader:
    """Cuts what comes from a client into packets."""

    def __init__(self, limit_bytes: int) -> None:
        """``limit_bytes``: of a packet, all of it."""
        self.limit = limit_bytes
        self._data = bytearray()

    @property
    def kept_bytes(self) -> int:
        """Bytes of a packet that is not whole yet."""
        return len(self._data)

    @property
    def first_byte(self) -> int | None:
        """The first byte of the next packet, if it has come."""
        return self._data[0] if self._data else None

    def feed(self, data: bytes | bytearray) -> None:
        """More has come."""
        self._data += data

    def next(self) -> tuple[int, bytes] | None:
        """Return the first byte of the next packet and what is behind its length, if it is whole.

        Raises:
            MqttError: its length makes no sense, or is too much.
        """
        data = self._data
        size = shift = 0
        for at in range(1, 5):
            if at >= len(data):
                return None
            size |= (data[at] & 127) << shift
            shift += 7
            if data[at] < 128:
                if at > 1 and not data[at]:
                    raise malformed("a length has more bytes than it needs")
                break
        else:
            raise malformed("a length has more than four bytes")
        start, end = at + 1, at + 1 + size
        if end > self.limit:
            raise MqttError(
                Reason.PACKET_TOO_LARGE, f"a packet of {end} bytes; {self.limit} are allowed"
            )
        if len(data) < end:
            return None
        first, body = data[0], bytes(data[start:end])
        del data[:end]
        return first, body


def malformed(text: str) -> MqttError:
    """Return the error of a packet that cannot be read."""
    return MqttError(Reason.MALFORMED_PACKET, text)


def wrong(text: str) -> MqttError:
    """Return the error of a packet that can be read, and must not be there."""
    return MqttError(Reason.PROTOCOL_ERROR, text)


def packed_varint(value: int) -> bytes:
    """Return a number in as few bytes as it needs."""
    found = bytearray()
    while True:
        value, byte = value >> 7, value & 127
        found.append(byte | 128 if value else byte)
        if not value:
            return bytes(found)


def packed_u16(value: int) -> bytes:
    """Return a number in two bytes."""
    return _U16.pack(value)


def packed_u32(value: int) -> bytes:
    """Return a number in four bytes."""
    return _U32.pack(value)


def packed_binary(data: bytes) -> bytes:
    """Return bytes with their length in front; the length has been checked."""
    return _U16.pack(len(data)) + data


def packed_text(text: str) -> bytes:
    """Return text with its length in front; the length has been checked."""
    return packed_binary(text.encode())


def packet(first: int, body: bytes) -> bytes:
    """Return a whole packet."""
    return bytes((first,)) + packed_varint(len(body)) + body
