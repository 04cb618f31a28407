"""What a run shows: how far it is, and what it has found, for people and for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlay.wording import counted

if TYPE_CHECKING:
    from sims.experiments.experiment import Progress, RunResult
    from sims.experiments.summary import Spread, Summary


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """Show stage, share done and virtual clock on a terminal; in a pipe, nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    from overlay.ids import NANOS_PER_SECOND, Nanos

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[clock]}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, clock="")

        def show(stage: str, share: float, now: Nanos) -> None:
            clock = f"virtual {now / NANOS_PER_SECOND:.1f} s"
            bar.update(task, description=stage, completed=share, clock=clock)

        yield show


def print_json(result: RunResult, summary: Summary, files: tuple[Path, Path] | None) -> None:
    """Print the row of a run, its summary, and the files it was written to."""
    import msgspec

    run_file, incident_file = files or (None, None)
    found = {
        **msgspec.to_builtins(result.run),
        **msgspec.to_builtins(summary),
        "invariants_held": True,
        "files": {
            "runs": run_file and str(run_file),
            "incidents": incident_file and str(incident_file),
        },
    }
    click.echo(msgspec.json.encode(found))


def print_words(result: RunResult, summary: Summary, files: tuple[Path, Path] | None) -> None:
    """Print what an experiment came to, line by line."""
    print_incidents(result, summary)
    print_files(files)
    click.echo(
        f"{result.run.run_id}: {summary.repaired} of {summary.crashes} crashes repaired, "
        "all invariants held"
    )


def print_files(files: tuple[Path, Path] | None) -> None:
    """Print where a run was written to."""
    for file in files or ():
        click.echo(f"written: {file}")


def print_incidents(result: RunResult, summary: Summary) -> None:
    """Print how fast failures were repaired, and at what cost."""
    click.echo(
        f"{counted(result.run.nodes or 0, 'broker')}, "
        f"{counted(summary.crashes, 'crash', 'crashes')}, {summary.duration_s:.1f} s of "
        f"virtual time, {counted(summary.events, 'event')} simulated"
    )
    for name, spread in (
        ("detected after", summary.detection_s),
        ("confirmed after", summary.confirmation_s),
        ("repaired after", summary.repair_s),
        ("chords repaired after", summary.chord_repair_s),
    ):
        _print_spread(name, spread, "{:.3f} s")
    _print_spread("messages a crash", summary.messages, "{:.0f}")
    if summary.false_suspicions:
        click.echo(f"live brokers suspected: {summary.false_suspicions}")


def _print_spread(name: str, spread: Spread | None, form: str) -> None:
    if spread is not None:
        click.echo(f"{name}: median {form.format(spread.p50)}, at most {form.format(spread.max)}")
