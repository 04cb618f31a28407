"""What the ring costs: B23, messages per repair, and B25, control traffic under churn.

    python -m benchmarks.ring.traffic [--only B23,B25] [--sizes N,N] [--nodes N] [--seconds S]
                                      [--settle S] [--profile wan]
                                      [--small N] [--seed S]

B23 kills single brokers in rings of ``--sizes`` (full: 250,1000,5000). B25 has two parts. Both keep
a ring at its size: every broker that ends is replaced by a newcomer that joins through others at
the same rate, sessions are exponential (Poisson churn), half of the brokers end with closed sockets
and half without a word. One has the churn of Gnutella as measured (mean session 2.3 h) among
``--nodes`` brokers (full: 10000), the other a median session of 1.4 min among ``--small`` (full:
1000). All control messages are counted, the two of each new link included, and their bytes as
framed, without what TCP, TLS and IP add.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys

from benchmarks.ring.report import Bars
from benchmarks.ring.rings import Ring
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.rng import rng_for
from ring.config import LAN, RingConfig, profile
from sims.faults import Traffic
from sims.world import CrashMode

GNUTELLA_S = 2.3 * 3600.0  #: mean session (Saroiu, Gummadi, Gribble 2002, as Castro et al. quote)
MEDIAN_S = 1.4 * 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="bars, with commas")
    parser.add_argument("--sizes", default="100,300,1000", help="of B23, with commas")
    parser.add_argument("--nodes", type=int, default=1000, help="brokers in Gnutella's churn")
    parser.add_argument("--small", type=int, default=300, help="brokers in the churn of minutes")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual time counted")
    parser.add_argument("--settle", type=float, default=120.0, help="virtual time before")
    parser.add_argument("--profile", default="wan")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bars = Bars()
    only = {bar for bar in options.only.split(",") if bar}
    if not only or "B23" in only:
        repairs(bars, options.seed, [int(part) for part in options.sizes.split(",")])
    if not only or "B25" in only:
        config = profile(options.profile)
        churn(bars, config, options.profile, options.nodes, GNUTELLA_S, options)
        churn(bars, config, options.profile, options.small, MEDIAN_S / math.log(2), options)
    sys.exit(bars.exit_code)


# ── B23 ───────────────────────────────────────────────────────────────────────────────────────


def repairs(bars: Bars, seed: int, sizes: list[int]) -> None:
    """Messages sent on account of one failure, against the degree of the dead broker."""
    degrees: list[float] = []
    costs: list[float] = []
    means: dict[int, tuple[float, float]] = {}
    for n in sizes:
        ring = Ring(n, dataclasses.replace(LAN, chord_refresh_ns=nanos(60)), seed)
        ring.run(6)
        spacing = max(12, n // 40)
        for at, uid in enumerate(ring.order[::spacing][:40]):
            ring.crash(uid, CrashMode.POWER if at % 2 else CrashMode.KILL)
            ring.run(0.2)
        ring.run(5)
        rows = [row for row in ring.ledger.incidents("run") if row.failed_ns is not None]
        assert all(row.repaired_ns is not None for row in rows), "a gap was not closed"
        here = [(float(row.degree or 0), float(row.messages)) for row in rows]
        degrees += [degree for degree, _ in here]
        costs += [cost for _, cost in here]
        means[n] = (
            statistics.mean(degree for degree, _ in here),
            statistics.mean(cost for _, cost in here),
        )
        bars.note(
            f"B23  n={n}: {len(here)} repairs, mean degree {means[n][0]:.1f},"
            f" mean messages {means[n][1]:.1f}"
        )
    slope, offset = statistics.linear_regression(degrees, costs)
    fit = statistics.correlation(degrees, costs) ** 2
    bars.check("B23", "messages = a + b degree: 1 - R^2", round(1 - fit, 3), 0.05)
    levels, smallest = statistics.linear_regression(
        [math.log2(n) for n in sizes], [degree for degree, _ in means.values()]
    )

    def cost(n: int) -> float:
        return offset + slope * (smallest + levels * math.log2(n))

    what = f"{offset:.1f} + {slope:.2f} degree, degree {smallest:.1f} + {levels:.2f} log2 n"
    if 5000 in means:
        bars.check("B23", f"{what}; messages per repair at n=5000", round(means[5000][1], 1), 57)
    else:
        bars.check("B23", f"{what}; projected for n=5000", round(cost(5000), 1), 57)
    ratio = cost(10**6) / cost(1000)
    bars.check("B23", "projected cost at n=10^6 over that at n=10^3", round(ratio, 2), 2.5)


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
    ring = Ring(n, config, options.seed)
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
    words = f"profile {name}, n={n}, mean session {session}"
    for kind, count in traffic.kinds.most_common(8):
        share = count / options.seconds / n
        size = traffic.kind_bytes[kind] / options.seconds / n
        bars.note(f"B25  {kind}: {share:.3f} messages/s and {size:.1f} B/s a broker")
    ended = churned.ends - since
    bars.note(f"B25  {words}: {ended} ended and as many joined in {options.seconds:g} s")
    if mean_s == GNUTELLA_S:
        bars.check("B25", f"{words}: control messages/s a broker", round(mean, 3), 0.5)
        p95 = rates[math.ceil(0.95 * len(rates)) - 1] / statistics.mean(rates)
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
            self._ring.join()
            self.ends += 1
            self._draw()
        world.run(end)

    def _draw(self) -> None:
        self._next += nanos(self._rng.expovariate(self._rate))


if __name__ == "__main__":
    main()
