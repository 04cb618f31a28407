"""Starts the processes of a measurement together, and puts together what they say."""

from __future__ import annotations

from functools import partial

import trio

from ges.bench.figures import Figures, RequestFigures, put_requests_together, put_together
from ges.bench.load import (
    Answered,
    Asked,
    Attach,
    Go,
    Load,
    Order,
    Published,
    Received,
    Role,
    Stop,
)
from ges.bench.publishing import shares
from ges.bench.workers import Ready, Worker, run_worker

QUIET_SECONDS = 2.0  #: in which nothing comes: what is missing then is lost
START_SECONDS = 60.0  #: for all clients of a process to be attached


async def measure(
    load: Load,
    publish_at: Attach | None,
    subscribe_at: Attach | None,
    processes: int,
    stop: Stop | None = None,
) -> Figures:
    """Have one load published, received, or both, and return the figures.

    Args:
        load: what is to be measured.
        publish_at: where publishers attach; None: there are none.
        subscribe_at: where subscribers attach; None: there are none.
        processes: for each of the two roles, at most.
        stop: when subscribers without publishers end.

    Raises:
        BenchFailed: a broker refuses it, or is lost; or there is none.
    """
    async with trio.open_nursery() as nursery:
        subscribers, publishers = await _begun(
            nursery,
            _orders(Role.SUBSCRIBE, subscribe_at, load, load.subscribers, processes),
            _orders(Role.PUBLISH, publish_at, load, load.publishers, processes),
        )
        published = [await w.hear(Published) for w in publishers]
        if publishers or stop is None:
            stop = Stop(sum(each.events for each in published), QUIET_SECONDS)
        for worker in subscribers:
            await worker.tell(stop)
        received = [await w.hear(Received) for w in subscribers]
        nursery.cancel_scope.cancel()
    return put_together(load, published, received)


async def measure_requests(
    load: Load, ask_at: Attach | None, answer_at: Attach | None, processes: int
) -> RequestFigures:
    """Have one load of requests asked, and answered unless others do that; return the figures.

    Args:
        load: what is to be measured: its publishers ask, and its subscribers answer.
        ask_at: where those that ask attach.
        answer_at: where those that answer attach; None: others answer.
        processes: for each of the two roles, at most.

    Raises:
        BenchFailed: a broker refuses it, or is lost; or there is none.
    """
    async with trio.open_nursery() as nursery:
        answering, asking = await _begun(
            nursery,
            _orders(Role.ANSWER, answer_at, load, load.subscribers, processes),
            _orders(Role.REQUEST, ask_at, load, load.publishers, processes),
        )
        asked = [await w.hear(Asked) for w in asking]
        for worker in answering:
            await worker.tell(Stop(None, 0.0))
        answered = [await w.hear(Answered) for w in answering]
        nursery.cancel_scope.cancel()
    return put_requests_together(load, asked, answered)


async def _begun(
    nursery: trio.Nursery, waiting: list[Order], acting: list[Order]
) -> tuple[list[Worker], list[Worker]]:
    """Start processes that wait for what others do, then those; these begin together.

    Raises:
        BenchFailed: one of them could not be started.
    """
    run = partial(run_worker, "ges.bench.worker")
    first = [await nursery.start(run, order) for order in waiting]
    then = [await nursery.start(run, order) for order in acting]
    for worker in (*first, *then):
        await worker.hear(Ready, START_SECONDS)
    for worker in then:
        await worker.tell(Go())
    return first, then


def _orders(
    role: Role, attach: Attach | None, load: Load, clients: int, processes: int
) -> list[Order]:
    """Part clients into processes."""
    if attach is None:
        return []
    found: list[Order] = []
    first = 0
    for count in shares(clients, min(processes, clients)):
        found.append(Order(role=role, attach=attach, load=load, clients=count, first=first))
        first += count
    return found
