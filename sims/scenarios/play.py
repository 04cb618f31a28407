"""One run of a scenario: a ring, what is done to it, and what it showed."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from overlay.errors import ConfigError
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos
from overlay.machine import Fact
from overlay.release import software_version
from overlay.rng import rng_for
from overlay.trace_schema import Incident, Run, Source
from ring.config import RingConfig, profile
from sims.experiments.experiment import Progress, RunResult
from sims.scenarios import arrivals, faults
from sims.scenarios.deeds import Deeds
from sims.scenarios.matrix import read_matrix
from sims.scenarios.phases import Phases
from sims.scenarios.schema import Mode, Scenario, Workload
from sims.scenarios.stage import RingStage, Stage, WholeStage
from sims.verdicts.deliveries import Verdict
from sims.workloads.traffic import Flowing
from sims.world.conditions import Conditions
from sims.world.network import DISTANCES

STEP_NS = nanos(0.5)  #: between two looks at the invariants
MAX_SEED = 2**63 - 1
PARK_MS = 20_000  #: a secure event waits so long for an all-secure path
DIGEST = 8  #: hexadecimal digits of a run's name that stand for the keys of its scenario
SHOWN = 10  #: broken sentences that are told


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run showed."""

    result: RunResult  #: the rows of run and incidents
    done: dict[str, int]  #: what was done to the ring, how often
    brokers: int  #: that live in the end
    met: dict[str, dict[str, int]]  #: kind of fault -> phase of the protocol -> how often met
    verdict: Verdict | None = None  #: what became of events, with whole brokers
    broken: list[str] = field(default_factory=list)  #: promises that did not hold


def play(
    name: str,
    scenario: Scenario,
    seed: int,
    folder: Path = Path(),
    progress: Progress | None = None,
) -> Outcome:
    """Play a scenario; the same scenario and seed give the same outcome, in any process.

    Args:
        name: of the scenario, for the row of the run.
        scenario: what happens.
        seed: decides all that is drawn.
        folder: where relative paths in the scenario start.
        progress: told how far it is.

    Raises:
        ConfigError: the scenario makes no sense.
    """
    if abs(seed) > MAX_SEED:
        raise ConfigError(f"seed is {seed}, must be between -{MAX_SEED} and {MAX_SEED}")
    if scenario.workload is not None and scenario.mode is not Mode.WHOLE:
        raise ConfigError('a workload needs mode = "whole"; the ring alone carries no events')
    return _Play(name, scenario, seed, folder, progress or (lambda stage, share, now: None)).run()


