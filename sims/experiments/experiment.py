"""One cell of a sweep: form a ring, break it, see it heal; a row for the run and each incident.

The ring is formed by real joins, then a share of its brokers crash at random times, then the world
runs until the ring has come to rest. The scenario ``crash`` (:mod:`sims.scenarios`) does the same,
and there are many others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import msgspec

from overlay.errors import ConfigError
from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Fact
from overlay.release import software_version
from overlay.rng import rng_for
from overlay.trace_schema import Incident, Run, Source
from ring.config import PROFILES, ChordStrategy, GapRule, profile
from ring.facts import Found, Join
from ring.node import RingNode
from sims.errors import InvariantViolated
from sims.verdicts.ledger import Ledger
from sims.world.network import DISTANCES, Latency
from sims.world.world import CrashMode, World

#: What can be run, and what it does.
SCENARIOS = {"crash": "form a ring, crash a share of its brokers at random times, see it heal"}
MAX_NODES = 200_000
MAX_SEED = 2**63 - 1  #: what a column of the data set holds
CRASH_WINDOW_NS = nanos(10)  #: crashes are spread over this at least ...
CRASH_PAUSE_NS = nanos(0.25)  #: ... and over this for each of them
SEEDS_GIVEN = 3  #: members whose URLs a newcomer is given

#: Called with what is under way, how much of it is done (0 to 1), and the virtual clock.
Progress = Callable[[str, float, Nanos], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What to run. The same experiment gives the same result, in any process.

    Raises:
        ConfigError: a value makes no sense; the text names it.
    """

    scenario: str = "crash"
    nodes: int
    seed: int
    crash_share: float = 0.05  #: of the brokers, 0 to below 1
    crash_mode: CrashMode = CrashMode.POWER
    profile: str = "lan"
    chords: ChordStrategy = ChordStrategy.RANK
    gap_rule: GapRule = GapRule.WIDEST

    def __post_init__(self) -> None:
        if self.scenario not in SCENARIOS:
            raise ConfigError(f"no scenario {self.scenario!r}; there is: {', '.join(SCENARIOS)}")
        if not 1 <= self.nodes <= MAX_NODES:
            raise ConfigError(f"nodes is {self.nodes}, must be between 1 and {MAX_NODES}")
        if abs(self.seed) > MAX_SEED:
            raise ConfigError(f"seed is {self.seed}, must be between -{MAX_SEED} and {MAX_SEED}")
        if not 0 <= self.crash_share < 1:
            raise ConfigError(f"crash share is {self.crash_share}, must be from 0 to below 1")
        if self.profile not in PROFILES:
            raise ConfigError(f"no profile {self.profile!r}; there are {', '.join(PROFILES)}")

    @property
    def run_id(self) -> str:
        """Names the run by all that decides its result."""
        share = _shortest(self.crash_share).replace(".", "p")
        return (
            f"{self.scenario}-n{self.nodes}-s{self.seed}-c{share}"
            f"-{self.crash_mode.value}-{self.profile}"
            f"{'' if self.chords is ChordStrategy.RANK else f'-{self.chords.value}'}"
            f"{'' if self.gap_rule is GapRule.WIDEST else f'-{self.gap_rule.value}'}"
        )


@dataclass(frozen=True, slots=True)
class RunResult:
    """What an experiment showed."""

    run: Run
    incidents: tuple[Incident, ...]
    events: int  #: things that happened in the world, as a measure of work


def run(experiment: Experiment, progress: Progress | None = None) -> RunResult:
    """Carry out ``experiment``.

    Raises:
        InvariantViolated: the ring broke its promises; the text names the run and its findings.
    """
    return _Run(experiment, progress or (lambda stage, share, now: None)).result()


