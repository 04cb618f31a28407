"""What the subscriptions of others cost a publisher and a subscriber: one bar.

    python -m benchmarks.speed.subscriptions [--events N] [--clients C] [--filters F] [--rounds R]

One publisher process, one broker process, one subscriber process over loopback TCP, as in
:mod:`benchmarks.speed.events`. Beside them C clients of the same broker have F filters each, and
one of them subscribes so many times a second. It is compared with C clients that have one filter
each and are quiet. None of them gets an event. Three kinds of filters:

*others*: different topics, none of them that of the events. *same*: the topic of the events, all
filters equal, for express events alone. *wild*: ``+`` in the same way, so that each change concerns
all topics.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from itertools import count, product
from string import ascii_letters

import trio

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.report import Bars, print_line
from benchmarks.speed.events import line_of, publisher, running_process
from benchmarks.stage.greetings import client_hello
from ges.matching.asks import ask_for
from ges.wire.client_messages import (
    CLIENT_CODEC,
    KeepAlive,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL
from overlay.wire.greetings import GREETINGS

LEAST_RATIO = 0.8
ALIVE_SECONDS = 5.0
#: Of the broker: what it holds by default is too little for 30 clients of 4,000 filters.
MEMORY = ("--memory", "512M", "--subscription-memory", "256M")
KINDS = ("others", "same", "wild")
TOPIC = "bench"  #: that of :mod:`benchmarks.speed.events`
#: Short names, as many as a client may have: they take the least memory.
NAMES = ["".join(letters) for size in (1, 2, 3) for letters in product(ascii_letters, repeat=size)]


def main() -> None:
    """Print a line for each kind of filters: the rates, and the bar of their ratio."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.subscriptions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=at_least(1), default=200_000)
    parser.add_argument("--size", type=at_least(1), default=64, help="payload bytes")
    parser.add_argument("--clients", type=at_least(1), default=30, help="beside the measured two")
    parser.add_argument("--filters", type=at_least(1), default=4000, help="of each of them")
    parser.add_argument("--rate", type=above(-1), default=100.0, help="subscriptions a second")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--kinds", type=listed(one_of(KINDS)), default=list(KINDS))
    parser.add_argument("--at", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.at is not None:
        (kind,) = options.kinds
        trio.run(_others, options.at, kind, options.clients, options.filters, options.rate)
        return
    bars = Bars()
    for kind in options.kinds:
        quiet, loud = [], []
        for _ in range(options.rounds):
            quiet.append(_measure(options, kind, is_loud=False))
            loud.append(_measure(options, kind, is_loud=True))
        print_line(f"{kind:7} beside one filter each {statistics.median(quiet):12,.0f} events/s")
        print_line(f"{kind:7} beside many filters    {statistics.median(loud):12,.0f} events/s")
        ratio = statistics.median(after / before for before, after in zip(quiet, loud, strict=True))
        bars.at_least("subscriptions", f"{kind}, ratio", ratio, LEAST_RATIO)
    sys.exit(bars.exit_code)


def _measure(options: argparse.Namespace, kind: str, *, is_loud: bool) -> float:
    command = [sys.executable, "-m", "ges.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--log-level", "error", *MEMORY]
    with running_process(command) as broker:
        url = json.loads(line_of(broker))["url"]
        beside = [sys.executable, "-m", "benchmarks.speed.subscriptions", "--at", url]
        beside += ["--kinds", kind, "--clients", str(options.clients)]
        beside += ["--filters", str(options.filters if is_loud else 1)]
        beside += ["--rate", str(options.rate if is_loud else 0)]
        with running_process(beside) as others:
            if line_of(others) != "ready":
                sys.exit("the broker refuses some of the filters")
            role = [sys.executable, "-m", "benchmarks.speed.events", "--role", "sub"]
            with running_process(
                [*role, "--at", url, "--events", str(options.events)]
            ) as subscriber:
                line_of(subscriber)
                trio.run(publisher, url, options.events, options.size)
                return float(options.events / float(line_of(subscriber)))


# ── the clients beside ────────────────────────────────────────────────────────────────────────


async def _others(url: str, kind: str, clients: int, filters: int, rate: float) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(clients):
            # Each has an address of its own, as one alone may not take so much.
            host = f"127.0.1.{number % 254 + 1}"
            stream = await _attach(url, host, b"%032d" % number, kind, filters)
            nursery.start_soon(_read, stream)
            if number or not rate:
                nursery.start_soon(_stay, stream)
            else:
                nursery.start_soon(_subscribe, stream, kind, filters, rate)
        print_line("ready")


async def _attach(url: str, host: str, secret: bytes, kind: str, filters: int) -> trio.SocketStream:
    """Return the connection of a client that has its filters."""
    address = parse_url(url)
    stream = await trio.open_tcp_stream(address.host, address.port, local_address=host)
    await stream.send_all(GREETINGS.encode(client_hello(secret)))
    frames = [_subscription(kind, n, n) for n in range(filters)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"".join(frames))
        reader = FrameReader()
        served = 0
        while served < filters:
            reader.feed(await stream.receive_some(64 * 1024))
            for tag, body in reader.frames():
                answer = CLIENT_CODEC.decode(body) if tag == CONTROL else None
                if isinstance(answer, SubscriptionRefused):
                    sys.exit(answer.reason)
                served += isinstance(answer, Subscribed)
    return stream


def _subscription(kind: str, number: int, variant: int) -> bytes:
    """Return the request of one client for a subscription."""
    text = {"others": NAMES[variant], "same": TOPIC, "wild": "+"}[kind]
    return CLIENT_CODEC.encode(Subscribe(number, ask_for(text, LinkClass.EXPRESS)))


async def _read(stream: trio.SocketStream) -> None:
    while await stream.receive_some(64 * 1024):
        pass


async def _stay(stream: trio.SocketStream) -> None:
    while True:
        await trio.sleep(ALIVE_SECONDS)
        await stream.send_all(CLIENT_CODEC.encode(KeepAlive(1, answer=False)))


async def _subscribe(stream: trio.SocketStream, kind: str, filters: int, rate: float) -> None:
    """Subscribe again and again, by the number of an earlier subscription."""
    for turn in count():
        await trio.sleep(1 / rate)
        await stream.send_all(_subscription(kind, turn % filters, (turn + filters) % len(NAMES)))


if __name__ == "__main__":
    main()
