"""Parts of :class:`overlay.codec.FrameReader`: many frames at once, and one frame in slices."""

from __future__ import annotations

from overlay.errors import CodecError

MIN_SLICE_BYTES = 1024  #: of a slice that is not the last, so that there are not too many


class Assembler:
    """Puts the slices of one connection together again (:mod:`overlay.fragments`).

    It keeps no more than one unfinished frame of the largest size allowed.
    """

    __slots__ = ("_assembler", "_limit", "_parts", "_size")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0

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
        self._size = 0
        return whole

    def limit(self, limit_bytes: int) -> None:
        """Change the largest length accepted."""
        self._limit = limit_bytes


def alike_at(data: bytes, at: int, size: int, header: int) -> int:
    """Return how many whole frames of ``size`` bytes begin one behind the other at ``at``.

    Their headers, of ``header`` bytes, are the same: so all first bytes are, all second ones, and
    so on, and there is one comparison for each byte of a header instead of one for each frame.
    """
    count = (len(data) - at) // size
    end = at + count * size
    for byte in range(at, at + header):
        column = data[byte:end:size]
        count = min(count, len(column) - len(column.lstrip(data[byte : byte + 1])))
    return count
