"""One run of a scenario: a ring, what is done to it, and what it showed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos, short
from overlay.machine import Fact
from overlay.quantiles import quantile
from overlay.release import software_version
from overlay.rng import rng_for
from overlay.trace_schema import PHASES, Incident, Run, Source, lasted
from sims.scenarios import arrivals, faults
from sims.scenarios.deeds import CRASHES, Deed, Deeds
from sims.scenarios.estates import Estates
from sims.scenarios.forming import (
    attach,
    bandwidth_of,
    conditions_of,
    config_of,
    form,
    is_quiet,
    rest_units,
)
from sims.scenarios.inputs import Inputs, read_inputs
from sims.scenarios.phases import Phases
from sims.scenarios.results import Progress, RunResult
from sims.scenarios.ring_stage import RingStage
from sims.scenarios.roaming import roam
from sims.scenarios.samples import HORIZON_NS, Meter, Probes, Rows
from sims.scenarios.schema import Forming, Mode, Network, Scenario
from sims.scenarios.stage import Stage
from sims.scenarios.steps import Steps
from sims.scenarios.whole_stage import WholeStage
from sims.verdicts.judged import Verdict
from sims.world.collecting import seldom_collected

STEP_NS = nanos(0.5)  #: between two looks at the invariants
MAX_SEED = 2**63 - 1
NAMED = 8  #: brokers that a sentence names
CALM = 2  #: detection times that a ring stays whole before it is held to be at rest
PROMISED_SHARE = 0.99  #: of the deaths, as ``repair_p99_s`` says
SETTLE_NS = nanos(5)  #: between two times that old events are judged
NO_INPUTS = Inputs(Path(), {})


class Done(NamedTuple):
    """One thing that was done to the ring."""

    at_ns: Nanos
    what: Deed
    whom: tuple[str, ...]  #: uids


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run showed."""

    result: RunResult  #: the rows of run and incidents
    done: dict[str, int]  #: what was done to the ring, how often
    brokers: int  #: that live in the end
    met: dict[str, dict[str, int]]  #: kind of fault -> phase of the protocol -> how often met
    verdict: Verdict | None = None  #: what became of events, with whole brokers
    broken: list[str] = field(default_factory=list)  #: promises that did not hold
    steps: list[str] = field(default_factory=list)  #: the last ones around the first of these
    log: list[Done] = field(default_factory=list)  #: what was done, in the order of time


def play(
    name: str,
    scenario: Scenario,
    seed: int,
    folder: Path = Path(),
    progress: Progress | None = None,
    rows: Rows | None = None,
    *,
    inputs: Inputs | None = None,
) -> Outcome:
    """Play a scenario; the same scenario and seed give the same outcome, in any process.

    Args:
        name: of the scenario, for the row of the run.
        scenario: what happens.
        seed: decides all that is drawn.
        folder: where relative paths in the scenario start.
        progress: told how far it is.
        rows: takes what became of events and what brokers sent, while the run goes on.
        inputs: the files that the scenario names, if they were read before.

    Raises:
        ConfigError: the scenario makes no sense.
    """
    if abs(seed) > MAX_SEED:
        raise ConfigError(f"seed is {seed}, must be between -{MAX_SEED} and {MAX_SEED}")
    if scenario.workload is not None and scenario.mode is not Mode.WHOLE:
        raise ConfigError('a workload needs mode = "whole"; the ring alone carries no events')
    known = inputs or read_inputs(scenario, folder)
    quiet: Progress = lambda stage, share, now: None  # noqa: E731 - of a named type
    with seldom_collected():
        return _Play(name, scenario, seed, known, progress or quiet, rows).run()


def run_id(name: str, scenario: Scenario, seed: int, inputs: Inputs = NO_INPUTS) -> str:
    """Name a run by all that decides its result.

    Other keys in the file are another run, another content of a file that it names, or another
    chordal.
    """
    said = f"{scenario.profile}\0{_parameters(scenario, inputs)}"
    digest = hashlib.sha256(said.encode()).hexdigest()[:8]
    return f"{name}-n{scenario.nodes}-s{seed}-{digest}"


