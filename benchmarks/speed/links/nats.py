"""nats-server between two ends that use nats-py; its usual client for Python."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import socket

from benchmarks.speed.links.ends import Flow, Sink, say
from benchmarks.speed.links.shape import STAMP, now

SUBJECT = "bench.links"
FLUSH_EVERY = 2048  #: events between two round trips, so that nothing is dropped
SECONDS = 60


def missing() -> str | None:
    """Return what is not installed here, or None."""
    if shutil.which("nats-server") is None:
        return "nats-server is not installed"
    if importlib.util.find_spec("nats") is None:
        return "nats-py is not installed"
    return None


def server_command() -> tuple[list[str], int]:
    """Return how to start a server, and the port it will listen on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return ["nats-server", "-a", "127.0.0.1", "-p", str(port)], port


async def publish(port: int, flow: Flow) -> None:
    """Publish the events of ``flow`` at the server on ``port``; then stay for :data:`SECONDS`.

    A payload begins with nanoseconds if the flow is paced, else with the event's number, and has
    the eight bytes of that at least.
    """
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    rest = b"x" * max(0, flow.size - STAMP.size)
    start = now()
    for number in range(flow.events):
        if flow.rate:
            due = start + number * 1_000_000_000 // flow.rate
            await asyncio.sleep(max(0.0, (due - now()) / 1e9))
            await client.publish(SUBJECT, STAMP.pack(now()) + rest)
        else:
            await client.publish(SUBJECT, STAMP.pack(number) + rest)
            if number % FLUSH_EVERY == 0:
                await client.flush()
    await client.flush()
    await asyncio.sleep(SECONDS)


async def subscribe(port: int, flow: Flow) -> None:
    """Say that it is ready, and hand the stamps of what comes to a sink, for :data:`SECONDS`."""
    import nats

    sink = Sink(flow)

    async def take(message: nats.aio.msg.Msg) -> None:
        sink.take([STAMP.unpack_from(message.data)[0]])

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    await client.subscribe(SUBJECT, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    say(ready=True)
    await asyncio.sleep(SECONDS)
