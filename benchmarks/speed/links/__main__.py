"""Events per second and latency of links, beside a bare relay as the limit; all in one run.

    python -m benchmarks.speed.links [throughput] [latency] [tls] [broker] [nats] [naive] [express]
        [--sizes 16,256,4096] [--events N] [--seconds S] [--rounds R]

A publishing process, a process in the middle and a receiving process, over loopback. ``bare`` is a
bare relay that coalesces; ``links`` are this project's links; ``broker`` is the whole broker with
its client library at both ends; ``naive`` is a relay with one send for each event. Without a part
named all are run. Systems take turns within a round, so that what else the machine does meets all
of them. Ratios of events per second are medians over the rounds; of latencies, the lowest of all
rounds are compared, as other work on the machine only adds to them.

The bars are B1 and B2: links reach 0.7 of the bare relay's events per second, and stay within 1.3
times its latency at 1,000 events a second. B3: with normal events saturating two brokers, express
p99 stays within 3 times its idle p99. The exit code is 1 if one is not met.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.report import Bars, print_line
from benchmarks.speed.links import express, nats
from benchmarks.speed.links.ends import Flow
from benchmarks.speed.links.measure import Result, System, measure
from overlay.authority.authority import create_authority, issue_identity
from overlay.ids import Uid
from overlay.security.identity import Role

PARTS = ("throughput", "latency", "tls", "broker", "nats", "naive", "express")
RATE = 1000  #: events a second where latency is measured
DAY = timedelta(days=1)
SIZE = 256  #: payload bytes there


def main() -> int:
    """Run the parts named and print what is measured; return 1 if a bar is missed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.links", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--sizes", default="16,256,4096", help="payload bytes, with commas")
    parser.add_argument("--events", type=int, default=1_200_000, help="of 256 bytes, in one flow")
    parser.add_argument("--seconds", type=int, default=4, help="of each flow for latency")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    parts = set(options.parts or PARTS)
    if parts <= {"tls", "broker", "nats", "naive"}:
        parts |= {"throughput", "latency"}
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder:
        systems = _systems(parts, Path(folder))
        if "throughput" in parts:
            for size in [int(text) for text in options.sizes.split(",")]:
                _throughput(bars, systems, size, options.events, options.rounds)
        if "latency" in parts:
            _latency(bars, systems, options.seconds, options.rounds)
    if "express" in parts:
        express.run(bars, options.seconds, options.rounds)
    return bars.exit_code


def _systems(parts: set[str], folder: Path) -> list[System]:
    systems = [System("bare"), System("links")]
    if "tls" in parts:
        authority = create_authority(folder / "authority", name="bench", lifetime=DAY)
        for number, name in enumerate("abc"):
            uid = Uid(f"{number:032x}")
            issue_identity(authority, folder / name, role=Role.BROKER, lifetime=DAY, uid=uid)
        systems += [System("bare", folder), System("links", folder)]
    if "broker" in parts:
        systems.append(System("broker"))
    if "naive" in parts:
        systems.append(System("naive"))
    if "nats" in parts:
        problem = nats.missing()
        if problem is None:
            systems.append(System("nats"))
        else:
            print_line(f"nats is left out: {problem}")
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
