"""One topology from beginning to end: brokers, clients, the most that gets through, all cells."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import trio

from ges.bench.conditions import Conditions, look
from ges.bench.ges22.clients import Clients, Played, attached
from ges.bench.ges22.overlay import running, settled
from ges.bench.ges22.plan import FLAT_OUT, MOST_RATE, SATURATION_BYTES, Cell
from ges.bench.ges22.topology import MEASURED, PUBLISHER, Topology
from ges.bench.load import Attach
from ges.errors import BenchFailed, ProcessFailed

WARM = Cell(100, SATURATION_BYTES, 20.0)  #: played first, and counted nowhere
LOOKS = 10  #: at the hops, which are to be as the paper states them
PAUSE_SECONDS = 3.0  #: between two of these: measured costs of links come to rest


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one topology."""

    topology: Topology
    conditions: Conditions
    saturation_per_s: float  #: events at broker 10, of 250 bytes and at a match rate of 100 %
    hops: dict[int, int]  #: brokers passed to each measured one by most events, at the start
    played: tuple[Played, ...]


async def measure(
    topology: Topology, cells: Sequence[Cell], seconds: float, say: Callable[[str], None]
) -> Results:
    """Start all processes, measure, and end them.

    Args:
        topology: which links there are.
        cells: what is to be measured, in this order.
        seconds: for which the events of one are published, at least.
        say: told how far it is, a line each.

    Raises:
        BenchFailed: something is not as planned, or a process of clients ended.
        ProcessFailed: a broker ended.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="chordal-ges22-") as folder:
            async with running(topology, Path(folder)) as brokers:
                say(f"topology {topology}: 22 brokers run; waiting until units and links stand")
                await settled(brokers, topology)
                attaches = (Attach(urls=brokers[number].url) for number in (PUBLISHER, MEASURED))
                conditions = await look(*attaches)
                async with attached(brokers, topology) as clients:
                    return await _play(topology, conditions, clients, cells, seconds, say)
    except BaseExceptionGroup as group:  # of the nurseries: the first that failed says why
        failed, _ = group.split((BenchFailed, ProcessFailed))
        if failed is None:
            raise
        found: BaseException = failed
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        raise found from None
    raise AssertionError("nothing is swallowed")


async def _play(
    topology: Topology,
    conditions: Conditions,
    clients: Clients,
    cells: Sequence[Cell],
    seconds: float,
    say: Callable[[str], None],
) -> Results:
    hops = await _hops(topology, clients)
    say(f"topology {topology}: hops to {', '.join(f'{n}: {h}' for n, h in hops.items())}")
    full = await clients.play(Cell(100, SATURATION_BYTES, FLAT_OUT), seconds)
    most = max((s.received_per_s or 0.0 for s in full.samples if s.broker == MEASURED), default=0.0)
    if most <= 0:
        raise BenchFailed(f"no event has come to broker {MEASURED} within the time allowed")
    say(f"topology {topology}: {most:.0f} events/s at most reach broker {MEASURED}")
    played = []
    for at, cell in enumerate(cells, start=1):
        if cell.is_half:
            cell = msgspec.structs.replace(cell, rate=round(min(most / 2, MOST_RATE), 1))
        say(
            f"topology {topology}: {at} of {len(cells)}: match {cell.match} %, {cell.size} bytes, "
            f"{cell.rate:g} events/s"
        )
        played.append(await clients.play(cell, seconds))
    return Results(
        topology=topology,
        conditions=conditions,
        saturation_per_s=most,
        hops=hops,
        played=tuple(played),
    )


async def _hops(topology: Topology, clients: Clients) -> dict[int, int]:
    """Return how many brokers events pass to each measuring subscriber, once that is as stated.

    Among links that cost nothing by the papers' matrix measured costs decide, and these take some
    seconds to come to rest. The hops found in the end are returned, as stated or not.
    """
    found: dict[int, int] = {}
    for number in range(LOOKS):
        if number:
            await trio.sleep(PAUSE_SECONDS)
        played = await clients.play(WARM, 1.0)
        found = {s.broker: s.usual_hops or 0 for s in played.samples}
        if found == topology.stated_hops:
            break
    return found
