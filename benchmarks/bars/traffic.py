"""What the ring costs: B23, messages per repair, and B25, control traffic under churn.

    python -m benchmarks.bars.traffic [--only B23,B25] [--sizes N,N] [--nodes N] [--seconds S]
                                      [--settle S] [--profile wan] [--distances lan]
                                      [--small N] [--seed S]

B23 kills single brokers in rings of ``--sizes``, every other one with closed sockets, the rest
without a word; as the tests that find a death differ between the two, each has a line of its own. A
message counts for a repair if its sender sends it because of that failure, the first test included;
an attempt at a link counts as one, answers to pings and greetings do not. The threshold is of
remote calls (Rowstron and Druschel, Pastry, 2001), of two messages each. *All* that is sent,
answers, greetings, lists and chords found anew included, is noted beside it: what crosses the
network while brokers die, less what crosses it in the same time while none does. The bars of B23
are for the default ``--sizes`` together: small rings are unlike large ones, so others may miss.

B25 has two parts. Both keep a ring at its size: every broker that ends is replaced by a newcomer
that joins through others at the same rate, sessions are exponential (Poisson churn), half of the
brokers end with closed sockets and half without a word. One has the churn of Gnutella as measured
(mean session 2.3 h) among ``--nodes`` brokers (full: 10000), the other a median session of 1.4 min
among ``--small`` (full: 1000). All control messages are counted, the two of each new link included,
and their bytes as framed, without what TCP, TLS and IP add.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections.abc import Sequence

from benchmarks.arguments import above, at_least, listed, one_of
from benchmarks.bars.rings import Ring
from benchmarks.report import Bars
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.quantiles import quantile
from overlay.rng import rng_for
from ring.config import LAN, PROFILES, RingConfig, profile
from ring.wire.messages import Heartbeat
from sims.world.faults import Traffic
from sims.world.network import DISTANCES
from sims.world.world import CrashMode

GNUTELLA_S = 2.3 * 3600.0  #: mean session (Saroiu, Gummadi, Gribble 2002, as Castro et al. quote)
MEDIAN_S = 1.4 * 60.0
CALLS = 57  #: remote calls for a failed node in Pastry, at n = 5000
BARS = ("B23", "B25")
DEATHS = 40  #: in rings of one size
APART_S, AFTER_S = 0.2, 5.0  #: between deaths, and after the last


def main() -> None:
    """Measure and print the bars named; exit code 1 if one is missed or not judged, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars.traffic", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", type=listed(one_of(BARS)), default=BARS, help="bars, with commas")
    parser.add_argument(
        "--sizes",
        type=listed(at_least(20)),
        default="20,60,250,1000,5000",
        help="of B23, with commas; its bars are for the default",
    )
    parser.add_argument(
        "--nodes", type=at_least(10), default=1000, help="brokers in Gnutella's churn"
    )
    parser.add_argument(
        "--small", type=at_least(10), default=300, help="brokers in the churn of minutes"
    )
    parser.add_argument("--seconds", type=above(0), default=60.0, help="virtual time counted")
    parser.add_argument("--settle", type=above(0), default=120.0, help="virtual time before")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="wan")
    parser.add_argument("--distances", choices=sorted(DISTANCES), default="lan", help="of B25")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if len(set(options.sizes)) < 2:
        parser.error("--sizes: a line takes two of them at least")
    bars = Bars()
    if "B23" in options.only:
        repairs(bars, options.seed, options.sizes)
    if "B25" in options.only:
        config = profile(options.profile)
        churn(bars, config, options.profile, options.nodes, GNUTELLA_S, options)
        churn(bars, config, options.profile, options.small, MEDIAN_S / math.log(2), options)
    sys.exit(bars.exit_code)


# ── B23 ───────────────────────────────────────────────────────────────────────────────────────


def repairs(bars: Bars, seed: int, sizes: list[int]) -> None:
    """Messages sent on account of one failure, against the degree of the dead broker."""
    found: list[tuple[CrashMode, float, float]] = []  #: how it died, its degree, messages
    means: dict[int, tuple[float, float]] = {}
    for n in sizes:
        here: list[tuple[CrashMode, float, float]] = []
        all_sent = 0
        for again in range(DEATHS):
            if len(here) < DEATHS:
                repaired, crossed = _repaired(n, seed + again)
                here += repaired
                all_sent += crossed
        found += here
        means[n] = _means(here)
        bars.note(
            f"B23  n={n}: {len(here)} repairs, mean degree {means[n][0]:.1f}, mean messages"
            f" {means[n][1]:.1f} (deviation {statistics.stdev(row[2] for row in here):.1f}),"
            f" all that is sent {all_sent / len(here):.0f}"
        )
    for mode in (CrashMode.KILL, CrashMode.POWER):
        _, degrees, costs = zip(*(row for row in found if row[0] is mode), strict=True)
        slope, offset = statistics.linear_regression(degrees, costs)
        off = 1 - statistics.correlation(degrees, costs) ** 2
        what = f"{mode.value}: messages = {offset:.1f} + {slope:.2f} degree: 1 - R^2"
        bars.check("B23", what, round(off, 3), 0.05)
    _, degrees, costs = zip(*found, strict=True)
    slope, offset = statistics.linear_regression(degrees, costs)
    off = 1 - statistics.correlation(degrees, costs) ** 2
    bars.note(f"B23  both: messages = {offset:.1f} + {slope:.2f} degree: 1 - R^2 {off:.3f}")
    levels, smallest = statistics.linear_regression(
        [math.log2(n) for n in sizes], [degree for degree, _ in means.values()]
    )

    def cost(n: int) -> float:
        return offset + slope * (smallest + levels * math.log2(n))

    what, at_5000 = "projected for n=5000", cost(5000)
    if 5000 in means:
        what, at_5000 = "n=5000", means[5000][1]
    bars.check("B23", f"{what}: calls, of two messages each", round(at_5000 / 2, 1), CALLS)
    bars.note(f"B23  degree = {smallest:.1f} + {levels:.2f} log2 n")
    ratio = cost(10**6) / cost(1000)
    bars.check("B23", "projected cost at n=10^6 over that at n=10^3", round(ratio, 2), 2.5)


