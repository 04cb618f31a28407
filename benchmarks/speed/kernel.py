"""How fast the simulator's clock is, beside SimPy, on one model that both run.

    python -m benchmarks.speed.kernel [--queues N] [--customers N] [--rounds R]

The model has M/M/1 queues, each with a monitor that expects a customer now and then. Every arrival
puts the monitor's deadline off; a monitor that runs out too early looks again at its new deadline.
An *event* is an arrival, a departure, or a monitor that looks. Both programs are handed the same
numbers, drawn before the clock starts, and must come to the same waiting times and alarms.
:class:`sims.world.timeline.Timeline` runs the model by functions that are called, SimPy by
processes that wait, which is how it is used.

Processor time is measured, and the best round counts. The bar is five times SimPy's events a
second. SimPy is in the extra ``dev``.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from benchmarks.arguments import at_least
from benchmarks.report import Bars, print_line
from overlay.ids import nanos
from overlay.rng import rng_for
from sims.world.timeline import Timeline

ARRIVALS_S = 1.0  #: in the mean between two customers of a queue
SERVICE_S = 0.7
SILENCE_NS = nanos(4.0)  #: without a customer, and the monitor sounds an alarm
BAR = 5.0


@dataclass(slots=True)
class Shown:
    """What a run of the model came to."""

    events: int = 0
    alarms: int = 0
    waited: int = 0  #: nanoseconds, all customers together


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn for one queue before the clock starts, in nanoseconds."""

    arrivals: list[int]  #: between two of its customers
    services: list[int]  #: in the order in which they are served


def draw(queues: int, customers: int) -> list[Drawn]:
    """Draw all that the model needs."""
    return [
        Drawn(
            _times(rng_for(1, "kernel", number, "arrivals"), ARRIVALS_S, customers),
            _times(rng_for(1, "kernel", number, "services"), SERVICE_S, customers),
        )
        for number in range(queues)
    ]


def _times(rng: random.Random, mean_s: float, count: int) -> list[int]:
    return [nanos(rng.expovariate(1 / mean_s)) for _ in range(count)]


class Queue:
    """One queue on the timeline."""

    def __init__(self, timeline: Timeline, drawn: Drawn, shown: Shown) -> None:
        self._timeline = timeline
        self._arrivals, self._services = iter(drawn.arrivals), iter(drawn.services)
        self._left = len(drawn.arrivals)
        self._shown = shown
        self._waiting: deque[int] = deque()
        self._is_busy = False
        self._due = SILENCE_NS
        timeline.at(next(self._arrivals), self._arrive)
        timeline.at(self._due, self._look)

    def _arrive(self) -> None:
        timeline = self._timeline
        now = timeline.now
        self._shown.events += 1
        self._due = now + SILENCE_NS
        self._left -= 1
        if self._is_busy:
            self._waiting.append(now)
        else:
            self._serve(now)
        if self._left:
            timeline.at(now + next(self._arrivals), self._arrive)

    def _serve(self, came: int) -> None:
        timeline = self._timeline
        self._is_busy = True
        self._shown.waited += timeline.now - came
        timeline.at(timeline.now + next(self._services), self._depart)

    def _depart(self) -> None:
        self._shown.events += 1
        if self._waiting:
            self._serve(self._waiting.popleft())
        else:
            self._is_busy = False

    def _look(self) -> None:
        timeline = self._timeline
        self._shown.events += 1
        if timeline.now >= self._due:
            self._shown.alarms += 1
            self._due = timeline.now + SILENCE_NS
        if self._left:
            timeline.at(self._due, self._look)


def on_timeline(queues: list[Drawn]) -> Shown:
    """Run the model on the simulator's timeline."""
    timeline, shown = Timeline(), Shown()
    for drawn in queues:
        Queue(timeline, drawn, shown)
    timeline.run(nanos(1e9))
    return shown


def on_simpy(queues: list[Drawn]) -> Shown:
    """Run the same model with SimPy."""
    import simpy

    env, shown = simpy.Environment(), Shown()

    def source(drawn: Drawn) -> Generator[simpy.Event, object, None]:
        server, services = simpy.Resource(env), iter(drawn.services)
        state = [SILENCE_NS, len(drawn.arrivals)]
        env.process(monitor(state))
        for pause in drawn.arrivals:
            yield env.timeout(pause)
            shown.events += 1
            state[0] = int(env.now) + SILENCE_NS
            state[1] -= 1
            env.process(customer(server, services))

    def customer(
        server: simpy.Resource, services: Iterator[int]
    ) -> Generator[simpy.Event, object, None]:
        came = env.now
        with server.request() as request:
            yield request
            shown.waited += int(env.now - came)
            yield env.timeout(next(services))
        shown.events += 1

    def monitor(state: list[int]) -> Generator[simpy.Event, object, None]:
        yield env.timeout(state[0])
        while True:
            shown.events += 1
            if env.now >= state[0]:
                shown.alarms += 1
                state[0] = int(env.now) + SILENCE_NS
            if not state[1]:
                return
            yield env.timeout(state[0] - env.now)

    for drawn in queues:
        env.process(source(drawn))
    env.run()
    return shown


def main() -> int:
    """Print a line for each of both, and the bar; return 1 if it is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.kernel", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--queues", type=at_least(1), default=100)
    parser.add_argument("--customers", type=at_least(1), default=500, help="of each queue")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    options = parser.parse_args()
    programs = {"timeline": on_timeline, "SimPy": on_simpy}
    rates = dict.fromkeys(programs, 0.0)
    found: dict[str, Shown] = {}
    queues = draw(options.queues, options.customers)
    for _ in range(options.rounds):
        for name, run in programs.items():
            rate, found[name] = _timed(run, queues)
            rates[name] = max(rates[name], rate)
    bars = Bars()
    for name, shown in found.items():
        print_line(
            f"{name:>9}: {rates[name]:12,.0f} events a second ({shown.events} events, "
            f"{shown.alarms} alarms, {shown.waited / 1e9:.3f} s waited)"
        )
    bars.judge("S3", "both come to the same", met=found["timeline"] == found["SimPy"])
    bars.at_least("S3", "times SimPy's events a second", rates["timeline"] / rates["SimPy"], BAR)
    return bars.exit_code


def _timed(run: Callable[[list[Drawn]], Shown], queues: list[Drawn]) -> tuple[float, Shown]:
    gc.collect()
    start = time.process_time()
    shown = run(queues)
    return shown.events / (time.process_time() - start), shown


if __name__ == "__main__":
    sys.exit(main())