class _Play:
    def __init__(
        self, name: str, scenario: Scenario, seed: int, folder: Path, progress: Progress
    ) -> None:
        self._name = name
        self._scenario = scenario
        self._seed = seed
        self._folder = folder
        self._progress = progress
        self._config = ring_config(scenario)
        self._latency = _conditions(scenario, seed, folder)
        self._whole: WholeStage | None = None
        self._stage = self._build()
        self._phases = Phases()
        self._start: Nanos = 0
        self._broken: dict[str, None] = {}

    def run(self) -> Outcome:
        scenario, timeline = self._scenario, self._stage.timeline
        self._form()
        deeds = Deeds(self._stage, self._seed)
        deeds.heard = self._phases.done
        self._start = timeline.now
        for number, churn in enumerate(scenario.churn):
            arrivals.schedule(churn, number, deeds, self._folder)
        for number, fault in enumerate(scenario.faults):
            faults.schedule(fault, number, deeds, self._latency)
        self._go_on(deeds)
        deeds.stop()
        self._rest(deeds)
        verdict = self._judge_events()
        incidents = self._stage.ledger.incidents(self._run_id)
        self._judge(incidents)
        return Outcome(
            RunResult(self._row(), incidents, timeline.events),
            {deed.value: count for deed, count in sorted(deeds.done.items())},
            len(self._stage.alive),
            self._phases.table(),
            verdict,
            list(self._broken),
        )

    # ── phases ────────────────────────────────────────────────────────────────────────────────

    def _build(self) -> Stage:
        scenario = self._scenario
        if scenario.mode is Mode.RING:
            ring = RingStage(self._seed, self._config, self._latency)
            ring.on_fact = self._hear
            return ring
        workload = scenario.workload
        secure = workload is not None and workload.link_class is LinkClass.SECURE
        self._whole = WholeStage(self._seed, self._config, self._latency, secure=secure)
        self._whole.on_fact = self._hear
        return self._whole

    def _form(self) -> None:
        """A ring that is whole at once; then it gets its chords, and its clients."""
        stage, timeline = self._stage, self._stage.timeline
        stage.begin(self._scenario.nodes)
        until = timeline.now + 2 * self._config.chord_refresh_ns
        while timeline.now < until:
            timeline.run(min(timeline.now + STEP_NS, until))
            self._progress("forming the ring", timeline.now / until, timeline.now)
        if self._whole is not None and self._scenario.workload is not None:
            _attach(self._whole, self._scenario.workload, rng_for(self._seed, "clients"))

    def _go_on(self, deeds: Deeds) -> None:
        timeline = self._stage.timeline
        start, end = timeline.now, timeline.now + nanos(self._scenario.seconds)
        while timeline.now < end and not self._stage.ledger.findings:
            timeline.run(min(timeline.now + STEP_NS, end))
            share = (timeline.now - start) / (end - start)
            self._progress("playing", share, timeline.now)
        self._note(self._stage.ledger.findings)

    def _rest(self, deeds: Deeds) -> None:
        """Wait until the ring is whole again, for as long as it was promised to take."""
        timeline, ledger = self._stage.timeline, self._stage.ledger
        end = timeline.now + nanos(self._scenario.promises.whole_within_s)
        start = timeline.now
        while self._missing() and timeline.now < end and not ledger.findings:
            timeline.run(min(timeline.now + STEP_NS, end))
            self._progress("coming to rest", (timeline.now - start) / (end - start), timeline.now)
        self._note(ledger.findings)
        for what in self._missing():
            promised = self._scenario.promises.whole_within_s
            self._note([f"{promised:g} s after the last fault {what}"])

    def _missing(self) -> list[str]:
        ledger = self._stage.ledger
        away = len(self._stage.alive) - ledger.members
        found = [f"{away} live brokers are not on the ring"] if away else []
        if ledger.unrepaired:
            found.append(f"the ring is not repaired around {ledger.unrepaired} dead brokers")
        return found + ledger.ring_findings()

    # ── verdicts ──────────────────────────────────────────────────────────────────────────────

    def _judge_events(self) -> Verdict | None:
        if self._whole is None:
            return None
        verdict = self._whole.service.finish()
        lost = frozenset(verdict.missing)
        self._note([finding for finding in verdict.findings if finding not in lost])
        promises = self._scenario.promises
        if promises.nothing_lost:
            self._note(verdict.missing)
        owed = verdict.fates.total()
        if promises.delivered is not None and owed:
            share = 1 - sum(verdict.lost.values()) / owed
            if share < promises.delivered:
                self._note([f"{share:.4%} of the events came, {promises.delivered:.4%} promised"])
        return verdict

    def _judge(self, incidents: tuple[Incident, ...]) -> None:
        promises = self._scenario.promises
        if promises.repair_p99_s is not None:
            times = sorted(
                (incident.repaired_ns - incident.failed_ns) / NANOS_PER_SECOND
                for incident in incidents
                if incident.repaired_ns is not None and incident.failed_ns is not None
            )
            slow = times[min(len(times) - 1, len(times) * 99 // 100)] if times else 0.0
            if slow > promises.repair_p99_s:
                self._note(
                    [f"repair took {slow:.3f} s at p99, {promises.repair_p99_s:g} s were promised"]
                )
        if promises.false_deaths is not None:
            false = sum(
                incident.failed_ns is None and incident.confirmed_ns is not None
                for incident in incidents
            )
            if false > promises.false_deaths:
                self._note(
                    [f"{false} live brokers were held for dead, {promises.false_deaths} allowed"]
                )

    def _note(self, findings: list[str]) -> None:
        self._broken.update(dict.fromkeys(findings))

    def _hear(self, uid: str, fact: Fact) -> None:
        self._phases.hear(fact)

    @property
    def _run_id(self) -> str:
        return run_id(self._name, self._scenario, self._seed)

    def _row(self) -> Run:
        return Run(
            run_id=self._run_id,
            source=Source.SIMULATOR,
            scenario=self._name,
            nodes=self._scenario.nodes,
            seed=self._seed,
            profile=self._scenario.profile,
            version=software_version(),
            started_unix_ns=None,
            duration_ns=self._stage.timeline.now,
            parameters=parameters(self._scenario),
        )


def parameters(scenario: Scenario) -> str:
    """Return what a scenario says, but for its size and profile: JSON with sorted keys."""
    told = msgspec.to_builtins(scenario)
    for key in ("about", "literature", "nodes", "profile"):
        told.pop(key)
    return msgspec.json.encode(told, order="sorted").decode()


def run_id(name: str, scenario: Scenario, seed: int) -> str:
    """Return what names a run: scenarios that differ in any key have runs of other names."""
    said = f"{scenario.profile}\0{parameters(scenario)}"
    digest = hashlib.sha256(said.encode()).hexdigest()[:DIGEST]
    return f"{name}-n{scenario.nodes}-s{seed}-{digest}"


def ring_config(scenario: Scenario) -> RingConfig:
    """Return the settings of the scenario's brokers.

    Raises:
        ConfigError: they make no sense together.
    """
    ring, base = scenario.ring, profile(scenario.profile)
    beat = base.heartbeat_ns if ring.heartbeat_s is None else nanos(ring.heartbeat_s)
    return replace(
        base,
        chords=ring.chords,
        gap_rule=ring.gap_rule,
        backups=ring.backups,
        monitors=ring.monitors or base.monitors,
        heartbeat_ns=beat,
    )


def _conditions(scenario: Scenario, seed: int, folder: Path) -> Conditions:
    network = scenario.network
    return Conditions(
        DISTANCES[scenario.profile],
        seed,
        matrix=read_matrix(folder / network.matrix) if network.matrix else None,
        loss=network.loss,
        burst=network.burst,
        slow_share=network.slow_share,
        slow_ns=nanos(network.slow_ms / 1000),
    )


def _attach(stage: WholeStage, workload: Workload, rng: random.Random) -> None:
    """Attach the clients; subscribers first, so that they miss nothing."""
    service = stage.service
    topics = [f"topic/{number}" for number in range(workload.topics)]
    homes = sorted(service.alive)
    count = workload.subscribers or len(homes)
    for number in range(count):
        home = homes[number % len(homes)] if not workload.subscribers else rng.choice(homes)
        service.subscribe(home, topics[number % len(topics)])
    service.run(1.0)
    park_ms = PARK_MS if workload.link_class is LinkClass.SECURE else 0
    for number in range(workload.publishers):
        flowing = Flowing(
            topic=topics[number % len(topics)],
            rate=workload.rate,
            size=workload.size,
            link_class=workload.link_class,
            park_ms=park_ms,
        )
        service.publish(rng.choice(homes), flowing)
