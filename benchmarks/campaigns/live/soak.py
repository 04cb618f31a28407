"""The soak: a ring of real brokers under traffic, faults one after the other, and the verdict."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import trio

from benchmarks.campaigns.live import processes
from benchmarks.campaigns.live.evidence import (
    Times,
    false_deaths,
    internal_errors,
    sightings,
    times,
)
from benchmarks.campaigns.live.figures import Bar, bar
from benchmarks.campaigns.live.observing import Watch, until_units_stand, until_whole
from benchmarks.campaigns.live.processes import Fleet, SoakFailed
from benchmarks.campaigns.live.rounds import WHOLE_LIMIT_SECONDS, Fault, Round, Rounds
from benchmarks.campaigns.live.simulated import known
from benchmarks.campaigns.live.traffic import Traffic
from ges.errors import ProcessFailed
from ges.units.address import UNIT_LIMIT
from ring.config import profile

KILL_REPAIRED_S = 0.5  #: p99; lan profile on loopback
STOP_CONFIRMED_S = 2.0
STOP_REPAIRED_S = 3.0
#: A broker that is back joins anew, and waits 2 s for what has gone to others meanwhile.
AGAIN_S = 5.0
UNITS_SECONDS = 60.0  #: from the last fault until the units are in order, at most


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do."""

    folder: Path  #: data, logs and traces of the brokers
    brokers: int = 32
    unit_limit: int = UNIT_LIMIT  #: sub-units of a unit
    profile: str = "lan"
    seed: int = 1
    minutes: float = 3.0
    rounds: int | None = None  #: at most that many
    faults: tuple[Fault, ...] = tuple(Fault)
    load: int = 0  #: processes that keep the cores busy
    publishers: int = 3
    subscribers: int = 3
    every_s: float = 0.1  #: between two events of one publisher; each passes every broker
    proxies: bool = True


@dataclass
class Outcome:
    """What came of it."""

    rounds: list[Round] = field(default_factory=list)
    traced: dict[Fault, list[Times]] = field(default_factory=dict)
    accused: list[str] = field(default_factory=list)  #: healthy brokers declared dead
    findings: list[str] = field(default_factory=list)  #: of the watch
    ghosts: list[str] = field(default_factory=list)  #: of the watch: pointers at killed brokers
    looks: int = 0
    errors: list[str] = field(default_factory=list)  #: of the brokers' logs
    failure: str = ""  #: why the soak ended early
    units: list[str] = field(default_factory=list)  #: what is wrong with them in the end
    disorder: int = 0
    published: int = 0
    stall_s: float = 0.0

    def of(self, fault: Fault) -> list[Round]:
        """Return the rounds of one kind of fault, in the order in which they were begun."""
        return [round_ for round_ in self.rounds if round_.fault is fault]


