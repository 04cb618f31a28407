"""Who notices a broken protocol: the stories are played with each mutant until one finds something.

Stories (``sims.stories``) go round by round, each with other seeds; the small scopes are explored
after the first round. Stories that know the broken part best are asked first.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from benchmarks.report import print_line
from sims.errors import InvariantViolated
from sims.stories.stories import SCOPES, STORIES, Story
from tests.mutants import Mutant, OutOfDate

BAR = 0.95
ENOUGH = 20
UNCHECKED = "adopts-unchecked"  #: this one has a bar of its own:
ITS_ROUNDS = 100  #: it must be caught by then
LIMIT_S = 60.0  #: of computing, for one story; none takes a tenth of that


def catch(rounds: int, mutant: Mutant | None = None) -> tuple[str, int, str] | None:
    """Return (story, round, finding) of the first that notices, or None.

    Raises:
        OutOfDate: the mutant itself does not work with the protocol as it is now.
    """
    first = mutant.first if mutant is not None else ""
    stories = sorted(STORIES, key=lambda story: not _module(story).startswith(first))
    rounds_of_stories = [[(story, at) for story in stories] for at in range(1, rounds + 1)]
    # Scopes have no seeds, and take longer than any story: once, after the first round.
    played = [*rounds_of_stories[0], (SCOPES, 1), *chain(*rounds_of_stories[1:])]
    for story, number in played:
        findings = _play(story, number, mutant)
        if findings:
            return story.__name__, number, findings[0]
    return None


def _module(story: Story) -> str:
    return story.__module__.rpartition(".")[2]


def _play(story: Story, number: int, mutant: Mutant | None) -> list[str]:
    try:
        with _limited(story.__name__):
            return story(number)
    except (AssertionError, InvariantViolated) as broken:  # a ring not at rest in time, for one
        return [_short(broken)]
    except Exception as broken:  # a machine that fails is a finding too
        frame = traceback.extract_tb(broken.__traceback__)[-1]
        ours = Path(frame.filename).parent == Path(__file__).parent
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
    story, number, finding = found
    return f"{story:<15} round {number}  {finding[:150]}"


def _short(broken: BaseException) -> str:
    return f"{type(broken).__name__}: {broken}".splitlines()[0]
