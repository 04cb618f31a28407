"""Runs what is left of a campaign, over all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from sims.campaign.cells import Cell, Shown, run_cell
from sims.campaign.journal import Journal
from sims.errors import SimulationError

AHEAD = 2  #: runs handed to each core before the first of them is done

#: Called with the runs that are done, and what the last one showed.
Progress = Callable[[int, Shown], None]


def run(
    cells: Iterable[Cell],
    journal: Journal,
    *,
    workers: int,
    until: float | None = None,
    progress: Progress = lambda done, shown: None,
) -> list[Shown]:
    """Do the runs that the journal does not have; return what all of them showed, in order.

    A run that could not be done is returned, and not noted: it is tried again another time.

    Args:
        cells: all runs of the campaign.
        journal: what was done before, and is added to.
        workers: processes to spread them over.
        until: no run is begun after this time of ``time.monotonic``.
        progress: told of each run.

    Raises:
        SimulationError: a worker has died.
    """
    known = list(cells)
    left = (cell for cell in known if cell.key not in journal.done)
    failed: dict[str, Shown] = {}
    finished = sum(cell.key in journal.done for cell in known)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_be_a_worker)
    try:
        for shown in _results(pool, left, workers, until):
            if shown.error:
                failed[shown.key] = shown
            else:
                journal.add(shown)
            finished += 1
            progress(finished, shown)
    except BrokenProcessPool:
        raise SimulationError(
            "a worker has died, perhaps for want of memory; the same command goes on, "
            "and --workers takes fewer"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    found = {**journal.done, **failed}
    return [found[key] for cell in known if (key := cell.key) in found]


def _results(
    pool: ProcessPoolExecutor, cells: Iterator[Cell], workers: int, until: float | None
) -> Iterator[Shown]:
    """Yield what runs showed, as they are done; a few are always on their way."""
    under_way: set[Future[Shown]] = set()
    while True:
        while len(under_way) < AHEAD * workers and not _is_over(until):
            cell = next(cells, None)
            if cell is None:
                break
            under_way.add(pool.submit(run_cell, cell))
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


def _be_a_worker() -> None:
    """Leave Ctrl-C to the process that the user started, which ends the others; die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """After ``kill -9`` nobody would end a worker: it holds the queue that it waits at open."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
