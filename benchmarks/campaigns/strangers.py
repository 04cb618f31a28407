"""What hostile strangers try: ``python -m benchmarks.campaigns.strangers``.

Each story is played on ``chordal serve`` processes of its own, with the commands that a user has,
and says in figures what held.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from benchmarks.campaigns.attacks import ATTACKS, Target
from benchmarks.campaigns.crowds import (
    LONG_HOST,
    Crowd,
    FalseBroker,
    clients,
    false_brokers,
    questions,
)
from benchmarks.campaigns.fuzz import Figure
from benchmarks.stage.processes import Broker, Fleet, chordal, fleet
from benchmarks.stage.waiting import until
from overlay.address import parse_url
from overlay.wire.greetings import GREETINGS

T = TypeVar("T")

MIB = 1024 * 1024
ELSEWHERE = "127.0.0.2"
COMMANDS = (("status",), ("ring", "--check"), ("metrics",), ("graph",))


@dataclass(slots=True)
class Scene:
    """Where a story is played, and what it finds."""

    folder: Path
    brokers: Fleet
    nursery: trio.Nursery
    scale: float  #: 1.0: as many strangers as were seen to do harm
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    figures: list[Figure] = field(default_factory=list)

    def note(self, name: str, measured: float, threshold: float) -> None:
        """Note a figure; it holds if it is no larger than its threshold."""
        self.figures.append(Figure(name, measured, threshold))

    def many(self, count: int) -> int:
        """Return how many strangers are to come where ``count`` did."""
        return max(1, round(self.scale * count))

    def crowd(self, broker: Broker, host: str = "127.0.0.1") -> Crowd:
        """Return a crowd at the port of a broker."""
        return Crowd(parse_url(broker.url).port, self.nursery, host)

    async def start(self, *arguments: str) -> Broker:
        """Start a broker, and wait until it is on the ring."""
        broker = self.brokers.broker("--connection-rate", "0", *arguments)
        await in_thread(lambda: broker.ready)
        return broker

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return await in_thread(partial(chordal, *arguments))

    async def note_tools(self, broker: Broker) -> None:
        """Note how many of the tools get no answer, and how long the slowest waits."""
        failed, slowest = 0, 0.0
        for command in COMMANDS:
            begun = time.monotonic()
            done = await self.run(*command, "--broker", broker.url)
            slowest = max(slowest, time.monotonic() - begun)
            failed += done.returncode != 0
        self.note("tools that got no answer (status, ring, metrics, graph)", failed, 0)
        self.note("seconds that the slowest of them took", slowest, 10)


async def in_thread(work: Callable[[], T]) -> T:
    """Wait for something that blocks."""
    return await trio.to_thread.run_sync(work)


# ── stories ───────────────────────────────────────────────────────────────────────────────────


async def all_clients(scene: Scene) -> None:
    """One address attaches as many clients as a broker serves."""
    broker = await scene.start("--max-clients", str(scene.many(4096)), "--clients-of-one", "0")
    crowd = scene.crowd(broker, ELSEWHERE)
    await crowd.come(clients(scene.rng, scene.many(4500)))
    served = (await in_thread(broker.status))["clients"]
    scene.note("slots that were not taken", scene.many(4096) - served, scene.many(4096) // 8)
    await scene.note_tools(broker)
    fair = await scene.start("--max-clients", str(scene.many(4096)))
    await scene.crowd(fair, ELSEWHERE).come(clients(scene.rng, scene.many(4500)))
    done = await scene.run("pub", "t", "x", "--timeout", "5", "--broker", fair.url)
    scene.note("clients of another address shut out", done.returncode != 0, 0)


async def all_links(scene: Scene) -> None:
    """More false brokers link, from the newcomer's own address, than a broker takes links."""
    broker = await scene.start()
    crowd = scene.crowd(broker)
    await crowd.come(false_brokers(scene.rng, scene.many(1100)))
    begun = time.monotonic()
    await scene.start("--join", broker.url)
    scene.note("seconds until a newcomer was on the ring", time.monotonic() - begun, 10)
    done = await scene.run(
        *("ring", "--check", "--expect", "2", "--wait", "20", "--broker", broker.url)
    )
    scene.note("ring --check, exit code", done.returncode, 0)


async def long_statuses(scene: Scene) -> None:
    """Brokers with long URLs link, so many that a status outgrows a frame."""
    broker = await scene.start("--links-of-one", "0")
    other = await scene.start("--join", broker.url)
    await scene.crowd(broker).come(false_brokers(scene.rng, scene.many(300), LONG_HOST))
    await scene.note_tools(broker)
    done = await scene.run("ring", "--check", "--wait", "20", "--broker", other.url)
    scene.note("ring --check at another broker, exit code", done.returncode, 0)


async def closed_ring(scene: Scene) -> None:
    """Brokers without an identity, and of another authority, call at a closed ring."""
    ours, theirs = scene.folder / "ours", scene.folder / "theirs"
    for authority in (ours, theirs):
        await scene.run("identity", "init", str(authority))
    names = {"one": ours, "two": ours, "foreign": theirs}
    for name, authority in names.items():
        await scene.run("identity", "issue", str(authority), str(scene.folder / name), "--broker")

    def closed(name: str) -> tuple[str, ...]:
        return "--identity", str(scene.folder / name), "--require-identity"

    first = await scene.start(*closed("one"))
    await scene.start(*closed("two"), "--join", first.url)
    await scene.crowd(first).come(false_brokers(scene.rng, scene.many(50)))
    plain = scene.brokers.broker("--join", first.url)
    foreign = scene.brokers.broker(*closed("foreign"), "--join", first.url)
    with suppress(AssertionError):  # the figures say so
        await until(lambda: all("not joined yet" in each.err for each in (plain, foreign)))
    status = await in_thread(first.status)
    scene.note("links without a certificate", sum(not x["cipher"] for x in status["links"]), 0)
    scene.note("brokers linked beside the two", len({x["uid"] for x in status["links"]}) - 1, 0)
    told = "shows no identity" in first.err and "show an identity" in plain.err
    scene.note("plain brokers not told why", not told, 0)
    scene.note("foreign brokers not told why", "not of this authority" not in foreign.err, 0)


