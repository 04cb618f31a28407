"""Events per second through one broker, beside a bare relay as the limit, or through rings.

    python -m benchmarks.speed.events [--brokers 3,8] [--events N] [--size BYTES] [--rounds R]

One publisher process, one broker process, one subscriber process over loopback TCP. The bare relay
forwards frames of about the same size between the same kind of processes: it coalesces as the
broker does, but reads no event's header, keeps no order and matches nothing. Compare the ratio, not
the absolute figures.

With ``--brokers`` one broker and rings of so many take turns instead: the publisher is at the first
broker, the subscriber at the last, and a bar is the median of the ratios to one broker. Each broker
on the way is a process more that works, so a machine needs a core for each of them: with two cores,
and four processes that work, the most that can be is about three quarters.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import trio

from benchmarks.arguments import at_least, listed
from benchmarks.report import Bars, print_line
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import connect
from overlay.net.connection import Connection
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame

BATCH = 64 * 1024
RELAY_QUEUE_BYTES = 16 * 1024 * 1024
CHORDAL = (sys.executable, "-m", "ges.cli.main")
SETTLED = "60"  #: seconds at most until a ring is whole
LEAST_RATIO = 0.7  #: of a ring's events a second to those of one broker


def main() -> None:
    """Print the events per second of the bare relay and of the broker, and their ratio; medians.

    With ``--role`` it is one of the processes that are measured, and prints what that one has to
    say.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.events", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=at_least(1), default=200_000)
    parser.add_argument("--size", type=at_least(1), default=256, help="payload bytes")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--brokers", type=listed(at_least(2)), help="rings, beside one broker")
    parser.add_argument("--role", choices=("relay", "raw-sub", "sub"), help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "relay":
        trio.run(_relay)
    elif options.role == "raw-sub":
        trio.run(_raw_subscriber, int(options.at), options.events)
    elif options.role == "sub":
        trio.run(_subscriber, options.at, options.events)
    elif options.brokers:
        _compare_rings(options.brokers, options.events, options.size, options.rounds)
    else:
        _compare(options.events, options.size, options.rounds)


def _compare(events: int, size: int, rounds: int) -> None:
    limits, rates = [], []
    for _ in range(rounds):
        limits.append(_measure_relay(events, size))
        rates.append(_measure_brokers(1, events, size))
    ratio = statistics.median(rate / limit for rate, limit in zip(rates, limits, strict=True))
    print_line(f"{events} events of {size} bytes, median of {rounds} rounds")
    print_line(f"bare relay      {statistics.median(limits):12,.0f} events/s")
    print_line(f"chordal broker  {statistics.median(rates):12,.0f} events/s")
    print_line(f"ratio           {ratio:12.2f}")


def _compare_rings(sizes: list[int], events: int, size: int, rounds: int) -> None:
    rates: dict[int, list[float]] = {count: [] for count in (1, *sizes)}
    for _ in range(rounds):
        for count, found in rates.items():
            found.append(_measure_brokers(count, events, size))
    print_line(f"{events} events of {size} bytes, {os.cpu_count()} cores")
    for count, found in rates.items():
        words = ", ".join(f"{rate:,.0f}" for rate in found)
        print_line(f"{count} broker{'s' if count > 1 else ''}: {words} events/s")
    bars = Bars()
    for count in sizes:
        ratio = statistics.median(b / a for a, b in zip(rates[1], rates[count], strict=True))
        bars.at_least("speed", f"ring of {count}, ratio to one broker", ratio, LEAST_RATIO)
    sys.exit(bars.exit_code)


def _measure_relay(events: int, size: int) -> float:
    with _spawn("relay") as (_, port), _spawn("raw-sub", port, events) as (sub, _):
        trio.run(_raw_publisher, int(port), events, size)
        return _rate(sub, events)


def _measure_brokers(count: int, events: int, size: int) -> float:
    """Return events per second from the first of a ring of brokers to the last."""
    urls: list[str] = []
    with ExitStack() as stack:
        for _ in range(count):
            command = [*CHORDAL, "serve", "--listen", "127.0.0.1:0", "--log-level", "error"]
            joining = ["--join", urls[0]] if urls else []
            broker = stack.enter_context(running_process([*command, *joining]))
            urls.append(json.loads(line_of(broker))["url"])
        if count > 1:
            is_whole = ["ring", "--check", "--expect", str(count), "--wait", SETTLED]
            subprocess.run(
                [*CHORDAL, *is_whole, "--broker", urls[0]], check=True, stdout=subprocess.DEVNULL
            )
        sub, _ = stack.enter_context(_spawn("sub", urls[-1], events))
        trio.run(publisher, urls[0], events, size)
        return _rate(sub, events)


def _rate(subscriber: subprocess.Popen[str], events: int) -> float:
    return events / float(line_of(subscriber))


# ── the bare relay and its ends ───────────────────────────────────────────────────────────────


async def _relay() -> None:
    """Forward whatever the second connection sends to the first, in large writes."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print_line(str(listener.socket.getsockname()[1]))
    target = await listener.accept()
    source = await listener.accept()
    connection = Connection(target, secure=False, limit_bytes=RELAY_QUEUE_BYTES)
    reader = FrameReader()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.write_forever)
        while data := await source.receive_some(256 * 1024):
            reader.feed(data)
            for kind, body in reader.frames():
                connection.send(frame(kind, body), 1)
            await connection.room()
        connection.finish()


async def _raw_subscriber(port: int, events: int) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    print_line("ready")
    reader = FrameReader()
    count, started = 0, 0.0
    while count < events:
        data = await stream.receive_some(256 * 1024)
        started = started or time.perf_counter()
        reader.feed(data)
        count += len(reader.frames())
    print_line(str(time.perf_counter() - started))


async def _raw_publisher(port: int, events: int, size: int) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    one = frame(EVENT, b"x" * (size + 64))
    per_batch = max(1, BATCH // len(one))
    sent = 0
    while sent < events:
        count = min(per_batch, events - sent)
        await stream.send_all(one * count)
        sent += count
    await stream.aclose()


# ── the ends of a broker ──────────────────────────────────────────────────────────────────────


async def _subscriber(url: str, events: int) -> None:
    async with (
        connect(url, timeout=FIND_SECONDS) as client,
        client.subscribe("bench") as subscription,
    ):
        await subscription.active.wait()
        print_line("ready")
        count, started = 0, 0.0
        async for _ in subscription:
            started = started or time.perf_counter()
            count += 1
            if count == events:
                break
        print_line(str(time.perf_counter() - started))


async def publisher(url: str, events: int, size: int) -> None:
    """Publish so many events of so many bytes to the topic ``bench``, and wait for their end."""
    payload = b"x" * size
    async with connect(url, timeout=FIND_SECONDS) as client:
        for _ in range(events):
            await client.publish("bench", payload)
        await client.flush()


# ── processes ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _spawn(role: str, *args: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "benchmarks.speed.events", "--role", role]
    if args:
        command += ["--at", str(args[0]), "--events", str(args[1])]
    with running_process(command) as process:
        yield process, line_of(process)


@contextmanager
def running_process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process whose output is read by the line, and end it in the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


if __name__ == "__main__":
    main()
