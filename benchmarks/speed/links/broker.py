"""The whole broker: ``chordal serve`` between two ends that use the client library."""

from __future__ import annotations

from benchmarks.speed.links.ends import Flow, Sink, say
from benchmarks.speed.links.shape import STAMP, now
from ges.client import connect
from overlay.security.identity import Identity

TOPIC = "bench/links"


async def publish(url: str, flow: Flow, identity: Identity | None) -> None:
    """Publish the events of ``flow`` at the broker ``url``; end when all are confirmed.

    A payload begins with nanoseconds if the flow is paced, else with the event's number, and has
    the eight bytes of that at least. There is no TLS here, so ``identity`` is not used.
    """
    rest = b"x" * max(0, flow.size - STAMP.size)
    async with connect(url) as client:
        if flow.rate:
            async for _ in flow.paced():
                await client.publish(TOPIC, STAMP.pack(now()) + rest)
        else:
            for number in range(flow.events):
                await client.publish(TOPIC, STAMP.pack(number) + rest)
        await client.flush()


async def subscribe(url: str, flow: Flow, identity: Identity | None) -> None:
    """Say that it is ready, and hand the stamps of what comes, batch by batch, to a sink."""
    sink = Sink(flow)
    async with connect(url) as client, client.subscribe(TOPIC) as subscription:
        say(ready=True)
        while events := await subscription.batch():
            sink.take([STAMP.unpack_from(event.payload)[0] for event in events])
