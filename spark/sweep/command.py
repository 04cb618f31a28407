"""What ``chordal recovery sweep`` does: plans, runs, tells how far it is, and sums up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import click
import msgspec

from overlay.wording import counted
from spark import progress
from spark.dataset.place import Place
from spark.errors import SweepFailed
from spark.runtime.session import open_session
from spark.sweep.cells import Cell
from spark.sweep.progress import Progress, clock
from spark.sweep.results import FAILED, Outcome
from spark.sweep.run import plan
from spark.sweep.run import sweep as run_sweep

LONG_S = 20.0  #: of a sweep that takes longer it is said how long
_SHOWN = 10  #: runs that went wrong, with their commands


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep came to. A run that broke a promise is ``done``, too: its rows are there."""

    out: str
    done: int  #: runs of this time
    skipped: int  #: runs that were there already
    failed: tuple[Outcome, ...]  #: runs that could not be done
    broken: tuple[Outcome, ...]  #: runs that broke a promise, of earlier times too
    seconds: float

    @property
    def words(self) -> str:
        """The same for people."""
        lines = []
        for what, outcomes in (("failed", self.failed), ("broke a promise", self.broken)):
            for outcome in outcomes[:_SHOWN]:
                lines += [f"{what}: {outcome.run_id}: {outcome.words}", f"  {outcome.again}"]
            if len(outcomes) > _SHOWN:
                lines.append(f"{what}: {len(outcomes) - _SHOWN} more; see {self.out}/{FAILED}")
        took = clock(self.seconds)
        lines.append(
            f"{counted(self.done, 'run')} done in {took}, {self.skipped} there already: {self.out}"
        )
        return "\n".join(lines)


def carry_out(
    place: Place, cells: Sequence[Cell], master: str | None, tasks: int | None = None
) -> Swept:
    """Run what is missing of ``cells`` in the data set ``place``.

    Raises:
        ConfigError: The data set cannot be written, or is broken; the master is none.
        SparkFailed: Spark gave up.
    """
    began = time.monotonic()
    # Whoever has a folder need not wait for Spark to learn that nothing is left to do.
    todo = plan(place, cells) if place.path is not None else None
    outcomes: tuple[Outcome, ...] = ()
    if todo is None or todo.cells:
        with open_session(master) as spark, progress.line("sweep") as tell:
            todo = todo or plan(place, cells, spark)
            outcomes = run_sweep(
                spark,
                todo,
                tasks=tasks,
                told=_Telling(tell),
            )
    failed = tuple(outcome for outcome in outcomes if outcome.error is not None)
    broken = tuple(outcome for outcome in outcomes if outcome.error is None and outcome.broken)
    return Swept(
        out=str(place),
        done=len(outcomes) - len(failed),
        skipped=todo.skipped,
        failed=failed,
        broken=(*broken, *todo.broken),
        seconds=time.monotonic() - began,
    )


class _Telling:
    """Hands on how far a sweep is; where nobody sees the line change, how long it takes as well.

    That is told once, as soon as it is known.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._is_told = sys.stderr.isatty()

    def __call__(self, far: Progress) -> None:
        now = time.monotonic()
        self._tell(far.words(now))
        if not self._is_told and (left := far.left_s(now)) is not None and far.done >= far.slots:
            self._is_told = True
            if left > LONG_S:
                click.echo(f"sweep: {far.words(now)}", err=True)


def failure(swept: Swept) -> SweepFailed:
    """Return the error that the command ends with, where something went wrong."""
    told = [
        f"{counted(len(outcomes), 'run')} {what}"
        for outcomes, what in ((swept.failed, "failed"), (swept.broken, "broke a promise"))
        if outcomes
    ]
    again = "; run the same sweep again to retry what failed" if swept.failed else ""
    return SweepFailed(f"{' and '.join(told)}; {swept.out}/{FAILED} says how{again}")
