"""A stream of events through real brokers whose links are cut, truncated, stalled and late.

    python -m benchmarks.campaigns.flaps [--brokers N] [--seconds S] [--rate R] [--seed SEED]
        [--faults cut,truncate,late,stall] [--every S] [--all] [--clients] [--secure]

Every broker is a process behind a proxy. Every so often one of these harms about half of the
connections it carries, or with ``--all`` every one harms all of its own. With ``--clients`` the
publisher's is harmed as well. With ``--secure`` the events are secure ones, parked where there is
no all-secure way for a moment. Each broker has a subscriber. Printed are, for all of these
together, the events missed, doubled and out of order, which are to be none (bar R1), and the
longest time from publisher to subscriber (R2).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import trio

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.report import Bars, print_line
from benchmarks.stage.flaky import Fault, Flaky
from benchmarks.stage.forked import Stem
from benchmarks.stage.processes import Broker, asked, fleet, whole
from benchmarks.stage.proxy import free_port
from ges.client import Client, connect
from overlay.authority.authority import create_authority, issue_identity
from overlay.ids import LinkClass
from overlay.security.identity import Role

SETTLE_SECONDS = 25.0  #: for the last events to come
PARK_SECONDS = 20.0  #: a secure event waits for an all-secure way
LONGEST_SECONDS = 5.0  #: a flap may hold an event up for so long
TOPIC = "flaps"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done, and for how long."""

    brokers: int = 3
    seconds: float = 5.0
    rate: int = 1000  #: events a second
    seed: str = "flaps"
    faults: tuple[Fault, ...] = tuple(Fault)
    every: float = 0.4  #: seconds between two strikes, on average
    everything: bool = False  #: all proxies strike at the same moment
    clients: bool = False  #: the publisher's connection is harmed as well
    secure: bool = False  #: secure events, between brokers that hold identities

    @property
    def events(self) -> int:
        """How many events the publisher sends."""
        return round(self.seconds * self.rate)


@dataclass(slots=True)
class Outcome:
    """What came, and what was done to the connections."""

    expected: int
    got: list[list[int]] = field(default_factory=list)  #: by subscriber, in order of arrival
    longest: list[float] = field(default_factory=list)  #: seconds, by subscriber
    harm: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    counters: list[dict[str, int]] = field(default_factory=list)  #: of each broker

    @property
    def missed(self) -> int:
        """Events that never came, summed over the subscribers."""
        return sum(self.expected - len(set(numbers)) for numbers in self.got)

    @property
    def doubled(self) -> int:
        """Events that came again, each time they did, summed over the subscribers."""
        return sum(len(numbers) - len(set(numbers)) for numbers in self.got)

    @property
    def disordered(self) -> int:
        """Events that came right after a later one, summed over the subscribers."""
        return sum(a > b for numbers in self.got for a, b in pairwise(numbers))

    def total(self, counter: str) -> int:
        """Return a counter, summed over the brokers."""
        return sum(counters.get(counter, 0) for counters in self.counters)


def run(plan: Plan, folder: Path, stem: Stem | None = None) -> Outcome:
    """Start the brokers, let the events flow and the links flap; all ends with this call.

    ``stem``: what forks the brokers; None: Python starts for each.
    """
    proxies: list[Flaky] = []
    brokers: list[Broker] = []
    urls: list[str] = []
    outcome = Outcome(plan.events)
    shown = _identities(plan, folder)
    scheme = "chordals" if plan.secure else "chordal"
    with fleet(folder, stem) as started:
        for number in range(plan.brokers):
            port = free_port()
            proxies.append(Flaky(port, f"{plan.seed}:{number}"))
            front = f"127.0.0.1:{proxies[-1].port}"
            joining = ("--join", f"chordal://127.0.0.1:{proxies[0].port}") if brokers else ()
            listen = ("--listen", f"127.0.0.1:{port}", "--advertise", front)
            identity = ("--identity", str(shown[number])) if shown else ()
            brokers.append(started.broker(*listen, *joining, *identity))
            assert brokers[-1].ready["ready"]
            urls.append(f"{scheme}://127.0.0.1:{port}")
        plain = [url.replace("chordals", "chordal") for url in urls]
        whole(plain[0], plan.brokers)
        publish_at = f"{scheme}://127.0.0.1:{proxies[0].port}" if plan.clients else urls[0]
        attach = partial(connect, identity=shown[-1] if shown else None)
        trio.run(_flow, plan, proxies, urls, publish_at, attach, outcome)
        for url in plain:
            status = json.loads(asked("status", "--json", "--broker", url).stdout)
            outcome.counters.append(status["counters"])
    for proxy in proxies:
        outcome.connections += proxy.carried
        for fault, count in proxy.harm.items():
            outcome.harm[fault] = outcome.harm.get(fault, 0) + count
        proxy.close()
    return outcome


