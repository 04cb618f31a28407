"""For which share of broker-moments no mask is sure: while an overlay grows, and under churn."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import NANOS_PER_SECOND, nanos
from overlay.rng import rng_for
from sims.experiments.machines import Machines
from sims.world.world import CrashMode

STEP_S = 0.1  #: brokers are looked at so often
GAP_S = 1.0  #: from one newcomer to the next while the overlay grows ...
CHURN_S = 60.0  #: ... and from then on so long one dies, and another one joins
CHURN_GAP_S = 2.0  #: from one such change to the next, in the mean


@dataclass(frozen=True, slots=True)
class Share:
    """The brokers that were unsure in one stretch of time."""

    unsure: float  #: of broker-moments on the ring, from 0 to 1
    median_s: float  #: of how long one broker was unsure at a time; 0: none was
    p99_s: float


class Watch:
    """Looks at all brokers."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._looks = self._unsure = 0
        self._since: dict[str, int] = {}
        self._spans: list[float] = []

    def run(self, seconds: float) -> None:
        """Let time pass."""
        machines = self._machines
        for _ in range(max(1, round(seconds / STEP_S))):
            machines.run(STEP_S)
            now = machines.world.now
            for uid in machines.alive:
                node = machines.brokers[uid]
                if node.ring.member is None:
                    continue
                self._looks += 1
                if not node.gateways.is_for_all:
                    self._unsure += 1
                    self._since.setdefault(uid, now)
                elif (since := self._since.pop(uid, None)) is not None:
                    self._spans.append((now - since) / NANOS_PER_SECOND)

    @property
    def seen(self) -> Share:
        """Return the figures so far."""
        spans = sorted(self._spans) or [0.0]
        middle, late = (spans[int(share * (len(spans) - 1))] for share in (0.5, 0.99))
        return Share(self._unsure / max(1, self._looks), middle, late)


def growing(nodes: int, limit: int, seed: int) -> tuple[Machines, Share]:
    """Let an overlay grow from half of so many brokers to all."""
    machines = Machines.laid_out(max(2, nodes // 2), limit, seed)
    watch, rng = Watch(machines), rng_for(seed, "growing")
    while len(machines.alive) < nodes:
        machines.start(rng.sample(machines.alive, min(3, len(machines.alive))))
        watch.run(GAP_S)
    return machines, watch.seen


def churning(machines: Machines, seed: int) -> Share:
    """Let as many brokers die as join."""
    watch, rng = Watch(machines), rng_for(seed, "churning")
    end = machines.world.now + nanos(CHURN_S)
    while machines.world.now < end:
        machines.crash(rng.choice(machines.alive), CrashMode.KILL)
        watch.run(rng.expovariate(1 / CHURN_GAP_S))
        machines.start(rng.sample(machines.alive, min(3, len(machines.alive))))
        watch.run(rng.expovariate(1 / CHURN_GAP_S))
    return watch.seen