def _parameters(scenario: Scenario, inputs: Inputs) -> str:
    """Return what a scenario says beyond what has columns of its own, as JSON, named as by --set.

    Keys that change nothing are left out: a new key that is not used makes no other
    run. Files stand there with a digest of their content, and so does the version of chordal: what
    differs in these does not belong to one experiment.
    """
    told = {
        key: value
        for key, value in _flat("", scenario)
        if key not in ("about", "literature", "nodes", "profile")
    }
    told |= {**inputs.marked(scenario), "version": software_version()}
    return msgspec.json.encode(told, order="sorted").decode()


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the values in tables and lists, each with its keys, with dots between them."""
    start = f"{name}." if name else ""
    if isinstance(value, msgspec.Struct):
        if (kind := value.__struct_config__.tag) is not None:
            yield f"{start}kind", kind
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if held != field.default:
                yield from _flat(start + field.name, held)
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            yield from _flat(f"{start}{at}", each)
    else:
        yield name, value


class _Play:
    def __init__(
        self,
        name: str,
        scenario: Scenario,
        seed: int,
        inputs: Inputs,
        progress: Progress,
        rows: Rows | None,
    ) -> None:
        self._name = name
        self._scenario = scenario
        self._seed = seed
        self._inputs = inputs
        self._progress = progress
        self._config = config_of(scenario)
        self._latency = conditions_of(scenario, seed, inputs)
        self._whole: WholeStage | None = None
        self._stage = self._build()
        records = scenario.records
        self._estates = None if records is None else Estates(self._stage, records, seed)
        self._phases = Phases()
        self._steps = Steps()
        self._run_id = run_id(name, scenario, seed, inputs)
        self._probes: Probes | None = None
        self._meter: Meter | None = None
        if rows is not None:
            self._meter = Meter(self._run_id, self._stage, rows)
            if self._whole is not None:
                self._probes = Probes(self._run_id, rows)
                self._whole.deliveries.on_judged = self._probes.on_judged
        self._broken: dict[str, None] = {}
        self._settled: Nanos = 0
        self._log: list[Done] = []
        self._deeds: Deeds | None = None

    def run(self) -> Outcome:
        scenario, timeline = self._scenario, self._stage.timeline
        self._form()
        deeds = self._deeds = Deeds(self._stage, self._seed)
        deeds.heard = self._on_deed
        deeds.watchers.append(self._on_start)
        for number, churn in enumerate(scenario.churn):
            arrivals.schedule(churn, number, deeds, self._inputs)
        for number, fault in enumerate(scenario.faults):
            faults.schedule(fault, number, deeds, self._latency)
        if self._whole is not None and scenario.workload is not None:
            roam(self._whole, scenario.workload, deeds)
        self._go_on(deeds)
        deeds.stop()
        self._rest("after the last fault")
        verdict = self._judge_events()
        if self._meter is not None:
            self._meter.look(at_end=True)
        incidents = self._stage.ledger.incidents(self._run_id)
        if self._estates is not None:
            incidents = self._estates.noted(incidents)
        self._judge(incidents)
        broken = list(self._broken)
        return Outcome(
            RunResult(self._row(), incidents, timeline.events),
            {deed.value: count for deed, count in sorted(deeds.done.items())},
            len(self._stage.alive),
            self._phases.table(),
            verdict,
            broken,
            self._steps.around(broken[0]) if broken else [],
            self._log,
        )

    # ── phases ────────────────────────────────────────────────────────────────────────────────

    def _build(self) -> Stage:
        scenario = self._scenario
        bandwidth = bandwidth_of(scenario)
        if scenario.mode is Mode.RING:
            quiet = is_quiet(scenario)
            ring = RingStage(self._seed, self._config, self._latency, bandwidth, quiet=quiet)
            ring.on_fact = self._hear
            return ring
        is_quiet(scenario)  # it is refused here
        workload = scenario.workload
        secure = workload is not None and workload.link_class.is_secret
        self._whole = WholeStage(
            *(self._seed, self._config, self._latency, bandwidth),
            secure=secure,
            units=scenario.units,
        )
        self._whole.on_fact = self._hear
        return self._whole

    def _form(self) -> None:
        """A ring, with its chords, and its clients."""
        form(self._stage, self._scenario, self._seed, self._step, self._progress)
        if self._scenario.ring.forming is Forming.JOINS:
            self._rest("after the ring was formed")
        units = self._scenario.units
        if self._whole is not None and units is not None and not self._rest_units(self._whole):
            self._note([f"units have not formed {_some(self._stage.alive)}"])
        if self._estates is not None:
            self._estates.begin()
            self._step(self._stage.timeline.now + STEP_NS)
        if self._whole is not None and self._scenario.workload is not None:
            scenario = self._scenario
            is_calm = not (scenario.faults or scenario.churn or scenario.network != Network())
            rng = rng_for(self._seed, "clients")
            attach(self._whole, self._scenario.workload, rng, is_calm=is_calm)

    def _rest_units(self, stage: WholeStage) -> bool:
        return rest_units(stage, self._step, self._progress)

    def _go_on(self, deeds: Deeds) -> None:
        timeline = self._stage.timeline
        start, seconds = timeline.now, nanos(self._scenario.seconds)
        while not self._is_broken:
            end = start + seconds if seconds else deeds.until_ns
            if timeline.now >= end:
                break
            self._step(end)
            share = (timeline.now - start) / (end - start)
            self._progress("playing", share, timeline.now)
        self._note(self._stage.ledger.findings)

    @property
    def _is_broken(self) -> bool:
        """An invariant is broken, or an event came that should not."""
        whole = self._whole
        wrong = whole is not None and whole.deliveries.is_wrong
        return bool(self._stage.ledger.findings) or wrong

    def _rest(self, when: str) -> None:
        """Wait until the ring is whole and stays so, for as long as it was promised to take.

        That time begins when the last fault has ended: while brokers stand still, or are in two
        parts, nothing is to be judged.
        """
        timeline, ledger = self._stage.timeline, self._stage.ledger
        promised = self._scenario.promises.whole_within_s
        start = timeline.now
        calm, enough = 0, -(-CALM * self._config.silence_ns // STEP_NS)
        while (calm < enough or timeline.now < self._mended_ns) and not ledger.findings:
            end = max(start, self._mended_ns) + nanos(promised)
            is_whole = not self._missing()
            if timeline.now >= end and not is_whole:
                break
            self._step(timeline.now + STEP_NS if is_whole else end)
            calm = calm + 1 if is_whole and not self._missing() else 0
            share = min(1.0, (timeline.now - start) / (end - start))
            self._progress("coming to rest", share, timeline.now)
        self._note(ledger.findings)
        self._note([f"{promised:g} s {when} {what}" for what in self._missing()])

    @property
    def _mended_ns(self) -> Nanos:
        """When the last fault has ended, of those that have struck."""
        return self._deeds.mended_ns if self._deeds is not None else 0

    def _step(self, until: Nanos) -> None:
        """Let a moment pass; write down and forget what is long over."""
        timeline = self._stage.timeline
        timeline.run(min(timeline.now + STEP_NS, until))
        if self._meter is not None:
            self._meter.look()
        old = timeline.now - HORIZON_NS
        if self._whole is not None and old >= self._settled + SETTLE_NS:
            self._settled = old
            judged = self._whole.settle(old)
            if self._probes is not None:
                self._probes.forget(judged)

    def _on_start(self, uid: str, fact: Fact | None) -> None:
        if fact is None:
            self._phases.hear(uid, None, self._stage.timeline.now)

    def _on_deed(self, what: Deed, whom: tuple[str, ...]) -> None:
        now = self._stage.timeline.now
        self._log.append(Done(now, what, whom))
        self._steps.add(now, what, *whom)
        self._phases.done(what, whom, now)
        if self._estates is not None and what in CRASHES:
            self._estates.on_crashes(whom)
        if self._probes is not None:
            self._probes.on_deed(what, whom, now)

    def _missing(self) -> list[str]:
        ledger = self._stage.ledger
        found = []
        if len(self._stage.alive) != ledger.members:
            away = [uid for uid in self._stage.alive if not ledger.is_member(uid)]
            found = [f"{len(away)} live brokers are not on the ring {_some(away)}"]
        if dead := ledger.unrepaired_uids:
            found.append(f"the ring is not repaired around {len(dead)} dead brokers {_some(dead)}")
        found += ledger.ring_findings()
        if not found and self._whole is not None and self._scenario.units is not None:
            found = self._whole.unit_findings()
        return found

    # ── verdicts ──────────────────────────────────────────────────────────────────────────────

    def _judge_events(self) -> Verdict | None:
        if self._whole is None:
            return None
        verdict = self._whole.finish()
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
        lost = [] if self._estates is None else self._estates.lost
        if promises.records_lost is not None and len(lost) > promises.records_lost:
            owners = sorted({key.partition("/")[0] for key in lost})
            allowed = f"{promises.records_lost} allowed {_some(owners)}"
            self._note([f"{len(lost)} records were lost, {allowed}"])
        if promises.repair_p99_s is not None:
            self._judge_repair(incidents, promises.repair_p99_s)
        if promises.false_deaths is not None:
            false = [
                incident.subject
                for incident in incidents
                if incident.failed_ns is None and incident.confirmed_ns is not None
            ]
            if len(false) > promises.false_deaths:
                allowed = f"{promises.false_deaths} allowed {_some(false)}"
                self._note([f"{len(false)} live brokers were held for dead, {allowed}"])

    def _judge_repair(self, incidents: Sequence[Incident], promised_s: float) -> None:
        """Hold p99 to its promise; a death that is open breaks it once its time is up."""
        now = self._stage.timeline.now
        times = [
            (took.seconds if took.is_over else math.inf, incident.subject)
            for incident in incidents
            if (took := lasted(incident, *PHASES["total"][:2], now)) is not None
            and (took.is_over or took.seconds > promised_s)
        ]
        slow = quantile((seconds for seconds, _ in times), PROMISED_SHARE)
        if slow <= promised_s or not times:
            return
        promised = f"{promised_s:g} s were promised {_some([max(times)[1]])}"
        if math.isinf(slow):
            never = sum(math.isinf(seconds) for seconds, _ in times)
            self._note([f"repair is open for {never} of {len(times)} deaths, {promised}"])
        else:
            self._note([f"repair took {slow:.3f} s at p99, {promised}"])

    def _note(self, findings: list[str]) -> None:
        self._broken.update(dict.fromkeys(findings))

    def _hear(self, uid: str, fact: Fact) -> None:
        now = self._stage.timeline.now
        self._steps.add(now, fact, uid)
        self._phases.hear(uid, fact, now)
        if self._estates is not None:
            self._estates.hear(uid, fact)
        if self._deeds is not None:
            self._deeds.watch(uid, fact)

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
            parameters=_parameters(self._scenario, self._inputs),
        )


def _some(uids: Sequence[str]) -> str:
    """Return the names of brokers, but not of very many."""
    more = ", ..." if len(uids) > NAMED else ""
    return f"[{', '.join(map(short, uids[:NAMED]))}{more}]"
