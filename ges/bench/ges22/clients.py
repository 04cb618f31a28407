"""Starts the three processes of clients, and lets them play one cell after the other.

The publisher has a process of its own, and so have the measuring subscribers: neither waits for the
other. All are on one machine, so one clock stamps events and reads them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import trio

from ges.bench.ges22.orders import (
    Begin,
    Counted,
    End,
    Order,
    Place,
    Publish,
    Published,
    Role,
    Samples,
)
from ges.bench.ges22.overlay import Broker
from ges.bench.ges22.plan import MATCHES, Cell, seconds_of, value_wanted
from ges.bench.ges22.samples import Sample
from ges.bench.ges22.topology import CROWD, PUBLISHER, Topology, crowd
from ges.bench.workers import Ready, Worker, run_worker

READY_SECONDS = 120.0  #: for all clients of a process to be attached and active
QUIET_SECONDS = 2.0  #: in which nothing comes: what is missing then is lost, or has yet to come
LIMIT_SECONDS = 20.0  #: for what is still to come once a cell was published
ANSWER_SECONDS = 60.0  #: for a process to say what it was asked for


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    cell: Cell
    published: int
    published_per_s: float  #: really
    samples: tuple[Sample, ...]  #: of the measuring subscribers
    crowd_received: int  #: by all other clients together
    crowd_expected: int


class Clients:
    """The processes of clients."""

    def __init__(self, publisher: Worker, measuring: Worker, others: Worker) -> None:
        self._publisher = publisher
        self._takers = measuring, others

    async def play(self, cell: Cell, seconds: float) -> Played:
        """Publish the events of a cell, and return what came of them.

        Raises:
            BenchFailed: a process could not do its part.
        """
        for process in self._takers:
            await process.tell(Begin(cell))
            await process.hear(Ready, ANSWER_SECONDS)
        await self._publisher.tell(Publish(cell, seconds_of(cell, seconds)))
        published = await self._publisher.hear(Published, ANSWER_SECONDS)
        for process in self._takers:
            await process.tell(End(published.by_value, QUIET_SECONDS, LIMIT_SECONDS))
        measuring, others = self._takers
        samples = await measuring.hear(Samples, ANSWER_SECONDS)
        counted = await others.hear(Counted, ANSWER_SECONDS)
        return Played(
            cell=cell,
            published=sum(published.by_value),
            published_per_s=published.per_s,
            samples=samples.samples,
            crowd_received=counted.received,
            crowd_expected=counted.expected,
        )


@asynccontextmanager
async def attached(brokers: Mapping[int, Broker], topology: Topology) -> AsyncIterator[Clients]:
    """Keep all clients for the length of the block: 102, and 103 in topology II.

    Raises:
        BenchFailed: a process could not do its part.
    """

    def place(number: int, clients: int) -> Place:
        wants = {match: value_wanted(number, match, topology) for match in MATCHES}
        return Place(number, brokers[number].url, clients, wants)

    publisher = Place(PUBLISHER, brokers[PUBLISHER].url, 1, {})

    orders = (
        Order(Role.PUBLISH, (publisher,)),
        Order(Role.MEASURE, tuple(place(number, 1) for number in topology.measured)),
        Order(
            Role.CROWD,
            tuple(place(number, CROWD - (number in topology.measured)) for number in crowd()),
        ),
    )
    async with trio.open_nursery() as nursery:
        processes = [
            await nursery.start(run_worker, "ges.bench.ges22.worker", order) for order in orders
        ]
        for process in processes:
            await process.hear(Ready, READY_SECONDS)
        yield Clients(*processes)
        nursery.cancel_scope.cancel()
