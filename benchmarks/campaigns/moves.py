"""Clients whose broker is frozen or killed: how soon they move, and what they miss.

    python -m benchmarks.campaigns.moves [--rounds N] [--every SECONDS] [--faults stop,kill]

Five real brokers on loopback, profile ``lan``. In each round a publisher sends 1,000 events a
second, and three subscribers read them. One broker gets SIGSTOP for five seconds, or ``kill -9``:
in half of the rounds the subscribers' broker, in the others the publisher's. Measured of each
client of that broker: the seconds until it is attached to another one; and of each subscriber:
events that never come, and events that come twice or out of order. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle, islice
from pathlib import Path

import trio

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.report import Bars
from benchmarks.stage.processes import Broker, Fleet, fleet, whole
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import Client, Gap, Subscription, connect
from overlay.quantiles import quantile

BROKERS = 5
SUBSCRIBERS = 3
BEFORE_SECONDS = 1.0  #: events flow for so long before the fault ...
FAULT_SECONDS = 5.0  #: ... and for so long after it; then a frozen broker goes on
LAST_SECONDS = 20.0  #: the last event may take so long to come
WHOLE_SECONDS = 60.0
MEDIAN_SECONDS, P99_SECONDS = 1.5, 2.0  #: bars of :class:`Fault.STOP`


class Fault(StrEnum):
    """What is done to a broker."""

    STOP = "stop"  #: SIGSTOP, and SIGCONT later
    KILL = "kill"  #: kill -9, and another broker later


class At(StrEnum):
    """Whose broker it is done to."""

    SUBSCRIBERS = "subscribers"
    PUBLISHER = "publisher"


@dataclass
class Found:
    """What was measured of one kind of rounds."""

    moved_s: list[float] = field(default_factory=list)  #: a client each
    lost: int = 0  #: events, by subscriber
    disorder: int = 0


class Arrivals:
    """The numbers that one subscriber has got."""

    def __init__(self) -> None:
        self.last = -1
        self.count = 0
        self.disorder = 0
        self._more = trio.Event()

    async def reach(self, number: int) -> None:
        """Wait for the event of that number, or a later one."""
        while self.last < number:
            await self._more.wait()

    async def read(self, events: Subscription) -> None:
        """Take note of what comes, until cancelled."""
        while batch := await events.batch():
            for event in batch:
                number = int(event.payload)
                if number <= self.last:
                    self.disorder += 1
                else:
                    self.last = number
                    self.count += 1
            self._more.set()
            self._more = trio.Event()


class Round:
    """One fault under traffic."""

    def __init__(self, victim: Broker, other: Broker, fault: Fault, at: At, every_s: float) -> None:
        self._victim, self._fault = victim, fault
        self._homes = {At.SUBSCRIBERS: other.url, At.PUBLISHER: other.url, at: victim.url}
        self._every_s = every_s
        self._began = 0.0
        self._published = 0
        self._found = Found()

    async def run(self) -> Found:
        """Carry it out."""
        arrivals = [Arrivals() for _ in range(SUBSCRIBERS)]
        async with trio.open_nursery() as nursery:
            for each in arrivals:
                await nursery.start(self._subscribe, each)
            async with connect(
                self._homes[At.PUBLISHER], on_gap=self._moved, timeout=FIND_SECONDS
            ) as publisher:
                await self._publish(publisher, BEFORE_SECONDS)
                self._began = trio.current_time()
                is_stop = self._fault is Fault.STOP
                self._victim.signal(signal.SIGSTOP if is_stop else signal.SIGKILL)
                await self._publish(publisher, FAULT_SECONDS)
                if is_stop:
                    self._victim.signal(signal.SIGCONT)
                await publisher.flush()
                with trio.move_on_after(LAST_SECONDS):
                    for each in arrivals:
                        await each.reach(self._published - 1)
            nursery.cancel_scope.cancel()
        self._found.lost = sum(self._published - each.count for each in arrivals)
        self._found.disorder = sum(each.disorder for each in arrivals)
        return self._found

    def _moved(self, gap: Gap) -> None:
        if gap.lost == self._victim.url and self._began:
            self._found.moved_s.append(trio.current_time() - self._began)

    async def _subscribe(self, arrivals: Arrivals, *, task_status: trio.TaskStatus[None]) -> None:
        home = self._homes[At.SUBSCRIBERS]
        async with (
            connect(home, on_gap=self._moved, timeout=FIND_SECONDS) as client,
            client.subscribe("x") as events,
        ):
            task_status.started()
            await arrivals.read(events)

    async def _publish(self, publisher: Client, seconds: float) -> None:
        end = due = trio.current_time()
        end += seconds
        while due < end:
            await publisher.publish("x", b"%d" % self._published)
            self._published += 1
            due += self._every_s
            await trio.sleep_until(due)


def main() -> int:
    """Print a line a kind of rounds, and the bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.moves",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--rounds", type=at_least(1), default=20, help="of each kind")
    parser.add_argument("--every", type=above(0), default=0.001, help="seconds between two events")
    parser.add_argument(
        "--faults", type=listed(one_of(Fault)), default=list(Fault), help="of stop,kill"
    )
    options = parser.parse_args()
    faults = [Fault(name) for name in options.faults]
    found: defaultdict[tuple[Fault, At], Found] = defaultdict(Found)
    bars = Bars()
    with (
        tempfile.TemporaryDirectory(prefix="chordal-moves-") as folder,
        fleet(Path(folder)) as ring,
    ):
        brokers = ring.ring_of(BROKERS, "--profile", "lan")
        kinds = cycle((fault, at) for fault in faults for at in At)
        for fault, at in islice(kinds, options.rounds * len(faults) * len(At)):
            victim, other = brokers[0], brokers[1]
            one = trio.run(Round(victim, other, fault, at, options.every).run)
            total = found[fault, at]
            total.moved_s += one.moved_s
            total.lost += one.lost
            total.disorder += one.disorder
            if one.lost or one.disorder:
                bars.note(f"{fault} at the {at}': {one.lost} lost, {one.disorder} misplaced")
            brokers = [*brokers[1:], _back(ring, victim, other, fault)]
            whole(other.url, BROKERS, WHOLE_SECONDS)
    for (fault, at), total in found.items():
        for line in _lines(total):
            bars.note(f"{fault} at the {at}': {line}")
    _judge(bars, found)
    return bars.exit_code