def _identities(plan: Plan, folder: Path) -> list[Path]:
    """Return the folders of an identity for each broker, and of one for the clients."""
    if not plan.secure:
        return []
    authority = create_authority(folder / "authority", name="flaps", lifetime=DAY)
    shown = [folder / f"identity-{number}" for number in range(plan.brokers + 1)]
    for directory in shown[:-1]:
        issue_identity(authority, directory, role=Role.BROKER, lifetime=DAY)
    issue_identity(authority, shown[-1], role=Role.CLIENT, lifetime=DAY)
    return shown


async def _flow(
    plan: Plan,
    proxies: list[Flaky],
    urls: list[str],
    publish_at: str,
    attach: Callable[..., AbstractAsyncContextManager[Client]],
    outcome: Outcome,
) -> None:
    sent: list[float] = []
    outcome.got = [[] for _ in urls]
    outcome.longest = [0.0] * len(urls)
    rng = random.Random(plan.seed)
    done = trio.Event()

    async def take(number: int, task_status: trio.TaskStatus[None]) -> None:
        url = urls[number]
        async with attach(url, reattach=False) as client, client.subscribe(TOPIC) as events:
            task_status.started()
            got = outcome.got[number]
            while batch := await events.batch():
                numbers = [int(event.payload) for event in batch]
                got += numbers
                late = trio.current_time() - min(sent[event] for event in numbers)
                outcome.longest[number] = max(outcome.longest[number], late)
                if all(len(numbers) >= plan.events for numbers in outcome.got):
                    done.set()

    async def strike(*, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            while True:
                await trio.sleep(plan.every * rng.uniform(0.5, 1.5))
                if plan.everything:
                    fault = rng.choice(plan.faults)
                    for proxy in proxies:
                        proxy.strike(fault, part=1.0)
                else:
                    rng.choice(proxies).strike(*plan.faults)

    async with trio.open_nursery() as nursery:
        for number in range(len(urls)):
            await nursery.start(take, number)
        link_class = LinkClass.SECURE if plan.secure else LinkClass.NORMAL
        park = PARK_SECONDS if plan.secure else 0.0
        async with attach(publish_at) as client:
            flapping: trio.CancelScope = await nursery.start(strike)
            start = trio.current_time()
            for number in range(plan.events):
                await trio.sleep_until(start + number / plan.rate)
                sent.append(trio.current_time())
                await client.publish(TOPIC, b"%d" % number, link_class=link_class, park=park)
            await client.flush()
            flapping.cancel()
        with trio.move_on_after(SETTLE_SECONDS):
            await done.wait()
        nursery.cancel_scope.cancel()


def main() -> int:
    """Carry out a plan and print harm, counters and bars; return 1 if R1 or R2 is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.flaps", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--brokers", type=at_least(2), default=5)
    parser.add_argument("--seconds", type=above(0), default=30.0)
    parser.add_argument("--rate", type=at_least(1), default=1000)
    parser.add_argument("--seed", default="flaps")
    parser.add_argument("--faults", type=listed(one_of(Fault)), default=list(Fault))
    parser.add_argument("--every", type=above(0), default=0.4)
    parser.add_argument("--all", action="store_true", help="harm all connections at once")
    parser.add_argument("--clients", action="store_true", help="the publisher's as well")
    parser.add_argument("--secure", action="store_true", help="publish secure events")
    given = parser.parse_args()
    plan = Plan(
        brokers=given.brokers,
        seconds=given.seconds,
        rate=given.rate,
        seed=given.seed,
        faults=tuple(map(Fault, given.faults)),
        every=given.every,
        everything=given.all,
        clients=given.clients,
        secure=given.secure,
    )
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(plan, Path(folder))
    harm = ", ".join(f"{count} {fault}" for fault, count in sorted(outcome.harm.items()))
    print_line(
        f"{outcome.expected} events to {plan.brokers} subscribers; {outcome.connections} "
        f"connections; {harm}"
    )
    for counter in (
        "events_sent_again",
        "events_received_twice",
        "events_sent_on",
        "events_duplicate",
        "events_unacknowledged_dropped",
    ):
        print_line(f"  {counter:30} {outcome.total(counter):8}")
    bars = Bars()
    bars.at_most("R1", "events missed", outcome.missed, 0)
    bars.at_most("R1", "events doubled", outcome.doubled, 0)
    bars.at_most("R1", "events out of order", outcome.disordered, 0)
    bars.at_most("R2", "longest way, seconds", max(outcome.longest), LONGEST_SECONDS)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