async def token_thief(scene: Scene) -> None:
    """A false broker on loopback asks a client for its token, and plays back what it hears."""
    book, held = scene.folder / "tokens.json", scene.folder / "held.token"
    await scene.run("token", "issue", str(book), "line-1", "--out", str(held))
    broker = await scene.start("--tokens", str(book))
    secret = held.read_text().strip().rpartition(".")[2]
    thief = FalseBroker()
    async with thief.standing():
        arguments = ("pub", "t", "x", "--token-file", str(held), "--timeout", "3")
        fooled = await scene.run(*arguments, "--broker", thief.url)
        scene.note("clients that stayed with the false broker", fooled.returncode == 0, 0)
        pieces = (secret[at : at + 6].encode() for at in range(len(secret) - 5))
        scene.note("pieces of the secret heard", sum(piece in thief.heard for piece in pieces), 0)
        crowd = scene.crowd(broker)
        await crowd.say(thief.heard)
        await trio.sleep(3)
        scene.note("clients let in by what was heard", len(crowd.here), 0)
        served = await scene.run(*arguments, "--broker", broker.url)
        scene.note("clients not let in by the true broker", served.returncode != 0, 0)


async def memory(scene: Scene) -> None:
    """Questions without end, links that read nothing, half frames: in a limited address space."""
    budget = 64
    broker = await scene.start("--memory", f"{budget}M")
    other = await scene.start("--join", broker.url)
    before = address_space(broker)
    limit = before + budget * MIB
    pid = str(broker.process.pid)
    subprocess.run(["prlimit", f"--as={limit}", "--pid", pid], check=True, timeout=10)  # noqa: ASYNC221 - it takes a moment
    crowd = scene.crowd(broker, ELSEWHERE)
    largest = before

    async def watch() -> None:
        nonlocal largest
        while broker.process.poll() is None:
            largest = max(largest, address_space(broker))
            await trio.sleep(0.05)

    scene.nursery.start_soon(watch)
    (teller,) = false_brokers(scene.rng, 1)
    await crowd.say(GREETINGS.encode(teller) + questions(scene.many(4000)), reads=False)
    await trio.sleep(3)
    await crowd.come(false_brokers(scene.rng, scene.many(150)), reads=False)
    await trio.sleep(2)
    await ATTACKS["half frames"][0](
        Target(parse_url(broker.url).port, b""), scene.rng, scene.many(200)
    )
    sub = await in_thread(partial(scene.brokers.subscriber, "t", other.url, "--count", "1"))
    done = await scene.run("pub", "t", "x", "--timeout", "10", "--broker", broker.url)
    scene.note("events not taken meanwhile", done.returncode != 0, 0)
    with suppress(AssertionError):  # the figures say so
        await until(lambda: sub.process.poll() is not None)
    scene.note("events that did not come", sub.process.poll() != 0, 0)
    scene.note("broker killed", broker.process.poll() is not None, 0)
    scene.note("MiB of address space above idle", (largest - before) / MIB, budget)
    counters = (await in_thread(broker.status))["counters"]
    scene.note("times that memory ran out", counters.get("resource_shortages", 0), 0)
    scene.note("internal errors", counters.get("internal_errors", 0), 0)


def address_space(broker: Broker) -> int:
    """Return the bytes of address space that a broker has taken; 0: it is gone."""
    try:
        status = Path("/proc", str(broker.process.pid), "status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) << 10 for x in status.splitlines() if x[:7] == "VmSize:"), 0)


Story = Callable[[Scene], Awaitable[None]]

STORIES: dict[str, Story] = {
    "all clients": all_clients,
    "all links": all_links,
    "long statuses": long_statuses,
    "closed ring": closed_ring,
    "token thief": token_thief,
    "memory": memory,
}


async def play(folder: Path, name: str, scale: float = 1.0) -> list[Figure]:
    """Play a story in an empty folder; returns what was found."""
    figures: list[Figure] = []
    with fleet(folder) as brokers:
        async with trio.open_nursery() as nursery:
            scene = Scene(folder, brokers, nursery, scale, figures=figures)
            await STORIES[name](scene)
            nursery.cancel_scope.cancel()
    return figures


def main() -> int:
    """Play stories and print what held; exit code 1 if anything did not."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.strangers", description=__doc__
    )
    parser.add_argument("--story", choices=STORIES, action="append", help="this one alone")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of the strangers")
    options = parser.parse_args()
    failures = 0
    for name in options.story or STORIES:
        with tempfile.TemporaryDirectory(prefix="chordal-strangers-") as folder:
            figures = trio.run(play, Path(folder), name, options.scale)
        print(f"{name}: {(STORIES[name].__doc__ or '').strip()}")  # noqa: T201
        for figure in figures:
            print(f"  {figure}", flush=True)  # noqa: T201
            failures += not figure.is_met
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