def _repaired(n: int, seed: int) -> tuple[list[tuple[CrashMode, float, float]], int]:
    """Kill brokers of one ring; return what each repair took, and all that crossed for them."""
    ring = Ring(n, dataclasses.replace(LAN, chord_refresh_ns=nanos(120)), seed)
    ring.run(6)
    dying = ring.order[:: max(12, n // DEATHS)][:DEATHS]
    quiet = _crossing(ring, [None] * len(dying))
    crossed = _crossing(ring, dying) - quiet
    rows = {row.subject: row for row in ring.ledger.incidents("run")}
    died = [(_manner(at), rows[uid]) for at, uid in enumerate(dying)]
    assert all(row.repaired_ns is not None for _, row in died), "a gap was not closed"
    return [(mode, float(row.degree or 0), float(row.messages)) for mode, row in died], crossed


def _manner(at: int) -> CrashMode:
    return CrashMode.POWER if at % 2 else CrashMode.KILL


def _means(rows: list[tuple[CrashMode, float, float]]) -> tuple[float, float]:
    """Return the mean degree and the mean number of messages."""
    _, degrees, costs = zip(*rows, strict=True)
    return statistics.mean(degrees), statistics.mean(costs)


def _crossing(ring: Ring, dying: Sequence[str | None]) -> int:
    """Let brokers die one after the other, or nobody (None); return the messages that crossed."""
    ring.world.traffic = traffic = Traffic()
    for at, uid in enumerate(dying):
        if uid is not None:
            ring.crash(uid, _manner(at))
        ring.run(APART_S)
    ring.run(AFTER_S)
    return traffic.messages.total() - traffic.kinds[Heartbeat.__name__]


# ── B25 ───────────────────────────────────────────────────────────────────────────────────────


def churn(
    bars: Bars,
    config: RingConfig,
    name: str,
    n: int,
    mean_s: float,
    options: argparse.Namespace,
) -> None:
    """Count everything in a ring whose brokers stay for ``mean_s`` seconds in the mean."""
    ring = Ring(n, config, options.seed, options.distances)
    ring.run(options.settle)  # chords come about
    churned = _Churn(ring, mean_s, options.seed)
    churned.run(min(20.0, options.seconds))  # and the churn gets into its stride
    ring.world.traffic = traffic = Traffic()
    start, since = set(ring.world.alive), churned.ends
    churned.run(options.seconds)
    stayed = [uid for uid in ring.world.alive if uid in start]
    rates = sorted(traffic.messages[uid] / options.seconds for uid in stayed)
    mean = traffic.messages.total() / options.seconds / n
    per_s = traffic.bytes.total() / options.seconds / n
    session = f"{mean_s / 3600:.1f} h" if mean_s > 3600 else f"{mean_s / 60:.1f} min"
    words = f"profile {name}, distances {options.distances}, n={n}, mean session {session}"
    for kind, count in traffic.kinds.most_common(8):
        share = count / options.seconds / n
        size = traffic.kind_bytes[kind] / options.seconds / n
        bars.note(f"B25  {kind}: {share:.3f} messages/s and {size:.1f} B/s a broker")
    ended = churned.ends - since
    bars.note(f"B25  {words}: {ended} ended and as many joined in {options.seconds:g} s")
    if not ended or not any(rates):
        bars.not_judged("B25", f"{words}: {ended} ended, {len(stayed)} stayed")
    elif mean_s == GNUTELLA_S:
        bars.check("B25", f"{words}: control messages/s a broker", round(mean, 3), 0.5)
        p95 = quantile(rates, 0.95) / statistics.mean(rates)
        bars.check("B25", f"{words}: p95 over mean", round(p95, 2), 2.0)
        bars.note(f"B25  {words}: {per_s:.0f} B/s a broker")
    else:
        bars.note(f"B25  {words}: {mean:.2f} control messages/s a broker")
        bars.check("B25", f"{words}: B/s a broker", round(per_s), 900)
    ring.run(10 * config.silence_max_ns / NANOS_PER_SECOND)
    left = len(ring.ledger.ring_findings())
    bars.note(f"B25  {words}: {left} findings against one ideal ring a while after the churn")


class _Churn:
    """Brokers that end, at the rate their sessions say, and newcomers that take their number."""

    def __init__(self, ring: Ring, mean_s: float, seed: int) -> None:
        self._ring = ring
        self._rng = rng_for(seed, "churn", mean_s)
        self._rate = len(ring.order) / mean_s
        self._next: Nanos = ring.world.now
        self._draw()
        self.ends = 0

    def run(self, seconds: float) -> None:
        world, rng = self._ring.world, self._rng
        end = world.now + nanos(seconds)
        while self._next <= end:
            world.run(self._next)
            members = [u for u in world.alive if self._ring.nodes[u].member is not None]
            mode = rng.choice((CrashMode.KILL, CrashMode.POWER))
            self._ring.crash(rng.choice(members), mode)
            self._ring.newcomer()
            self.ends += 1
            self._draw()
        world.run(end)

    def _draw(self) -> None:
        self._next += nanos(self._rng.expovariate(self._rate))


if __name__ == "__main__":
    main()
