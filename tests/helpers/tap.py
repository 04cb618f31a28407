"""All that goes over the sockets of this process, as somebody on the network would see it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio

OVERLAP = 256  #: a needle may lie across two reads of one socket


class Tap:
    """Bytes of every socket, both ways, as they are below TLS; looked through for needles."""

    def __init__(self, *needles: bytes) -> None:
        self._needles = needles
        self._tails: dict[tuple[int, bool], bytes] = {}
        self.found: set[bytes] = set()
        self.bytes = 0

    def saw(self, number: int, data: bytes, *, out: bool) -> None:
        """Note what the socket of that file number has sent or received."""
        key = (number, out)
        seen = self._tails.get(key, b"") + data
        self.found.update(needle for needle in self._needles if needle in seen)
        self._tails[key] = seen[-OVERLAP:]
        self.bytes += len(data)


@contextmanager
def tapped(*needles: bytes) -> Iterator[Tap]:
    """Look at every byte on every socket for the length of the block."""
    tap = Tap(*needles)
    write_all, read_some = os.writev, os.read
    send_all, receive_some = trio.SocketStream.send_all, trio.SocketStream.receive_some

    def writev(number: int, items: Sequence[bytes]) -> int:
        written = write_all(number, items)
        tap.saw(number, b"".join(items)[:written], out=True)
        return written

    def read(number: int, most: int) -> bytes:
        data = read_some(number, most)
        tap.saw(number, data, out=False)
        return data

    async def sending(stream: trio.SocketStream, data: bytes | bytearray | memoryview) -> None:
        tap.saw(stream.socket.fileno(), bytes(data), out=True)
        await send_all(stream, data)

    async def receiving(stream: trio.SocketStream, max_bytes: int | None = None) -> bytes:
        data = await receive_some(stream, max_bytes)
        tap.saw(stream.socket.fileno(), data, out=False)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio.SocketStream, "send_all", sending)
        patch.setattr(trio.SocketStream, "receive_some", receiving)
        patch.setattr(os, "writev", writev)  # plain connections go round trio's streams
        patch.setattr(os, "read", read)
        yield tap
