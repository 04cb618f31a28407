"""Express beside normal traffic that saturates the same brokers.

Two brokers, linked by a normal and an express link. Probes go from a client of the one to a client
of the other: express ones and normal ones, first with nothing else under way, then while another
client publishes normal events as fast as the brokers take them. All ends are processes of their own
(:mod:`benchmarks.speed.links.express_ends`), and so are the brokers. The one that publishers feed
has the most to do and a processor to itself; the other one shares the last with the load.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

import trio

from benchmarks.report import Bars, print_line
from benchmarks.speed.links.express_ends import RATE
from benchmarks.speed.links.processes import Failed, cpu_seconds, said, serve, started
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import connect
from overlay.ids import LinkClass

FACTOR = 3.0  #: the bar: express p99 under load to idle
READY_SECONDS = 20
RANGE = ("--express-range", "50ms")  #: so that no link is demoted where the machine is busy
CLASSES = (LinkClass.EXPRESS, LinkClass.NORMAL)


@dataclass(frozen=True, slots=True)
class Sample:
    """The probes of one class, microseconds."""

    p50_us: float
    p99_us: float
    rough: int  #: that passed a link that is not express


@dataclass(frozen=True, slots=True)
class Pair:
    """The two brokers."""

    near: str
    far: str
    processes: tuple[subprocess.Popen[str], subprocess.Popen[str]]
    first: bool  #: whether the far one goes before the load


def run(bars: Bars, seconds: int, rounds: int) -> None:
    """Measure and print; B3 is the bar."""
    idle: dict[LinkClass, list[Sample]] = {each: [] for each in CLASSES}
    busy: dict[LinkClass, list[Sample]] = {each: [] for each in CLASSES}
    loads: list[tuple[float, float]] = []
    first = True
    for _ in range(rounds):
        with _brokers() as pair:
            first = first and pair.first
            for each in CLASSES:
                idle[each].append(_probe(pair, each, seconds))
            with _load(pair) as load:
                began = time.monotonic()
                before = [cpu_seconds(process) for process in pair.processes]
                for each in CLASSES:
                    busy[each].append(_probe(pair, each, seconds))
                took = time.monotonic() - began
                spent = [cpu_seconds(process) for process in pair.processes]
                share = max((b - a) / took for a, b in zip(before, spent, strict=True))
                loads.append((said(load)["per_second"], share))
    rate, share = (median(load[index] for load in loads) for index in (0, 1))
    print_line(f"probes, {RATE} a second over two brokers; p50 and p99 in us, idle and under load")
    print_line(f"  load {rate:12,.0f} normal events a second, busier broker {share:.0%} of a CPU")
    if not first:
        print_line(
            "  (only root may let probes and brokers go first: they wait for the load as well)"
        )
    for each in CLASSES:
        alone, loaded = _best(idle[each]), _best(busy[each])
        ratio = loaded[1] / alone[1]
        print_line(
            f"  {each.value:8} idle {alone[0]:8.0f} {alone[1]:8.0f}   under load"
            f" {loaded[0]:10.0f} {loaded[1]:10.0f}   p99 to idle {ratio:8.2f}"
        )
        if each.is_timed:
            bars.at_most("B3", "express p99 under load to idle", ratio, FACTOR)
            bars.at_most("B3", "probes not all express", sum(s.rough for s in busy[each]), 0)


def _best(samples: list[Sample]) -> tuple[float, float]:
    """Return the lowest p50 and p99 of all rounds: other work on the machine only adds to them."""
    return min(s.p50_us for s in samples), min(s.p99_us for s in samples)


@contextmanager
def _brokers() -> Iterator[Pair]:
    with ExitStack() as stack:
        near = stack.enter_context(started(serve(*RANGE)))
        near_url = said(near)["url"]
        _alone(near)
        far = stack.enter_context(started(serve(*RANGE, "--join", near_url)))
        far_url = said(far)["url"]
        _beside(far)
        first = _before_the_load(far)
        for url in (near_url, far_url):
            trio.run(_await_express, url)
        yield Pair(near_url, far_url, (near, far), first)


def _alone(process: subprocess.Popen[str]) -> None:
    """Give a process a processor on which only the probes run besides, if there are two."""
    _place(process, 0)


def _beside(process: subprocess.Popen[str]) -> None:
    """Let a process share the last processor with others that are not alone."""
    _place(process, -1)


def _place(process: subprocess.Popen[str], index: int) -> None:
    if sys.platform == "linux":
        os.sched_setaffinity(process.pid, {sorted(os.sched_getaffinity(0))[index]})


def _before_the_load(process: subprocess.Popen[str]) -> bool:
    """Let a process run before the load that shares its processor, if the system permits it.

    Else the load takes the processor from it for up to 4 ms now and then. That is for the broker
    which has half of its processor to spare alone: Linux stops who goes first (SCHED_FIFO) for up
    to 50 ms in a second of which it has had 950.
    """
    if sys.platform != "linux":
        return False
    try:
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    return True


async def _await_express(url: str) -> None:
    """Wait until the broker's express link is up and inside the express range."""
    with trio.move_on_after(READY_SECONDS):
        async with connect(url, timeout=FIND_SECONDS) as client:
            while True:
                links = (await client.status()).links
                if any(x.link_class.is_timed and not x.demoted for x in links):
                    return
                await trio.sleep(0.1)
    raise Failed(f"{url}: no express link in {READY_SECONDS} s")


def _probe(pair: Pair, link_class: LinkClass, seconds: int) -> Sample:
    events = str(seconds * RATE)
    with _end("subscribe", pair.far, link_class.value, events) as subscriber:
        said(subscriber)
        with _end("publish", pair.near, link_class.value, events):
            return Sample(**said(subscriber))


@contextmanager
def _load(pair: Pair) -> Iterator[subprocess.Popen[str]]:
    """Move normal events as fast as they go; yields who says how fast, once queues are full."""
    with _end("load-subscribe", pair.far) as subscriber:
        _beside(subscriber)
        said(subscriber)
        with _end("load-publish", pair.near) as publisher:
            _beside(publisher)
            said(subscriber)
            yield subscriber


def _end(role: str, url: str, *more: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return started([sys.executable, "-m", "benchmarks.speed.links.express_ends", role, url, *more])
