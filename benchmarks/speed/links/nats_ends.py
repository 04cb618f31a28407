"""One end of a flow through nats-server: ``python -m ... ROLE PORT EVENTS SIZE RATE [TLS FILES]``.

It runs with an interpreter that has nats-py, and needs nothing else but the standard library. The
TLS files are a certificate, its key and the authority's certificate.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import TYPE_CHECKING

from benchmarks.speed.links.ends import Flow, Meter, Sink, say
from benchmarks.speed.links.stamps import STAMP, now

if TYPE_CHECKING:
    import nats

SUBJECT = "bench.links"
FLUSH_EVERY = 2048  #: events between two round trips, so that nothing is dropped
SECONDS = 300  #: it is ended before


async def publish(client: nats.NATS, flow: Flow) -> None:
    """Publish the events of ``flow``.

    A payload begins with nanoseconds if the flow is paced, else with the event's number, and has
    the eight bytes of that at least.
    """
    rest = b"x" * max(0, flow.size - STAMP.size)
    meter = Meter(flow)
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
    meter.stop()


async def subscribe(client: nats.NATS, flow: Flow) -> None:
    """Say that it is ready, and hand the stamps of what comes to a sink."""
    sink = Sink(flow)

    async def take(message: nats.aio.msg.Msg) -> None:
        sink.take([STAMP.unpack_from(message.data)[0]])

    await client.subscribe(SUBJECT, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    say(ready=True)


async def run(role: str, port: int, flow: Flow, tls: list[str]) -> None:
    """Be one end until ended, or for :data:`SECONDS`."""
    import nats

    url = f"nats://127.0.0.1:{port}"
    client = await nats.connect(url, **({"tls": _context(*tls)} if tls else {}))
    await (publish if role == "publish" else subscribe)(client, flow)
    await asyncio.sleep(SECONDS)


def _context(certificate: str, key: str, authority: str) -> ssl.SSLContext:
    """Return the same terms as those of secure links: TLS 1.3, both ends certified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cafile=authority)
    context.load_cert_chain(certificate, key)
    return context


def main() -> None:
    """Be the end that the command line names."""
    role, port, events, size, rate, *tls = sys.argv[1:]
    flow = Flow(events=int(events), size=int(size), rate=int(rate))
    asyncio.run(run(role, int(port), flow, tls))


if __name__ == "__main__":
    main()
