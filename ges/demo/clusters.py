"""Nine brokers, three in a cluster: events go into the clusters that want them, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import trio

from ges.client import connect
from ges.demo.findings import Clustered
from ges.demo.processes import DemoFailed, Stage, open_fleet
from ges.demo.wanted import ATTACH_SECONDS, TOPIC, send_where_wanted
from overlay.address import Address
from overlay.net.free_ports import LOOPBACK, free_ports

BROKERS, LIMIT = 9, 3
FORM_SECONDS = 60  #: for the clusters to be in order
SETTLE_SECONDS = 60.0  #: for events to name them
POLL_SECONDS = 0.1


async def form_clusters(stage: Stage, events: int) -> Clustered:
    """Start brokers with a small limit, and send events from two clusters to each other.

    Raises:
        DemoFailed: They form no clusters, or a broker saw events that were not for it.
    """
    start = trio.current_time()
    async with open_fleet(stage) as fleet:
        ports = free_ports(BROKERS)
        everybody = ",".join(Address(LOOPBACK, port).url for port in ports)
        settings = ("--join", everybody, "--unit-limit", str(LIMIT))
        async with trio.open_nursery() as nursery:
            for port in ports:
                nursery.start_soon(fleet.start, port, *settings)
        urls = [broker.url for broker in fleet.brokers]
        printed = await stage.run(
            *("units", "--check", "--expect", str(BROKERS), "--wait", str(FORM_SECONDS)),
            *("--broker", urls[0], "--json"),
        )
        clusters = tuple(msgspec.json.decode(printed, type=_Unit).clusters())
        formed_s = trio.current_time() - start
        # One of each cluster comes first, and one of another half way.
        in_order = [broker.url for cluster in clusters for broker in cluster.brokers]
        for url in (in_order[0], in_order[len(in_order) // 2]):
            await _until_named(url)
        wanted = await send_where_wanted(in_order, events)
        await fleet.dismiss()
    return Clustered(clusters=len(clusters), formed_s=formed_s, wanted=wanted)


class _Broker(msgspec.Struct, frozen=True):
    url: str


class _Unit(msgspec.Struct, frozen=True):
    """A unit of the tree that ``chordal units --json`` prints."""

    units: tuple[_Unit, ...] = ()
    brokers: tuple[_Broker, ...] = ()  #: of a cluster

    def clusters(self) -> Iterator[_Unit]:
        """Yield the clusters in it, or itself."""
        if self.brokers:
            yield self
        for unit in self.units:
            yield from unit.clusters()


async def _until_named(url: str) -> None:
    """Wait until events that are published at a broker name the units that they are for."""
    with trio.move_on_after(SETTLE_SECONDS):
        async with connect(url, timeout=ATTACH_SECONDS, reattach=False) as client:
            while True:
                why = await client.why(TOPIC)
                if not why.to_all and not any(unit.is_unknown for unit in why.units):
                    return
                await trio.sleep(POLL_SECONDS)
    raise DemoFailed(f"after {SETTLE_SECONDS:g} s events at {url} still go to all brokers")
