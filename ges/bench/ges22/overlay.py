"""The 22 processes of brokers, on loopback; none of them outlives the experiment.

They stand in the units of the plan, link to each other as a ring for control messages, and name the
links that events take. Before anything is measured, each of them is asked whether all of that is as
planned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from ges.bench.ges22.topology import BROKERS, PUBLISHER, UNITS, Topology, named_by, unit_of
from ges.client import connect
from ges.errors import BenchFailed
from ges.operations.local_brokers import local_brokers
from ges.wire.status import Status
from overlay.errors import ChordalError
from overlay.net.free_ports import LOOPBACK, free_ports

AT_ONCE = 4  #: brokers that start at one time: there are few processors
SETTLE_SECONDS = 120.0  #: and for units and links to be as planned
LOOK_SECONDS = 1.0
ASK_SECONDS = 10.0

#: In which the brokers start: the publisher's first, which the others join by.
ORDER = (PUBLISHER, *(number for number in BROKERS if number != PUBLISHER))


@dataclass(frozen=True, slots=True)
class Broker:
    """One process."""

    number: int
    uid: str
    url: str


@asynccontextmanager
async def running(topology: Topology, folder: Path) -> AsyncIterator[Mapping[int, Broker]]:
    """Keep the brokers of a topology for the length of the block; by number.

    ``folder``: where what they log is kept, a file each.

    Raises:
        ProcessFailed: one did not start in time, or ended.
    """
    ports = dict(zip(ORDER, free_ports(len(ORDER)), strict=True))
    urls = {number: f"chordal://{LOOPBACK}:{port}" for number, port in ports.items()}
    named = named_by(topology.links, ORDER)
    brokers: dict[int, Broker] = {}
    async with local_brokers(folder) as local:
        for together in (ORDER[:1], *_batches(ORDER[1:])):
            started = [
                local.start(
                    ports[number],
                    *_options(number, [urls[other] for other in named[number]], urls[PUBLISHER]),
                    name=f"broker-{number}",
                )
                for number in together
            ]
            for number, broker in zip(together, started, strict=True):
                ready = await broker.joined()
                brokers[number] = Broker(number, ready.uid, ready.url)
        yield brokers


def _batches(numbers: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]


def _options(number: int, links: list[str], first: str) -> tuple[str, ...]:
    return (
        *("--name", f"broker-{number}", "--unit", unit_of(number), "--log-level", "warning"),
        *("--events-over", "declared", "--link-costs", "levels"),  # by the paper's costs alone
        *(("--event-links", ",".join(links)) if links else ()),
        *(("--join", first) if number != PUBLISHER else ()),
    )


async def settled(brokers: Mapping[int, Broker], topology: Topology) -> None:
    """Wait until units and links are as planned, and events name whom they are for.

    Raises:
        BenchFailed: they are not in time; the text says what is otherwise.
    """
    problems = [""]
    with trio.move_on_after(SETTLE_SECONDS):
        while problems:
            found = await _ask_all(brokers)
            problems = problems_of(found, {b.uid: n for n, b in brokers.items()}, topology)
            if problems:
                await trio.sleep(LOOK_SECONDS)
    if problems:
        raise BenchFailed(
            f"after {SETTLE_SECONDS:g} s units and links are not as planned: {problems[0]}"
            + (f"; and {len(problems) - 1} more" if len(problems) > 1 else "")
        )


async def _ask_all(brokers: Mapping[int, Broker]) -> dict[int, Status]:
    found: dict[int, Status] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(broker: Broker) -> None:
        # One that does not answer in time is asked again with the others.
        with suppress(ChordalError):
            async with (
                limit,
                connect(
                    broker.url,
                    timeout=ASK_SECONDS,
                    reattach=False,
                    only_looks=True,
                    on_waiting=lambda _: None,
                ) as client,
            ):
                found[broker.number] = await client.status()

    async with trio.open_nursery() as nursery:
        for broker in brokers.values():
            nursery.start_soon(ask, broker)
    return found


def problems_of(
    found: Mapping[int, Status], numbers: Mapping[str, int], topology: Topology
) -> list[str]:
    """Return what is not as planned, in words; ``numbers``: of the brokers, by uid."""
    near: dict[int, set[int]] = {number: set() for number in BROKERS}
    for a, b in topology.links:
        near[a].add(b)
        near[b].add(a)
    sizes = {number: len(members) for members in UNITS.values() for number in members}
    problems = [f"broker {number} does not answer" for number in BROKERS if number not in found]
    for number, status in sorted(found.items()):
        who, unit = f"broker {number}", unit_of(number)
        if status.unit != unit or status.address is None:
            problems.append(f"{who} stands in unit {status.unit or 'without a name'}, not {unit}")
        elif status.members != sizes[number]:
            problems.append(f"{who} sees {status.members} members in {unit}, not {sizes[number]}")
        carrying = {
            numbers.get(link.uid, 0)
            for link in status.links
            if link.carries and link.link_class.is_base
        }
        if carrying != near[number]:
            problems.append(
                f"events from {who} can go to {_listed(carrying)}, not to {_listed(near[number])}"
            )
        if not status.names_destinations:
            problems.append(f"events from {who} go to all, as units have changed")
    return problems


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "nobody"
