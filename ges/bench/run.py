"""Starts the processes of a measurement, has them begin together, and puts together what they say.

Each process is told on its standard input what to do, so that no token is seen in a list of
processes.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import msgspec
import trio

from ges.bench.figures import Figures, RequestFigures, put_requests_together, put_together
from ges.bench.load import (
    Answered,
    Asked,
    Attach,
    Failed,
    Go,
    Line,
    Load,
    Order,
    Published,
    Ready,
    Received,
    Role,
    Stop,
)
from ges.bench.publishing import shares
from ges.bench.worker import LineReader
from ges.errors import BenchFailed

QUIET_SECONDS = 2.0  #: in which nothing comes: what is missing then is lost
START_SECONDS = 60.0  #: for all clients of a process to be attached, and for a report to come


class Worker:
    """One process."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = LineReader(process.stdout.receive_some)

    async def tell(self, line: Order | Go | Stop) -> None:
        """Say something to it; one that has ended has said why."""
        with suppress(trio.BrokenResourceError):
            await self._stdin.send_all(msgspec.json.encode(line) + b"\n")

    async def hear(self) -> Line:
        """Return what it says next.

        Raises:
            BenchFailed: it could not do what it was to do.
        """
        line = await self._lines.line()
        if line is None:
            raise BenchFailed("a process of the measurement has ended without a word")
        said: Line = msgspec.json.decode(line, type=Line)
        if isinstance(said, Failed):
            raise BenchFailed(said.problem)
        return said


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
        published = [said for w in publishers if isinstance(said := await w.hear(), Published)]
        if publishers or stop is None:
            stop = Stop(sum(each.events for each in published), QUIET_SECONDS)
        for worker in subscribers:
            await worker.tell(stop)
        received = [said for w in subscribers if isinstance(said := await w.hear(), Received)]
        nursery.cancel_scope.cancel()
    return put_together(load, published, received)


async def measure_requests(
    load: Load, ask_at: Attach, answer_at: Attach | None, processes: int
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
        asked = [said for w in asking if isinstance(said := await w.hear(), Asked)]
        for worker in answering:
            await worker.tell(Stop(None, 0.0))
        answered = [said for w in answering if isinstance(said := await w.hear(), Answered)]
        nursery.cancel_scope.cancel()
    return put_requests_together(load, asked, answered)


async def _begun(
    nursery: trio.Nursery, waiting: list[Order], acting: list[Order]
) -> tuple[list[Worker], list[Worker]]:
    """Start processes that wait for what others do, then those; these begin together.

    Raises:
        BenchFailed: one of them could not be started.
    """
    first = [await nursery.start(_worker, order) for order in waiting]
    then = [await nursery.start(_worker, order) for order in acting]
    with trio.fail_after(START_SECONDS):
        for worker in (*first, *then):
            assert isinstance(await worker.hear(), Ready)
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


async def _worker(
    order: Order, *, task_status: trio.TaskStatus[Worker] = trio.TASK_STATUS_IGNORED
) -> None:
    command = [sys.executable, "-m", "ges.bench.worker"]
    # In a session of its own: an interrupt is for the command, which ends its processes.
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        worker = Worker(process)
        await worker.tell(order)
        task_status.started(worker)
        await process.wait()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
