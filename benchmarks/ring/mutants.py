"""How strong the oracles are: broken protocols, and who notices (B37).

    python -m benchmarks.ring.mutants [--rounds N] [--only NAME,NAME,...] [--list]

Every mutant breaks one rule of the ring at run time (``mutations/``). The oracles play their
stories with it (``oracles/``), round by round, each with other seeds, and explore the small scopes,
until one of them finds something; those that know the broken part best are asked first. The
protocol as it is must pass all of that. Exit code 1 if it does not, or if fewer than 95 % are
caught; 2 for a mutant that does not fit any more. With ``--only`` that share is not judged, and the
exit code is 1 if one of those named is not caught.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from benchmarks.arguments import at_least, listed
from benchmarks.report import print_line
from benchmarks.ring import mutations
from benchmarks.ring.mutations import MUTANTS, Mutant, OutOfDate
from benchmarks.ring.oracles import SCOPES, STORIES, Oracle

ROUNDS = 3
BAR = 0.95
ENOUGH = 20
UNCHECKED = "adopts-unchecked"  #: this one has a bar of its own:
ITS_ROUNDS = 100  #: it must be caught by then
LIMIT_S = 60.0  #: of computing, for one story; none takes a tenth of that


def catch(rounds: int, mutant: Mutant | None = None) -> tuple[str, int, str] | None:
    """Return (oracle, round, finding) of the first that notices, or None.

    Raises:
        OutOfDate: the mutant itself does not work with the protocol as it is now.
    """
    first = f".{mutant.first}" if mutant is not None and mutant.first else ""
    stories = sorted(STORIES, key=lambda story: not story.__module__.endswith(first))
    rounds_of_stories = [[(story, at) for story in stories] for at in range(1, rounds + 1)]
    # Scopes have no seeds, and take longer than any story: once, after the first round.
    asked = [*rounds_of_stories[0], (SCOPES, 1), *chain(*rounds_of_stories[1:])]
    for oracle, number in asked:
        findings = _ask(oracle, number, mutant)
        if findings:
            return oracle.__name__, number, findings[0]
    return None


def _ask(oracle: Oracle, number: int, mutant: Mutant | None) -> list[str]:
    try:
        with _limited(oracle.__name__):
            return oracle(number)
    except AssertionError as broken:  # a ring that does not come to rest, for one
        return [_short(broken)]
    except Exception as broken:  # a machine that fails is a finding too
        frame = traceback.extract_tb(broken.__traceback__)[-1]
        ours = Path(frame.filename).parent == Path(mutations.__file__).parent
        if mutant is not None and (ours or _is_misfit(broken)):
            raise OutOfDate(f"{mutant.name}: {_short(broken)}") from broken
        return [_short(broken)]


@contextmanager
def _limited(name: str) -> Iterator[None]:
    """End a story in which time stands still, as brokers answer one another without end."""

    def end(number: int, frame: object) -> None:
        raise AssertionError(f"{name} has not ended after {LIMIT_S:.0f} s of computing")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _is_misfit(broken: Exception) -> bool:
    """Say whether a call does not fit the signature of what was put in its place."""
    return isinstance(broken, TypeError) and "argument" in str(broken)


def main() -> None:
    """Print who noticed each mutant, and B37.

    Exit code 1 if that is missed, or one of those that ``--only`` names is not caught; 2 if a
    mutant is out of date. ``--list`` only says what each breaks.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ring.mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=at_least(1), default=ROUNDS, help="seeds of each story")
    parser.add_argument(
        "--only", type=listed(str), help="names of mutants, with commas; implies no control"
    )
    parser.add_argument("--list", action="store_true", help="say what each mutant breaks, and stop")
    options = parser.parse_args()
    names = {mutant.name for mutant in MUTANTS}
    only = names if options.only is None else set(options.only)
    if only - names:
        unknown = ", ".join(map(repr, sorted(only - names)))
        parser.error(f"--only: no {unknown}; --list shows all")
    mutants = [mutant for mutant in MUTANTS if mutant.name in only]
    if options.list:
        for mutant in mutants:
            print_line(f"{mutant.name:<26}{mutant.what}")
        return
    try:
        sys.exit(0 if judge(mutants, options.rounds, with_control=options.only is None) else 1)
    except OutOfDate as misfit:
        print_line(f"out of date: {misfit}")
        sys.exit(2)


def judge(mutants: Sequence[Mutant], rounds: int, *, with_control: bool) -> bool:
    """Try the protocol as it is and each mutant; print what was found, and say if B37 is met.

    Without control, or with too few mutants for the bar, say if nothing is amiss in what was tried.

    Raises:
        OutOfDate: a mutant does not work with the protocol as it is now.
    """
    start = time.process_time()
    control = catch(rounds) if with_control else None
    if with_control:
        print_line(f"{'control':<26}{_told(control)}")
    missed = []
    for mutant in mutants:
        with mutant.applied():
            found = catch(rounds, mutant)
        if found is None:
            missed.append(mutant.name)
        print_line(f"{mutant.name:<26}{_told(found)}")
        if mutant.name == UNCHECKED:
            soon = found is not None and found[1] <= ITS_ROUNDS
            print_line(
                f"B37  {UNCHECKED}: caught in round  measured {found[1] if found else 'none'}  "
                f"threshold {ITS_ROUNDS}  {'met' if soon else 'NOT MET'}"
            )
    caught = len(mutants) - len(missed)
    share = caught / len(mutants)
    is_judged = with_control and len(mutants) >= ENOUGH
    good = control is None and (share >= BAR if is_judged else not missed)
    verdict = ("met" if good else "NOT MET") if is_judged else "not judged"
    shown = {True: "FAILS" if control else "passes", False: "not tried"}[with_control]
    print_line(
        f"B37  mutants caught, {sum(m.zave for m in mutants)} of them like Zave's  "
        f"measured {caught} of {len(mutants)} ({share:.1%}), control {shown}  "
        f"threshold {BAR:.0%} of at least {ENOUGH}  {verdict}  "
        f"({time.process_time() - start:.0f} s of one core)"
    )
    if missed:
        print_line(f"not caught: {', '.join(missed)}")
    return good


def _told(found: tuple[str, int, str] | None) -> str:
    if found is None:
        return "nothing found"
    oracle, number, finding = found
    return f"{oracle:<15} round {number}  {finding[:150]}"


def _short(broken: BaseException) -> str:
    return f"{type(broken).__name__}: {broken}".splitlines()[0]


if __name__ == "__main__":
    main()