async def soak(plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Outcome:
    """Carry out ``plan``; ends all its processes, however it ends.

    Faults are drawn so that each kind comes once before any comes again.
    """
    rng = random.Random(f"soak-{plan.seed}")
    outcome = Outcome()
    with (
        processes.switchboard() if plan.proxies else nullcontext() as board,
        processes.load(plan.load),
    ):
        options = ["--profile", plan.profile, "--unit-limit", str(plan.unit_limit)]
        fleet = Fleet(plan.folder, plan.brokers, options, rng, board)
        try:
            await _soak(plan, fleet, rng, outcome, tell)
        except (SoakFailed, ProcessFailed) as error:
            outcome.failure = str(error)
        finally:
            ended_ns = time.time_ns()  # what they say of one another's end is no evidence
            fleet.end()
    seen = sightings(fleet.brokers)
    for fault in (Fault.KILL, Fault.STOP):
        outcome.traced[fault] = [times(round_, seen) for round_ in outcome.of(fault)]
    outcome.accused = false_deaths(fleet.brokers, outcome.rounds, seen, ended_ns)
    outcome.errors = internal_errors(fleet.brokers)
    return outcome


async def _soak(
    plan: Plan,
    fleet: Fleet,
    rng: random.Random,
    outcome: Outcome,
    tell: Callable[[str], None],
) -> None:
    started = trio.current_time()
    await fleet.form()
    await until_whole(fleet, plan.brokers, WHOLE_LIMIT_SECONDS)
    tell(f"a ring of {plan.brokers} after {trio.current_time() - started:.1f} s")
    homes = rng.sample(fleet.brokers, min(plan.publishers + plan.subscribers, plan.brokers))
    urls = [broker.url for broker in homes]
    traffic = Traffic(urls[: plan.publishers], urls[plan.publishers :], plan.every_s)
    config = profile(plan.profile)
    # A silence is noticed after the one, and a witness has tested it after the other.
    watch = Watch(fleet, found_out_ns=config.silence_max_ns + config.test_ns)
    rounds = Rounds(fleet, traffic, watch, rng)
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        try:
            await nursery.start(traffic.run)
            nursery.start_soon(watch.run)
            await _rounds(plan, rounds, rng, tell)
            outcome.units = await until_units_stand(fleet, UNITS_SECONDS)
        except (SoakFailed, ProcessFailed) as error:
            outcome.failure = str(error)
        nursery.cancel_scope.cancel()
    outcome.rounds = rounds.done
    outcome.findings, outcome.ghosts, outcome.looks = watch.findings, watch.ghosts, watch.looks
    outcome.disorder = sum(pair.disorder for pair in traffic.pairs.values())
    outcome.published = sum(traffic.published)
    outcome.stall_s = traffic.stall_s


async def _rounds(
    plan: Plan, rounds: Rounds, rng: random.Random, tell: Callable[[str], None]
) -> None:
    deadline = trio.current_time() + 60 * plan.minutes
    bag: list[Fault] = []
    while trio.current_time() < deadline:
        if plan.rounds is not None and len(rounds.done) >= plan.rounds:
            return
        bag = bag or rng.sample(plan.faults, len(plan.faults))
        found = await rounds.run(bag.pop())
        tell(_in_words(len(rounds.done), found))


def judge(outcome: Outcome) -> list[Bar]:
    """Compare what was measured with what is promised."""
    kills, stops = outcome.of(Fault.KILL), outcome.of(Fault.STOP)
    killed, stopped = outcome.traced[Fault.KILL], outcome.traced[Fault.STOP]
    bars = []
    if kills:
        traced = known([t.repaired_s for t in killed])
        seen = known([r.repaired_s for r in kills])
        bars += [
            bar("kill -9: confirmed, p99, by the traces", _confirmed(killed), 0.99, None),
            bar("kill -9: repaired, p99, by the traces", traced, 0.99, KILL_REPAIRED_S),
            bar("kill -9: repaired, p99, from outside", seen, 0.99, KILL_REPAIRED_S),
            bar("kill -9: events pause, longest", _pauses(kills), 1.0, KILL_REPAIRED_S),
            _missing("kill -9: not seen to be repaired", len(kills), len(traced), len(seen)),
        ]
    if stops:
        traced = known([t.repaired_s for t in stopped])
        seen = known([r.repaired_s for r in stops])
        bars += [
            bar(
                "SIGSTOP: confirmed, p99, by the traces",
                _confirmed(stopped),
                0.99,
                STOP_CONFIRMED_S,
            ),
            bar("SIGSTOP: repaired, p99, by the traces", traced, 0.99, STOP_REPAIRED_S),
            bar("SIGSTOP: repaired, p99, from outside", seen, 0.99, STOP_REPAIRED_S),
            bar("SIGSTOP: events pause, longest", _pauses(stops), 1.0, STOP_REPAIRED_S),
            _missing("SIGSTOP: not seen to be repaired", len(stops), len(traced), len(seen)),
        ]
    for fault in (Fault.ISOLATE, Fault.DOZE, Fault.CUT, Fault.DARK):
        found = outcome.of(fault)
        if found:
            bars.append(bar(f"{fault}: events pause, longest", _pauses(found), 1.0, None))
    for fault in Fault:
        found = outcome.of(fault)
        back = known([round_.back_s for round_ in found])
        if back:
            bars.append(bar(f"{fault}: over, to the ring of all, longest", back, 1.0, None))
            after = [pause for round_ in found for pause in round_.pauses_back_s]
            bars.append(bar(f"{fault}: over, events pause, longest", after, 1.0, None))
        again = [seconds for round_ in found for seconds in round_.again_s]
        if again:
            bars.append(bar(f"{fault}: over, its own events flow again", again, 1.0, AGAIN_S))
    lost = sum(round_.lost for round_ in outcome.rounds)
    bars += [
        Bar("healthy brokers declared dead", len(outcome.accused), 0, ""),
        Bar("states with a broken local invariant", len(outcome.findings), 0, ""),
        Bar("pointers at a killed broker, beyond detection", len(outcome.ghosts), 0, ""),
        Bar("rounds after which the ring was not whole", bool(outcome.failure), 0, ""),
        Bar("units that are not in order in the end", len(outcome.units), 0, ""),
        Bar("errors in the brokers' logs", len(outcome.errors), 0, ""),
        Bar("events delivered twice or out of order", outcome.disorder, 0, ""),
        Bar("events between survivors lost, in all rounds", lost, 0, ""),
    ]
    return bars


def _confirmed(found: list[Times]) -> list[float]:
    return known([t.confirmed_s for t in found])


def _pauses(rounds: list[Round]) -> list[float]:
    return [pause for round_ in rounds for pause in round_.pauses_s]


def _missing(name: str, rounds: int, *seen: int) -> Bar:
    return Bar(name, rounds - min(seen), 0, "")


def _in_words(number: int, found: Round) -> str:
    def told(seconds: float | None) -> str:
        return "-" if seconds is None else f"{seconds:.2f} s"

    uids = " ".join(uid[:8] for uid in found.uids)
    held_up = f", before it: {'; '.join(found.held_up[:3])}" if found.held_up else ""
    return (
        f"round {number}: {found.fault} {uids}: dropped {told(found.dropped_s)}, repaired "
        f"{told(found.repaired_s)}, whole {told(found.whole_s)} (a walk took {told(found.walk_s)}"
        f"{held_up}), events paused "
        f"{told(max(found.pauses_s, default=None))} ({found.slowest}), lost {found.lost}; "
        f"over: whole "
        f"{told(found.back_s)}, events paused {told(max(found.pauses_back_s, default=None))}, "
        f"its own again {told(max(found.again_s, default=None))}"
        f"{' ' + found.trouble if found.trouble else ''}"
    )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
