"""A broker that says of its hop to a client what is not so: the client goes by the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from benchmarks.stage.waiting import until
from ges.client import connect
from ges.errors import ConnectionLost
from ges.wire.client_messages import CLIENT_CODEC, Attached
from overlay.address import Address
from overlay.ids import LinkClass, Uid
from overlay.links.first_message import read_greeting
from overlay.net.transport import TcpTransport, close
from overlay.security.identity import Role, load_identity
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, PROTOCOL_VERSION
from tests.ges.conftest import Issue

DEADLINE_SECONDS = 20


class Poser:
    """Attaches every client, says each time the next of ``secure`` of the hop, and notes events.

    It ends the connection after the first event, without having confirmed it.
    """

    def __init__(self, identity: Path | None, *secure: bool) -> None:
        own = load_identity(identity) if identity is not None else None
        self._transport = TcpTransport(own)
        self._uid = own.uid if own is not None else Uid("b" * 32)
        self._secure = list(secure)
        self.heard: list[list[bytes]] = []  #: the events, by attachment
        self.url = ""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        port = await self._transport.listen("127.0.0.1", 0)
        tls = self._transport.credentials is not None
        self.url = Address("127.0.0.1", port, tls).url
        await self._transport.serve(self._attach, task_status=task_status)

    def _next(self) -> bool:
        return self._secure.pop(0) if len(self._secure) > 1 else self._secure[0]

    async def _attach(self, stream: trio.abc.Stream) -> None:
        wire = await self._transport.accept(stream)
        reader = FrameReader()
        await read_greeting(wire.stream, reader)
        said = Attached(self._uid, self.url, self._next(), PROTOCOL_VERSION)
        self.heard.append([])
        await wire.stream.send_all(CLIENT_CODEC.encode(said))
        while not self.heard[0] or len(self.heard) > 1:
            data = await wire.stream.receive_some()
            if not data:
                break
            reader.feed(data)
            self.heard[-1] += [body for kind, body in reader.frames() if kind == EVENT]
        await close(wire.stream)


@asynccontextmanager
async def posing(identity: Path | None, *secure: bool) -> AsyncIterator[Poser]:
    poser = Poser(identity, *secure)
    async with trio.open_nursery() as nursery:
        await nursery.start(poser.run)
        yield poser
        nursery.cancel_scope.cancel()


async def test_a_secure_event_is_not_published_again_on_a_hop_that_is_not(issue: Issue) -> None:
    """It was not confirmed where it was; what is not secure is sent as ever."""
    async with posing(issue(Role.BROKER), True, False) as poser:
        with trio.fail_after(DEADLINE_SECONDS):
            async with connect(poser.url, identity=issue(Role.CLIENT)) as client:
                await client.publish("a", b"private", link_class=LinkClass.SECURE)
                await until(lambda: len(poser.heard) == 2)
                await client.publish("a", b"open")
                await until(lambda: bool(poser.heard[1]))
    first, second = (b"".join(events) for events in poser.heard)
    assert b"private" in first
    assert b"open" in second
    assert b"private" not in second


async def test_a_plain_hop_is_not_taken_for_secure_on_the_brokers_word() -> None:
    """Or a client that publishes what is secure would send it in the open."""
    async with posing(None, True) as poser:
        with pytest.raises(ConnectionLost, match="calls a plain connection secure"):
            await publish_secretly(poser)
    assert b"".join(poser.heard[0]) == b""


async def publish_secretly(poser: Poser) -> None:
    async with connect(poser.url, timeout=0.5) as client:
        await client.publish("a", b"private", link_class=LinkClass.SECURE)
        await until(lambda: bool(poser.heard[0]))
