"""The 22 processes of brokers, on loopback; none of them outlives the experiment.

They stand in the units of the plan, link to each other as a ring for control messages, and name the
links that events take. Before anything is measured, each of them is asked whether all of that is as
planned.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from ges.bench.ges22.topology import BROKERS, PUBLISHER, UNITS, Topology, named_by, unit_of
from ges.client import connect
from ges.errors import BenchFailed
from ges.wire.status import Status
from overlay.errors import ChordalError
from overlay.net.free_ports import LOOPBACK, free_ports

AT_ONCE = 4  #: brokers that start at one time: there are few processors
START_SECONDS = 90.0  #: for all processes to be on the ring
SETTLE_SECONDS = 120.0  #: and for units and links to be as planned
LOOK_SECONDS = 1.0
ASK_SECONDS = 10.0
TAIL_BYTES = 1000

#: In which the brokers start: the publisher's first, which the others join by.
ORDER = (PUBLISHER, *(number for number in BROKERS if number != PUBLISHER))


@dataclass(frozen=True, slots=True)
class Broker:
    """One process."""

    number: int
    uid: str
    url: str
    process: trio.Process


class _Ready(msgspec.Struct, frozen=True):
    """What ``chordal serve`` prints when it has joined."""

    uid: str
    url: str


@asynccontextmanager
async def running(topology: Topology, folder: Path) -> AsyncIterator[Mapping[int, Broker]]:
    """Keep the brokers of a topology for the length of the block; by number.

    ``folder``: where what they write to standard error is kept, a file each.

    Raises:
        BenchFailed: one did not start, or ended.
    """
    urls = {
        number: f"chordal://{LOOPBACK}:{port}"
        for number, port in zip(ORDER, free_ports(len(ORDER)), strict=True)
    }
    named = named_by(topology.links, ORDER)
    brokers: dict[int, Broker] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def start(number: int) -> None:
        links = ",".join(urls[other] for other in named[number])
        options = (
            *("--listen", urls[number].removeprefix("chordal://"), "--name", f"broker-{number}"),
            *("--unit", unit_of(number), "--events-over", "declared", "--log-level", "warning"),
            *("--link-costs", "levels"),  # by the paper's costs alone
            *(("--event-links", links) if links else ()),
            *(("--join", urls[PUBLISHER]) if number != PUBLISHER else ()),
        )
        async with limit:
            brokers[number] = await nursery.start(_serve, number, options, folder)

    async with trio.open_nursery() as nursery:
        try:
            with trio.fail_after(START_SECONDS):
                await start(PUBLISHER)
                async with trio.open_nursery() as starting:
                    for number in ORDER[1:]:
                        starting.start_soon(start, number)
        except trio.TooSlowError:
            missing = ", ".join(str(n) for n in ORDER if n not in brokers)
            raise BenchFailed(
                f"brokers {missing} are not on the ring after {START_SECONDS:g} s: the machine is "
                "too busy for 22 of them"
            ) from None
        yield brokers
        nursery.cancel_scope.cancel()


async def _serve(
    number: int,
    options: tuple[str, ...],
    folder: Path,
    *,
    task_status: trio.TaskStatus[Broker],
) -> None:
    # Settings meant for the user's own brokers must not reach these.
    own = {k: v for k, v in os.environ.items() if not k.startswith("CHORDAL_")}
    with (folder / f"broker-{number}.log").open("wb+") as errors:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "ges.cli.main", "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=own,
            start_new_session=True,  # an interrupt is for the command, which ends them
        )
        assert process.stdout is not None
        try:
            line = b""
            while not line.endswith(b"\n") and (chunk := await process.stdout.receive_some()):
                line += chunk
            if line.endswith(b"\n"):
                ready = msgspec.json.decode(line, type=_Ready)
                task_status.started(Broker(number, ready.uid, ready.url, process))
            code = await process.wait()
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - TAIL_BYTES))
            words = errors.read().decode(errors="replace").strip() or "without a word"
            raise BenchFailed(f"broker {number} has ended with exit code {code}: {words}")
        finally:
            if process.poll() is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def settled(brokers: Mapping[int, Broker], topology: Topology) -> None:
    """Wait until units and links are as planned, and events name whom they are for.

    Raises:
        BenchFailed: they are not in time; the text says what is otherwise.
    """
    problems = [""]
    with trio.move_on_after(SETTLE_SECONDS):
        while problems:
            found = await _ask_all(brokers)
            problems = problems_of(found, {b.uid: n for n, b in brokers.items()}, topology)
            if problems:
                await trio.sleep(LOOK_SECONDS)
    if problems:
        raise BenchFailed(
            f"after {SETTLE_SECONDS:g} s units and links are not as planned: {problems[0]}"
            + (f"; and {len(problems) - 1} more" if len(problems) > 1 else "")
        )


async def _ask_all(brokers: Mapping[int, Broker]) -> dict[int, Status]:
    found: dict[int, Status] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(broker: Broker) -> None:
        # One that does not answer in time is asked again with the others.
        with suppress(ChordalError):
            async with (
                limit,
                connect(
                    broker.url,
                    timeout=ASK_SECONDS,
                    reattach=False,
                    only_looks=True,
                    on_waiting=lambda _: None,
                ) as client,
            ):
                found[broker.number] = await client.status()

    async with trio.open_nursery() as nursery:
        for broker in brokers.values():
            nursery.start_soon(ask, broker)
    return found


def problems_of(
    found: Mapping[int, Status], numbers: Mapping[str, int], topology: Topology
) -> list[str]:
    """Return what is not as planned, in words; ``numbers``: of the brokers, by uid."""
    near: dict[int, set[int]] = {number: set() for number in BROKERS}
    for a, b in topology.links:
        near[a].add(b)
        near[b].add(a)
    sizes = {number: len(members) for members in UNITS.values() for number in members}
    problems = [f"broker {number} does not answer" for number in BROKERS if number not in found]
    for number, status in sorted(found.items()):
        who, unit = f"broker {number}", unit_of(number)
        if status.unit != unit or status.address is None:
            problems.append(f"{who} stands in unit {status.unit or 'without a name'}, not {unit}")
        elif status.members != sizes[number]:
            problems.append(f"{who} sees {status.members} members in {unit}, not {sizes[number]}")
        carrying = {
            numbers.get(link.uid, 0)
            for link in status.links
            if link.carries and link.link_class.is_base
        }
        if carrying != near[number]:
            problems.append(
                f"events from {who} can go to {_listed(carrying)}, not to {_listed(near[number])}"
            )
        if not status.names_destinations:
            problems.append(f"events from {who} go to all, as units have changed")
    return problems


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "nobody"
