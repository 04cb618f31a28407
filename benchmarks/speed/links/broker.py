"""The whole broker: ``chordal serve`` between two ends that use the client library."""

from __future__ import annotations

from benchmarks.speed.links.ends import Flow, Meter, Sink, say
from benchmarks.speed.links.pacing import paced
from benchmarks.speed.links.stamps import STAMP, now
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import LinkClass, connect
from overlay.security.identity import Identity

TOPIC = "bench/links"


async def publish(url: str, flow: Flow, identity: Identity | None) -> None:
    """Publish the events of ``flow`` at the broker ``url``; end when all are confirmed.

    A payload begins with nanoseconds if the flow is paced, else with the event's number, and has
    the eight bytes of that at least. With an ``identity`` the events are secure ones.
    """
    rest = b"x" * max(0, flow.size - STAMP.size)
    link_class = LinkClass.SECURE if identity is not None else LinkClass.NORMAL
    async with connect(url, identity=_folder(identity), timeout=FIND_SECONDS) as client:
        meter = Meter(flow)
        if flow.rate:
            async for _ in paced(flow):
                await client.publish(TOPIC, STAMP.pack(now()) + rest, link_class=link_class)
        else:
            for number in range(flow.events):
                await client.publish(TOPIC, STAMP.pack(number) + rest, link_class=link_class)
        await client.flush()
        meter.stop()


async def subscribe(url: str, flow: Flow, identity: Identity | None) -> None:
    """Say that it is ready, and hand the stamps of what comes, batch by batch, to a sink."""
    sink = Sink(flow)
    async with (
        connect(url, identity=_folder(identity), reattach=False, timeout=FIND_SECONDS) as client,
        client.subscribe(TOPIC) as subscription,
    ):
        say(ready=True)
        while events := await subscription.batch():
            sink.take([STAMP.unpack_from(event.payload)[0] for event in events])


def _folder(identity: Identity | None) -> str | None:
    return str(identity.directory) if identity is not None else None
