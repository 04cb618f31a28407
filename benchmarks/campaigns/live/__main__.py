"""Real brokers on loopback under faults and traffic, for minutes; measured, and judged.

    python -m benchmarks.campaigns.live [--brokers 32] [--minutes 3] [--seed 1] [--load] ...

Prints a line a round, a line a bar, and the same failures in the simulator. Exit code 1: a bar is
missed.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import trio

from benchmarks.arguments import above, at_least
from benchmarks.campaigns.live.figures import distance, spread
from benchmarks.campaigns.live.processes import cores
from benchmarks.campaigns.live.rounds import Fault
from benchmarks.campaigns.live.simulated import known, simulated
from benchmarks.campaigns.live.soak import Outcome, Plan, judge, say, soak
from ges.units.address import UNIT_LIMIT
from sims.world.world import CrashMode

LEAST_SIMULATED = 40  #: crashes
BY_PROXY = (Fault.CUT, Fault.DARK, Fault.ISOLATE)


def main() -> None:
    """Soak and print what came of it; exit code 1 if a bar is missed, 130 if stopped, else 0.

    Data, logs and traces are deleted only if all bars are met and ``--keep`` is not given.
    """
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="chordal-soak-"))
    plan = Plan(
        folder=folder,
        brokers=options.brokers,
        unit_limit=options.unit_limit,
        profile=options.profile,
        seed=options.seed,
        minutes=options.minutes,
        rounds=options.rounds,
        faults=options.faults,
        load=cores() if options.load else 0,
        publishers=options.publishers,
        subscribers=options.subscribers,
        every_s=options.every,
        proxies=not options.no_proxies,
    )
    say(f"seed {plan.seed}, profile {plan.profile}, {plan.load} processes of load")
    outcome = trio.run(_until_stopped, plan)
    if outcome is None:
        say("stopped; everything was ended")
        sys.exit(130)
    missed = _report(plan, outcome)
    if missed or options.keep:
        say(f"data, logs and traces: {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if missed else 0)


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.live", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--brokers", type=at_least(1), default=32)
    parser.add_argument(
        "--unit-limit", type=at_least(3), default=UNIT_LIMIT, help="sub-units of a unit"
    )
    parser.add_argument("--minutes", type=above(0), default=3.0, help="of rounds of faults")
    parser.add_argument("--rounds", type=at_least(1), help="stop after that many")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults and victims")
    parser.add_argument("--profile", default="lan", choices=("local", "lan", "wan"))
    parser.add_argument("--load", action="store_true", help="keep all cores busy meanwhile")
    parser.add_argument("--publishers", type=at_least(1), default=3)
    parser.add_argument("--subscribers", type=at_least(1), default=3)
    parser.add_argument("--every", type=above(0), default=0.1, help="seconds between two events")
    parser.add_argument(
        "--faults",
        type=_faults,
        default=tuple(Fault),
        help=f"of {', '.join(Fault)}, with commas; all is the default",
    )
    parser.add_argument(
        "--no-proxies", action="store_true", help="no cuts, and no proxies between the brokers"
    )
    parser.add_argument("--keep", action="store_true", help="keep data, logs and traces")
    options = parser.parse_args()
    if options.brokers < 6:
        parser.error("a ring of fewer than six is no test: each broker is linked to all others")
    if options.no_proxies:
        options.faults = tuple(fault for fault in options.faults if fault not in BY_PROXY)
        if not options.faults:
            parser.error(f"without proxies there is no {', '.join(BY_PROXY)}")
    return options


def _faults(text: str) -> tuple[Fault, ...]:
    try:
        return tuple(Fault(name) for name in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def _until_stopped(plan: Plan) -> Outcome | None:
    """Carry the plan out; None if SIGINT or SIGTERM ended it."""
    outcome: Outcome | None = None
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()
                    return

            nursery.start_soon(wait)
            outcome = await soak(plan, say)
            nursery.cancel_scope.cancel()
    return outcome


def _report(plan: Plan, outcome: Outcome) -> bool:
    """Print what was measured; returns whether a bar is missed."""
    say("")
    bars = judge(outcome)
    for line in bars:
        say(str(line))
    say(
        f"{len(outcome.rounds)} rounds, {outcome.looks} states looked at, {outcome.published} "
        f"events published; the soak's own clock was late by {outcome.stall_s:.3f} s at worst"
    )
    for what in (
        *outcome.accused,
        *outcome.findings,
        *outcome.ghosts,
        *outcome.units,
        *outcome.errors,
    ):
        say(f"! {what}")
    if outcome.failure:
        say(f"! {outcome.failure}")
    _compare(plan, outcome)
    return any(not line.is_met for line in bars)


def _compare(plan: Plan, outcome: Outcome) -> None:
    """Lay the live distributions beside the simulator's for the same settings."""
    modes = {Fault.KILL: CrashMode.KILL, Fault.STOP: CrashMode.POWER}
    for fault, mode in modes.items():
        live = outcome.traced[fault]
        if not live:
            continue
        crashes = max(LEAST_SIMULATED, len(live))
        virtual = simulated(plan.brokers, plan.profile, mode, crashes, plan.seed)
        say("")
        say(f"{fault} live, beside {mode} in the simulator, n = {plan.brokers}; seconds")
        for name in ("detected_s", "confirmed_s", "repaired_s"):
            a = known([getattr(t, name) for t in live])
            b = known([getattr(t, name) for t in virtual])
            say(f"  {name[:-2]:<10} live      {spread(a)}")
            say(f"  {'':<10} simulated {spread(b)}  distance {distance(a, b):.2f}")


if __name__ == "__main__":
    main()
