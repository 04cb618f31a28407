"""Events per second of each face of the client, beside the one under trio; all in one run.

    python -m benchmarks.speed.clients [--events N] [--size BYTES] [--rounds R]

One broker process over loopback TCP serves one publisher process and one subscriber process of each
face in turn: trio, asyncio, uvloop if it is installed. In each round all faces are measured once,
and a ratio is one of figures of the same round. Beside the events per second, for which a broker
and two clients share the cores, there is the CPU time that each end takes for an event: that is the
client alone.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import AsyncIterable, Awaitable, Callable

import trio

import ges.client
import ges.client.aio
from benchmarks.arguments import at_least
from benchmarks.report import print_line
from benchmarks.speed.events import line_of, running_process
from benchmarks.stage.waiting import FIND_SECONDS

FACES = ("trio", "asyncio", "uvloop")
TOPIC = "bench"


def main() -> None:
    """Print what each face brings through a broker, and its ratio to trio's; medians.

    With ``--role`` it is one of the clients that are measured, and prints what that one has to say.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.clients", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=at_least(2), default=200_000)
    parser.add_argument("--size", type=at_least(1), default=256, help="payload bytes")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--role", choices=("pub", "sub"), help=argparse.SUPPRESS)
    parser.add_argument("--face", choices=FACES, help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is None:
        _compare(options.events, options.size, options.rounds)
    elif options.face == "trio":
        trio.run(_PROGRAMS[options.role], options.face, options.at, options.events, options.size)
    else:
        run: Callable[[Awaitable[None]], object] = asyncio.run  # type: ignore[assignment]
        if options.face == "uvloop":
            run = importlib.import_module("uvloop").run
        run(_PROGRAMS[options.role](options.face, options.at, options.events, options.size))


# ── the measurement ───────────────────────────────────────────────────────────────────────────


def _compare(events: int, size: int, rounds: int) -> None:
    faces = [face for face in FACES if face != "uvloop" or importlib.util.find_spec("uvloop")]
    found: dict[str, list[tuple[float, float, float]]] = {face: [] for face in faces}
    command = [sys.executable, "-m", "ges.cli.main", "serve", "--listen", "127.0.0.1:0"]
    with running_process([*command, "--log-level", "error"]) as broker:
        url = json.loads(line_of(broker))["url"]
        for number in range(rounds):
            for face in faces if number % 2 else reversed(faces):
                found[face].append(_measure(face, url, events, size))
    print_line(f"{events} events of {size} bytes, medians of {rounds} rounds")
    print_line(f"{'':10}{'events/s':>12}{'publisher':>12}{'subscriber':>12}   ratios to trio")
    for face in faces:
        rate, publisher, subscriber = (
            statistics.median(column) for column in zip(*found[face], strict=True)
        )
        ratios = [
            statistics.median(
                mine[column] / theirs[column]
                for mine, theirs in zip(found[face], found["trio"], strict=True)
            )
            for column in range(3)
        ]
        print_line(
            f"{face:10}{rate:12,.0f}{publisher:9.2f} µs{subscriber:9.2f} µs   "
            + "  ".join(f"{ratio:.2f}" for ratio in ratios)
        )


def _measure(face: str, url: str, events: int, size: int) -> tuple[float, float, float]:
    """Return events per second, and microseconds of CPU for an event at each end."""
    command = [sys.executable, "-m", "benchmarks.speed.clients", "--face", face, "--at", url]
    command += ["--events", str(events), "--size", str(size)]
    with running_process([*command, "--role", "sub"]) as subscriber:
        assert line_of(subscriber) == "ready"
        with running_process([*command, "--role", "pub"]) as publisher:
            published = float(line_of(publisher))
            seconds, read = map(float, line_of(subscriber).split())
    return events / seconds, published * 1e6 / events, read * 1e6 / events


# ── the clients ───────────────────────────────────────────────────────────────────────────────


async def _publish(face: str, url: str, events: int, size: int) -> None:
    payload = b"x" * size
    connect = ges.client.connect if face == "trio" else ges.client.aio.connect
    async with connect(url, timeout=FIND_SECONDS) as client:
        began = time.process_time()
        for _ in range(events):
            await client.publish(TOPIC, payload)
        await client.flush()
        print_line(str(time.process_time() - began))


async def _subscribe(face: str, url: str, events: int, size: int) -> None:
    connect = ges.client.connect if face == "trio" else ges.client.aio.connect
    async with (
        connect(url, timeout=FIND_SECONDS) as client,
        client.subscribe(TOPIC) as subscription,
    ):
        print_line("ready")
        began, cpu = await _first(subscription)
        count = 1
        async for _ in subscription:
            count += 1
            if count == events:
                break
        print_line(f"{time.perf_counter() - began} {time.process_time() - cpu}")


async def _first(events: AsyncIterable[object]) -> tuple[float, float]:
    async for _ in events:
        break
    return time.perf_counter(), time.process_time()


_PROGRAMS = {"pub": _publish, "sub": _subscribe}


if __name__ == "__main__":
    main()