def _back(ring: Fleet, victim: Broker, other: Broker, fault: Fault) -> Broker:
    """Return the broker that goes on in the victim's place."""
    if fault is Fault.STOP:
        return victim
    victim.kill()
    return ring.broker("--profile", "lan", "--join", other.url)


def _lines(total: Found) -> Iterator[str]:
    median, p99 = quantile(total.moved_s, 0.5), quantile(total.moved_s, 0.99)
    yield f"{len(total.moved_s)} clients moved after {median:.3f} s (median), {p99:.3f} s (p99)"
    yield f"{total.lost} events lost, {total.disorder} twice or out of order"


def _judge(bars: Bars, found: dict[tuple[Fault, At], Found]) -> None:
    moved = [
        seconds
        for (fault, _), total in found.items()
        if fault is Fault.STOP
        for seconds in total.moved_s
    ]
    if moved:
        bars.at_most(
            "M1", "frozen, clients moved after, median", quantile(moved, 0.5), MEDIAN_SECONDS
        )
        bars.at_most("M2", "frozen, clients moved after, p99", quantile(moved, 0.99), P99_SECONDS)
    bars.check("M3", "events lost", sum(total.lost for total in found.values()), 0)
    bars.check("M4", "twice or out of order", sum(t.disorder for t in found.values()), 0)


if __name__ == "__main__":
    raise SystemExit(main())
