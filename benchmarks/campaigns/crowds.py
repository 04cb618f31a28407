"""Strangers that come in numbers, greet rightly, and stay: clients, false brokers, a false port."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio
import trio.lowlevel

from benchmarks.campaigns.attacks import client_hello, peer_hello
from ges.wire.client_messages import CLIENT_CODEC, Attached
from ges.wire.link_codec import LINK_CODEC
from ges.wire.telling_messages import Kind, RowsWanted
from overlay.net.connection import BROKEN
from overlay.wire.codec import FrameReader
from overlay.wire.greetings import GREETINGS, Challenge, Hello

LONG_HOST = ".".join(["h" * 60] * 4)
FALSE_UID = "f" * 32


class Crowd:
    """Connections of strangers to one port; those that are cut off are gone."""

    def __init__(self, port: int, nursery: trio.Nursery, host: str = "127.0.0.1") -> None:
        """``host``: the address that they come from, one of loopback."""
        self._port = port
        self._nursery = nursery
        self._host = host
        self.here: set[trio.SocketStream] = set()

    async def come(self, hellos: Iterable[Hello], *, reads: bool = True) -> None:
        """Let one more stranger come for each greeting; ``reads``: they take what they are sent."""
        for hello in hellos:
            await self.say(GREETINGS.encode(hello), reads=reads)

    async def say(self, words: bytes, *, reads: bool = True) -> None:
        """Let one more come and say this."""
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", self._port, local_address=self._host)
        except OSError:
            return
        self.here.add(stream)
        self._nursery.start_soon(self._stay, stream, words, reads)
        await trio.lowlevel.checkpoint()

    async def _stay(self, stream: trio.SocketStream, words: bytes, reads: bool) -> None:
        try:
            await stream.send_all(words)
            while reads and await stream.receive_some(65536):
                pass
            if not reads:
                await trio.sleep_forever()
        except BROKEN:
            pass
        finally:
            self.here.discard(stream)
            await trio.aclose_forcefully(stream)


def clients(rng: random.Random, count: int) -> list[Hello]:
    """Return greetings of so many clients."""
    return [client_hello(rng) for _ in range(count)]


def false_brokers(rng: random.Random, count: int, host: str | None = None) -> list[Hello]:
    """Return greetings of so many brokers that do not exist, at ``host``."""
    hellos = [peer_hello(rng) for _ in range(count)]
    if host is None:
        return hellos
    replace = msgspec.structs.replace
    return [
        replace(hello, peer=replace(hello.peer, url=f"chordal://{host}:1"))
        for hello in hellos
        if hello.peer is not None
    ]


def questions(count: int) -> bytes:
    """Return so many questions of a broker for the tables of units and members."""
    return LINK_CODEC.encode(RowsWanted(Kind.TABLES, ())) * count


class FalseBroker:
    """Stands at a port of loopback, asks each client for its token, and notes what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.url = ""

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        """Stand there for the length of the block."""
        async with trio.open_nursery() as nursery:
            listen = partial(trio.serve_tcp, self._serve, 0, host="127.0.0.1")
            listeners = await nursery.start(listen)
            self.url = f"chordal://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            yield
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        attached = Attached(FALSE_UID, self.url, secure=False)
        answers = [
            GREETINGS.encode(Challenge(FALSE_UID, b"2" * 32)),
            CLIENT_CODEC.encode(attached),
        ]
        reader = FrameReader()
        try:
            while data := await stream.receive_some():
                self.heard += data
                reader.feed(data)
                while answers and reader.next_frame() is not None:
                    await stream.send_all(answers.pop(0))
        except BROKEN:
            pass