class _Run:
    def __init__(self, experiment: Experiment, progress: Progress) -> None:
        self._experiment = experiment
        self._progress = progress
        self._config = replace(
            profile(experiment.profile), chords=experiment.chords, gap_rule=experiment.gap_rule
        )
        self._world = World(Latency(DISTANCES[experiment.profile], experiment.seed))
        self._world.on_fact = self._on_fact
        self._world.on_sent = lambda uid, effect: self._ledger.on_sent(effect.about)
        self._ledger = Ledger()
        self._nodes: dict[str, RingNode] = {}

    def result(self) -> RunResult:
        self._form()
        self._crash()
        self._rest("after the crashes")
        experiment = self._experiment
        parameters = {
            key: value
            for key, value in asdict(experiment).items()
            if key not in ("scenario", "nodes", "seed", "profile")
        }
        row = Run(
            run_id=experiment.run_id,
            source=Source.SIMULATOR,
            scenario=experiment.scenario,
            nodes=experiment.nodes,
            seed=experiment.seed,
            profile=experiment.profile,
            version=software_version(),
            started_unix_ns=None,
            duration_ns=self._world.now,
            parameters=msgspec.json.encode(parameters, order="sorted").decode(),
        )
        return RunResult(row, self._ledger.incidents(row.run_id), self._world.events)

    # ── phases ────────────────────────────────────────────────────────────────────────────────

    def _form(self) -> None:
        """Let the brokers join one after the other, each given a few members to ask."""
        experiment, world = self._experiment, self._world
        rng = rng_for(experiment.seed, "arrivals")
        uids = [f"{rng.getrandbits(128):032x}" for _ in range(experiment.nodes)]
        self._add(uids[0])
        world.give(uids[0], Found())
        world.run(world.now + self._config.heartbeat_ns)
        # The ring may grow by a tenth of its size in the time one join takes, no faster.
        pause = 10 * self._join_ns()
        while len(self._nodes) < len(uids):
            members = list(self._nodes)
            batch = uids[len(members) : len(members) + max(1, len(members) // 10)]
            for uid in batch:
                self._add(uid)
                drawn = rng.sample(members, min(SEEDS_GIVEN, len(members)))
                world.give(uid, Join(tuple(_url(other) for other in drawn)))
            world.run(world.now + pause)
            self._progress("forming the ring", len(self._nodes) / len(uids), world.now)
        self._rest("after forming", extra=self._config.chord_refresh_ns)

    def _crash(self) -> None:
        experiment, world = self._experiment, self._world
        rng = rng_for(experiment.seed, "crashes")
        count = min(round(experiment.crash_share * experiment.nodes), experiment.nodes - 1)
        victims = rng.sample(sorted(self._nodes), count)  # somebody is left to see it
        window = max(CRASH_WINDOW_NS, len(victims) * CRASH_PAUSE_NS)
        times = sorted((world.now + rng.randrange(window), uid) for uid in victims)
        for done, (time, uid) in enumerate(times):
            world.run(time)
            self._ledger.on_crash(uid, len(self._nodes[uid].linked), world.now)
            world.crash(uid, experiment.crash_mode)
            self._progress("crashing brokers", (done + 1) / len(times), world.now)

    def _rest(self, when: str, extra: Nanos = 0) -> None:
        """Run until the ring is whole and stays so for a detection time, or give up."""
        world, config = self._world, self._config
        step = config.heartbeat_ns
        world.run(world.now + extra)
        limit = world.now + 120 * config.silence_ns
        calm = 0
        enough = -(-2 * config.silence_ns // step)
        while calm < enough:
            self._check_local()
            if world.now > limit:
                findings = self._ledger.ring_findings()
                missing = len(world.alive) - self._ledger.members
                if missing:
                    findings.append(f"{missing} live brokers are not on the ring")
                self._violated(f"the ring has not come to rest {when}", findings)
            world.run(world.now + step)
            whole = self._ledger.members == len(world.alive) and not self._ledger.ring_findings()
            calm = calm + 1 if whole and not self._ledger.unrepaired else 0
            self._progress("coming to rest", calm / enough, world.now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _add(self, uid: str) -> None:
        peer = Peer(uid, 1, _url(uid))
        rng = rng_for(self._experiment.seed, "node", uid)
        node = self._nodes[uid] = RingNode(self._config, peer, rng)
        self._world.add(node)

    def _on_fact(self, uid: str, fact: Fact) -> None:
        self._ledger.on_fact(uid, fact, self._world.now)

    def _join_ns(self) -> Nanos:
        """Estimate how long one join takes: some dozen one-way trips across the world."""
        distances = DISTANCES[self._experiment.profile]
        return 20 * (distances.base_ns + distances.side_ns + distances.jitter_ns)

    def _check_local(self) -> None:
        if self._ledger.findings:
            self._violated("a local invariant broke", self._ledger.findings)

    def _violated(self, what: str, findings: list[str]) -> None:
        again = f"sims.experiments.run({self._experiment})"
        shown = "\n  ".join(findings[:10])
        raise InvariantViolated(f"{what}; see it again in Python with: {again}\n  {shown}")


def _shortest(share: float) -> str:
    """Return the fewest digits that name ``share`` and no other."""
    return repr(share).removesuffix(".0")


def _url(uid: str) -> str:
    return f"chordal://{uid[:12]}.sim:9470"
