"""What ten slow readers cost a publisher and a subscriber who keeps up: four bars.

    python -m benchmarks.speed.slow_readers [--readers N] [--rate BYTES] [--rounds R] [--policy P]

One publisher process and one subscriber process at one broker, over loopback TCP. Beside them a
process of strangers, each with a connection of its own, subscribes to ``#`` and reads so many bytes
a second; one that is cut off comes again at once. The strangers are at the same broker (*here*), or
at the other one of a ring of two (*there*).

*rate*: the publisher sends as fast as it can. The rate of the subscriber is compared with its rate
beside as many strangers that read as fast as they can. *p99*: the publisher sends 1,000 events a
second. How late the latest hundredth comes is compared with the same without strangers. The two
sides of each comparison take turns, and the bars are medians of the ratios. The subscriber must not
lose an event.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

import trio

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.report import Bars, print_line
from benchmarks.speed.events import line_of, running_process
from benchmarks.stage.greetings import client_hello
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import connect
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, KeepAlive, Subscribe
from overlay.address import parse_url
from overlay.net.connection import BROKEN
from overlay.queues.lanes import Policy
from overlay.wire.codec import READ_BYTES
from overlay.wire.greetings import GREETINGS

LEAST_RATIO = 0.8  #: of the rates
MOST_RATIO = 2.0  #: of the latenesses
TOPIC = "bench"
PLACES = ("here", "there")
RATE_BYTES = 64 * 1024  #: of an event where the rate is measured ...
PACED_BYTES = 4 * 1024  #: ... and where the lateness is: more than the strangers take
PACE = 1000  #: events a second
QUIET_SECONDS = 10.0  #: without an event, and a subscriber takes the last one for lost
SLICE_SECONDS = 0.05  #: a slow stranger reads its share so often
ALIVE_SECONDS = 5.0
STAMP = struct.Struct("!Q")  #: nanoseconds of the monotonic clock; 0: it was the last
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Got:
    """What the subscriber got."""

    rate: float  #: bytes of payload a second
    p99_ms: float
    lost: int


def main() -> None:
    """Print the rates, the latenesses and the bars."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.slow_readers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--readers", type=at_least(1), default=10)
    parser.add_argument("--rate", type=above(-1), default=1.2 * MIB, help="bytes a second of each")
    parser.add_argument("--seconds", type=above(0), default=4.0, help="of one measurement")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--places", type=listed(one_of(PLACES)), default=list(PLACES))
    parser.add_argument("--policy", choices=[each.value for each in Policy], default="disconnect")
    parser.add_argument("--role", choices=("pub", "sub", "readers"), help=argparse.SUPPRESS)
    parser.add_argument("--pace", type=above(-1), default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "pub":
        trio.run(_publish, options.at, options.seconds, options.pace)
    elif options.role == "sub":
        trio.run(_subscribe, options.at)
    elif options.role == "readers":
        trio.run(_read_all, options.at, options.readers, options.rate)
    else:
        sys.exit(_compare(options))


def _compare(options: argparse.Namespace) -> int:
    bars = Bars()
    lost = 0
    for place in options.places:
        quick, slow, alone, late = [], [], [], []
        for _ in range(options.rounds):
            quick.append(_measure(options, place, options.readers, 0, 0))
            slow.append(_measure(options, place, options.readers, options.rate, 0))
            alone.append(_measure(options, place, 0, 0, PACE))
            late.append(_measure(options, place, options.readers, options.rate, PACE))
        for words, found in (("that keep up", quick), ("that are slow", slow)):
            rates = ", ".join(f"{each.rate / MIB:.1f}" for each in found)
            print_line(f"{place:5} rate beside readers {words}: {rates} MiB/s")
        for words, found in (("without readers", alone), ("beside slow readers", late)):
            print_line(f"{place:5} p99 {words}: {', '.join(f'{e.p99_ms:.2f}' for e in found)} ms")
        rate = statistics.median(s.rate / q.rate for q, s in zip(quick, slow, strict=True))
        p99 = statistics.median(b.p99_ms / a.p99_ms for a, b in zip(alone, late, strict=True))
        bars.at_least("slow", f"{place}, rate, ratio", rate, LEAST_RATIO)
        bars.at_most("slow", f"{place}, p99, ratio", p99, MOST_RATIO)
        lost += sum(each.lost for each in itertools.chain(quick, slow, alone, late))
    bars.check("slow", "events that the subscriber lost", lost, 0)
    return bars.exit_code


def _measure(
    options: argparse.Namespace, place: str, readers: int, rate: float, pace: float
) -> Got:
    """Measure once, with brokers of its own."""
    with ExitStack() as stack:
        here = stack.enter_context(_broker(options.policy))
        there = stack.enter_context(_broker(options.policy, here)) if place == "there" else here
        if readers:
            strangers = ("--readers", str(readers), "--rate", str(rate))
            if line_of(stack.enter_context(_role("readers", there, *strangers))) != "ready":
                sys.exit("the broker does not take the readers")
        subscriber = stack.enter_context(_role("sub", here))
        line_of(subscriber)
        seconds = ("--seconds", str(options.seconds), "--pace", str(pace))
        publisher = stack.enter_context(_role("pub", here, *seconds))
        published = int(line_of(publisher))
        count, size, elapsed, p99_ms = json.loads(line_of(subscriber))
        return Got(size / elapsed, p99_ms, published - count)


@contextmanager
def _broker(policy: str, seed: str | None = None) -> Iterator[str]:
    command = [sys.executable, "-m", "ges.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--log-level", "error", "--slow-clients", policy, "--profile", "local"]
    if seed is not None:
        command += ["--join", seed]
    with running_process(command) as broker:
        yield json.loads(line_of(broker))["url"]


def _role(role: str, url: str, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.speed.slow_readers", "--role", role]
    return running_process([*command, "--at", url, *arguments])


# ── the pair ──────────────────────────────────────────────────────────────────────────────────


async def _publish(url: str, seconds: float, pace: float) -> None:
    """Publish for so long, ``pace`` events a second (0: as fast as it can); print how many."""
    filling = bytes((PACED_BYTES if pace else RATE_BYTES) - STAMP.size)
    async with connect(url, timeout=FIND_SECONDS) as client:
        began, count = trio.current_time(), 0
        while trio.current_time() < began + seconds:
            if pace:
                await trio.sleep_until(began + count / pace)
            await client.publish(TOPIC, STAMP.pack(time.monotonic_ns()) + filling)
            count += 1
        await client.publish(TOPIC, STAMP.pack(0))
        await client.flush()
    print_line(str(count))


async def _subscribe(url: str) -> None:
    """Print how many events came, their bytes, in how many seconds, and the p99 in ms."""
    late: list[int] = []
    size, began = 0, 0.0
    async with (
        connect(url, timeout=FIND_SECONDS) as client,
        client.subscribe(TOPIC) as events,
    ):
        await events.active.wait()
        print_line("ready")
        quiet = trio.CancelScope()
        with quiet:
            async for event in events:
                # Where the last event is lost, too, the others are counted all the same.
                quiet.deadline = trio.current_time() + QUIET_SECONDS
                (stamp,) = STAMP.unpack_from(event.payload)
                if not stamp:
                    break
                late.append(time.monotonic_ns() - stamp)
                began = began or trio.current_time()
                size += len(event.payload)
        elapsed = trio.current_time() - began
    p99 = sorted(late)[len(late) * 99 // 100] / 1e6 if late else 0.0
    print_line(json.dumps([len(late), size, elapsed, p99]))


# ── the strangers ─────────────────────────────────────────────────────────────────────────────


async def _read_all(url: str, readers: int, rate: float) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(readers):
            await nursery.start(_stay, url, b"%032d" % number, rate)
        print_line("ready")


async def _stay(
    url: str,
    secret: bytes,
    rate: float,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read at that rate (0: as fast as it can); come again when cut off."""
    address = parse_url(url)
    is_told = False
    while True:
        with contextlib.suppress(*BROKEN):
            async with await trio.open_tcp_stream(address.host, address.port) as stream:
                await stream.send_all(GREETINGS.encode(client_hello(secret)))
                await stream.send_all(CLIENT_CODEC.encode(Subscribe(1, Ask("#"))))
                await stream.receive_some(1)
                if not is_told:
                    task_status.started()
                    is_told = True
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_keep_alive, stream)
                    await _read(stream, rate)
                    nursery.cancel_scope.cancel()


async def _read(stream: trio.SocketStream, rate: float) -> None:
    """Read until the other end closes, or breaks off."""
    began, taken = trio.current_time(), 0
    with contextlib.suppress(*BROKEN):
        while True:
            due = int((trio.current_time() - began) * rate) - taken if rate else READ_BYTES
            if due <= 0:
                await trio.sleep(SLICE_SECONDS)
                continue
            data = await stream.receive_some(due)
            if not data:
                return
            taken += len(data)


async def _keep_alive(stream: trio.SocketStream) -> None:
    with contextlib.suppress(*BROKEN):
        while True:
            await trio.sleep(ALIVE_SECONDS)
            await stream.send_all(CLIENT_CODEC.encode(KeepAlive(1, answer=False)))


if __name__ == "__main__":
    main()
