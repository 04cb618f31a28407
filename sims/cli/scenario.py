"""``chordal sim run``, where what is run is a scenario: played, told, written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlay.wording import counted
from sims.cli.plotting import check_plot, write_plot
from sims.cli.printed import (
    files_of,
    print_files,
    print_incidents,
    print_late,
    print_met,
    progress_bar,
)

if TYPE_CHECKING:
    from sims.scenarios.play import Outcome

SHOWN = 10  #: broken promises that are told


def run_scenario(
    name: str,
    changes: Sequence[str],
    seed: int,
    out: Path | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    """Play a scenario of the library, or in a file.

    Raises:
        ConfigError: there is none, or it makes no sense.
        InvariantViolated: a promise did not hold; the text says how to see it again.
    """
    from sims.campaign.cells import Cell
    from sims.errors import InvariantViolated
    from sims.recording import Recording
    from sims.scenarios import library
    from sims.scenarios.faults import late
    from sims.scenarios.files import parse
    from sims.scenarios.inputs import read_inputs
    from sims.scenarios.play import play, run_id
    from sims.stories import stories

    check_plot(plot)
    file = library.find(name, stories.BY_NAME)
    scenario = parse(file, changes)
    inputs = read_inputs(scenario, file.folder)
    files: dict[str, Path] = {}
    with progress_bar() as progress:
        if out is None:
            outcome = play(file.name, scenario, seed, progress=progress, inputs=inputs)
        else:
            named = run_id(file.name, scenario, seed, inputs)
            with Recording(out, file.name, scenario.nodes, named) as recording:
                outcome = play(
                    file.name, scenario, seed, progress=progress, rows=recording, inputs=inputs
                )
                files = recording.finish(outcome.result)
    if plot is not None:
        write_plot(outcome.result.run.run_id, _panels(outcome), plot)
        files["plot"] = plot
    if as_json:
        _print_json(outcome, files, late(scenario))
    else:
        _print_words(outcome, files, late(scenario))
    if outcome.broken:
        again = Cell(name, file, tuple(changes), seed).again
        if not as_json:
            _tell_broken(outcome)
        raise InvariantViolated(
            f"{counted(len(outcome.broken), 'promise')} did not hold: {outcome.broken[0]}; "
            f"see it again with: {again}"
        )


def _tell_broken(outcome: Outcome) -> None:
    """Say on stderr which promises did not hold, and what happened around the first of them."""
    row = outcome.result.run
    click.echo("not as promised:", err=True)
    for broken in outcome.broken[:SHOWN]:
        click.echo(f"  {broken}", err=True)
    if outcome.steps:
        click.echo(
            f"the last steps around it, with seed {row.seed} and chordal {row.version}:", err=True
        )
    for step in outcome.steps:
        click.echo(step, err=True)


def _panels(outcome: Outcome) -> dict[str, dict[str, list[float]]]:
    from overlay.trace_schema import MOMENTS, lasted

    def times(moment: str) -> list[float]:
        found = (lasted(row, "failed_ns", moment, None) for row in outcome.result.incidents)
        return [took.seconds if took.is_over else math.inf for took in found if took]

    return {"since the crash": {words: times(moment) for moment, words in MOMENTS.items()}}


def _print_json(outcome: Outcome, files: dict[str, Path], late: Sequence[str]) -> None:
    """Print one object: the row of the run, its summary, what was done and what became of it."""
    import msgspec

    from sims.scenarios.summary import summarise

    verdict = outcome.verdict
    found = {
        **msgspec.to_builtins(outcome.result.run),
        **msgspec.to_builtins(summarise(outcome.result)),
        "invariants_held": not outcome.broken,
        "broken": outcome.broken,
        "steps": outcome.steps,
        "done": outcome.done,
        "late": late,
        "alive": outcome.brokers,
        "met": outcome.met,
        "deliveries": None
        if verdict is None
        else {
            **{fate.value: count for fate, count in sorted(verdict.fates.items())},
            "lost_because": {why.value: count for why, count in sorted(verdict.lost.items())},
            "longest_s": verdict.longest_ns / 1e9,
        },
        "files": files_of(files),
    }
    click.echo(msgspec.json.encode(found))


def _print_words(outcome: Outcome, files: dict[str, Path], late: Sequence[str]) -> None:
    """Print what was done, how it was repaired, what became of events; the verdict comes last."""
    from sims.scenarios.summary import summarise

    summary = summarise(outcome.result)
    print_incidents(outcome.result, summary)
    done = ", ".join(f"{what} {count}" for what, count in outcome.done.items())
    died = sum(count for what, count in outcome.done.items() if what.startswith("crash"))
    early = died - summary.crashes  # they had not joined yet, so nothing was to be repaired
    placeless = f" ({early} of them before they had a place on the ring)" if early > 0 else ""
    alive = f"{counted(outcome.brokers, 'broker')} alive in the end"
    click.echo(f"done: {done or 'nothing'}{placeless}; {alive}")
    print_late(late)
    print_met(outcome.met)
    if outcome.verdict is not None:
        click.echo(f"events: {outcome.verdict}")
    print_files(files)
    if not outcome.broken:
        run = outcome.result.run.run_id
        repaired = f"{summary.repaired} of {summary.crashes} crashes repaired, "
        click.echo(f"{run}: {repaired if summary.crashes else ''}all promises held")
