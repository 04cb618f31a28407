"""Events per second and latency of links and brokers, beside a bare relay as the limit; in one run.

    python -m benchmarks.speed.links [table] [throughput] [latency] [tls] [broker] [nats] [naive]
        [express] [--only ROW,ROW...] [--nats PYTHON] [--sizes 16,256,4096] [--events N]
        [--seconds S] [--rounds R]

A publishing process, a process in the middle and a receiving process, over loopback. ``bare`` is a
bare relay that coalesces; ``links`` are this project's links; ``broker`` is the whole broker with
its client library at both ends; ``naive`` is a relay with one send for each event; ``nats`` is
nats-server with nats-py. Without a part named all are run. Systems take turns within a round, so
that what else the machine does meets all of them. Ratios are medians over the rounds.

``table`` is of the whole broker, one row a line with its bar; ``--only`` chooses rows, and then
nothing else is run. NATS is measured if ``--nats`` names an interpreter that can import nats, or
if this one can. ``table --seconds 1 --rounds 1`` takes two minutes.

``throughput`` and ``latency`` are of links. The bars are B1 and B2: links reach 0.7 of the bare
relay's events per second, and stay within 1.3 times its latency at 1,000 events a second; the
lowest latencies of all rounds are compared, as other work on the machine only adds to them.
``express`` has B3: with normal events saturating two brokers, express p99 stays within 3 times its
idle p99. The exit code is 1 if a bar is not met.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.arguments import at_least, listed, one_of
from benchmarks.report import Bars, print_line
from benchmarks.speed.links import express, nats
from benchmarks.speed.links.ends import Flow
from benchmarks.speed.links.measure import Result, System, measure
from benchmarks.speed.links.rows import RATE, ROWS
from benchmarks.speed.links.table import Table
from overlay.authority.authority import create_authority, issue_identity
from overlay.ids import Uid
from overlay.security.identity import Role

PARTS = ("table", "throughput", "latency", "tls", "broker", "nats", "naive", "express")
DAY = timedelta(days=1)
SIZE = 256  #: payload bytes where latency is measured


def main() -> int:
    """Run the parts named and print what is measured; return 1 if a bar is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.links", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "parts", nargs="*", type=one_of(PARTS), metavar="PART", help=f"{', '.join(PARTS)}"
    )
    parser.add_argument(
        "--only", type=listed(one_of(ROWS)), metavar="ROW,ROW...", help=f"of {', '.join(ROWS)}"
    )
    parser.add_argument("--nats", metavar="PYTHON", help="an interpreter that can import nats")
    parser.add_argument(
        "--sizes", type=listed(at_least(1)), default=[16, 256, 4096], help="payload bytes"
    )
    parser.add_argument(
        "--events", type=at_least(1), default=1_200_000, help="of 256 bytes, in one flow of links"
    )
    parser.add_argument("--seconds", type=at_least(1), default=4, help="of each other flow")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    options = parser.parse_args()
    parts = set(options.parts or (["table"] if options.only else PARTS))
    if parts <= {"tls", "broker", "nats", "naive"}:
        parts |= {"throughput", "latency"}
    bars = Bars()
    found = _find_nats(options.nats)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if parts & {"table", "tls"}:
            _issue(folder)
        if "table" in parts:
            table = Table(bars, folder, found, seconds=options.seconds, rounds=options.rounds)
            table.run(options.only or list(ROWS))
        systems = _systems(parts, folder, found)
        if "throughput" in parts:
            for size in options.sizes:
                _throughput(bars, systems, size, options.events, options.rounds)
        if "latency" in parts:
            _latency(bars, systems, options.seconds, options.rounds)
    if "express" in parts:
        express.run(bars, options.seconds, options.rounds)
    return bars.exit_code


def _find_nats(python: str | None) -> nats.Nats | str:
    """Return the installation, or why there is none."""
    try:
        return nats.find(python)
    except nats.NotInstalled as missing:
        return str(missing)


def _issue(folder: Path) -> None:
    """Issue identities of brokers, and one of a client."""
    authority = create_authority(folder / "authority", name="bench", lifetime=DAY)
    for number, name in enumerate("abc"):
        uid = Uid(f"{number:032x}")
        issue_identity(authority, folder / name, role=Role.BROKER, lifetime=DAY, uid=uid)
    issue_identity(authority, folder / "client", role=Role.CLIENT, lifetime=DAY)


def _systems(parts: set[str], folder: Path, found: nats.Nats | str) -> list[System]:
    systems = [System("bare"), System("links")]
    if "tls" in parts:
        systems += [System("bare", folder), System("links", folder)]
    if "broker" in parts:
        systems.append(System("broker"))
    if "naive" in parts:
        systems.append(System("naive"))
    if "nats" in parts:
        if isinstance(found, nats.Nats):
            systems.append(System("nats", nats=found))
        else:
            print_line(f"nats is left out: {found}")
    return systems


def _throughput(bars: Bars, systems: list[System], size: int, events: int, rounds: int) -> None:
    print_line(f"{size} bytes: events a second, ratio to bare, CPU us per event in the middle")
    taken: dict[System, list[Result]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            taken[system].append(
                measure(system, Flow(events=_count(system, size, events), size=size))
            )
    for system, results in taken.items():
        limit = taken[System("bare", system.identities)]
        pairs = zip(results, limit, strict=True)
        ratio = median(ours.per_second / theirs.per_second for ours, theirs in pairs)
        rate = median(result.per_second for result in results)
        spent = median(result.relay_us for result in results)
        print_line(f"  {system.title:10} {rate:12,.0f}/s {ratio:8.2f} {spent:8.2f} us")
        if system.name == "links":
            bars.at_least("B1", f"{system.title}, {size} bytes, ratio to bare", ratio, 0.7)


def _count(system: System, size: int, events: int) -> int:
    """Return how many events keep a system busy for about a second."""
    slow = {"naive": 8, "nats": 3, "broker": 2}.get(system.name, 1)
    return events // slow // max(1, size // 1024)


def _latency(bars: Bars, systems: list[System], seconds: int, rounds: int) -> None:
    print_line(f"{RATE} events a second of {SIZE} bytes: p50 and p99 in us, ratios to bare")
    flow = Flow(events=RATE * seconds, size=SIZE, rate=RATE)
    taken: dict[System, list[Result]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            taken[system].append(measure(system, flow))
    for system, results in taken.items():
        limit = taken[System("bare", system.identities)]
        spent = median(result.relay_us for result in results)
        own50, own99 = _best(results)
        limit50, limit99 = _best(limit)
        p50, p99 = own50 / limit50, own99 / limit99
        print_line(
            f"  {system.title:10} p50 {own50:8.0f} {p50:6.2f}   p99 {own99:8.0f} {p99:6.2f}"
            f"   CPU {spent:.0f} us"
        )
        if system.name == "links":
            bars.at_most("B2", f"{system.title}, p50, ratio to bare", p50, 1.3)
            bars.at_most("B2", f"{system.title}, p99, ratio to bare", p99, 1.3)


def _best(results: list[Result]) -> tuple[float, float]:
    """Return the lowest p50 and p99 of all rounds: other work on the machine only adds to them."""
    return min(result.p50_us for result in results), min(result.p99_us for result in results)


if __name__ == "__main__":
    sys.exit(main())
