"""The limit: a bare relay on trio's streams, which coalesces; and a naive one, which does not.

The relay cuts length-prefixed frames, looks the topic of each up in a dictionary, and appends runs
of frames for one destination, as slices of what it has read, to the destination's queue. A writer's
task joins what has gathered and sends it at once. It checks nothing, keeps no order and no limits
per peer, and cannot be controlled; nothing is dropped, as it stops to read while a queue is long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from benchmarks.speed.links.ends import Flow, Sink, say
from benchmarks.speed.links.shape import LENGTH, STAMP, STAMP_AT, TOPIC, make, now, topic_of
from overlay.security.identity import Identity
from overlay.security.tls_handshake import client_context, server_context

READ_BYTES = 256 * 1024
HOLD_BYTES = 1024 * 1024
BURST = 256  #: events in one write of a publisher that does not pace itself


class Queue:
    """One destination of the bare relay."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._parts: list[bytes] = []
        self._size = 0
        self._filled = trio.Event()
        self._sent = trio.Event()

    def put(self, part: bytes) -> None:
        """Append a run of whole frames, to be sent when the writer has its turn."""
        self._parts.append(part)
        self._size += len(part)
        self._filled.set()

    async def room(self) -> None:
        """Wait until :data:`HOLD_BYTES` or less are queued."""
        while self._size > HOLD_BYTES:
            self._sent = trio.Event()
            await self._sent.wait()

    async def write(self) -> None:
        """Send what has gathered, in one piece, as often as there is anything; until cancelled."""
        while True:
            if not self._parts:
                self._filled = trio.Event()
                await self._filled.wait()
            parts, self._parts, self._size = self._parts, [], 0
            await self._stream.send_all(b"".join(parts))
            self._sent.set()


async def relay(identity: Identity | None) -> None:
    """Forward from the second connection to the first."""
    target, source = await _two_callers(identity)
    async with trio.open_nursery() as nursery:
        queue = Queue(target)
        queues = {TOPIC: queue}
        nursery.start_soon(queue.write)
        rest = b""
        with suppress(trio.BrokenResourceError):  # as TLS calls an end without a farewell
            while data := await source.receive_some(READ_BYTES):
                rest = _forward(rest + data if rest else bytes(data), queues)
                await queue.room()


def _forward(data: bytes, queues: dict[bytes, Queue]) -> bytes:
    at = start = 0
    last = len(data) - LENGTH.size
    target: Queue | None = None
    while at <= last:
        end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            break
        to = queues.get(topic_of(data, at))
        if to is not target:
            if target is not None:
                target.put(data[start:at])
            target, start = to, at
        at = end
    if target is not None and at > start:
        target.put(data[start:at])
    return data[at:]


async def naive_relay(identity: Identity | None) -> None:
    """Forward each event with a send of its own."""
    target, source = await _two_callers(identity)
    targets = {TOPIC: target}
    rest = b""
    while data := await source.receive_some(READ_BYTES):
        rest += data
        while len(rest) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(rest)[0]
            if end > len(rest):
                break
            await targets[topic_of(rest, 0)].send_all(rest[:end])
            rest = rest[end:]


async def publish(port: int, flow: Flow, identity: Identity | None) -> None:
    """Send the events of ``flow`` to the relay at ``port``, and then wait to be ended.

    Paced events go one by one, stamped with nanoseconds; others :data:`BURST` at a time, with their
    numbers for stamps.
    """
    async with _called(port, identity) as stream:
        payload = b"x" * flow.size
        if flow.rate:
            async for _ in flow.paced():
                await stream.send_all(make(payload, now()))
        else:
            for first in range(0, flow.events, BURST):
                burst = range(first, min(first + BURST, flow.events))
                await stream.send_all(b"".join([make(payload, number) for number in burst]))
        await trio.sleep_forever()


async def subscribe(port: int, flow: Flow, identity: Identity | None) -> None:
    """Say that it is ready; hand the stamps of what comes to a sink until the relay is gone."""
    sink = Sink(flow)
    async with _called(port, identity) as stream:
        say(ready=True)
        rest = b""
        while data := await stream.receive_some(READ_BYTES):
            rest = _take(rest + data if rest else bytes(data), sink)


def _take(data: bytes, sink: Sink) -> bytes:
    at = 0
    last = len(data) - LENGTH.size
    stamps: list[int] = []
    while at <= last:
        end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            break
        stamps += STAMP.unpack_from(data, at + STAMP_AT)
        at = end
    sink.take(stamps)
    return data[at:]


async def _two_callers(identity: Identity | None) -> tuple[trio.abc.Stream, trio.abc.Stream]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    say(port=listener.socket.getsockname()[1])
    streams: list[trio.abc.Stream] = []
    for _ in range(2):
        stream: trio.abc.Stream = await listener.accept()
        if identity is not None:
            secured = trio.SSLStream(stream, server_context(identity), server_side=True)
            await secured.do_handshake()
            stream = secured
        streams.append(stream)
    return streams[0], streams[1]


@asynccontextmanager
async def _called(port: int, identity: Identity | None) -> AsyncIterator[trio.abc.Stream]:
    stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", port)
    if identity is not None:
        secured = trio.SSLStream(stream, client_context(identity))
        await secured.do_handshake()
        stream = secured
    yield stream
