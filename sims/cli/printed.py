"""What a run shows: how far it is, and what it has found, for people and for scripts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlay.wording import counted

WIDTH = 120  #: of a table at least, as a pipe has no width
TABLES = ("runs", "incidents", "probes", "traffic")

if TYPE_CHECKING:
    from sims.scenarios.results import Progress, RunResult
    from sims.scenarios.summary import Spread, Summary


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


@contextmanager
def counting(words: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many of how many are done on a terminal; in a pipe, nothing."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def print_files(files: Mapping[str, Path]) -> None:
    """Print where a run was written to."""
    for file in files.values():
        click.echo(f"written: {file}")


def files_of(files: Mapping[str, Path]) -> dict[str, str | None]:
    """Return where a run was written to, by table; tables that it has none of are null."""
    return {table: str(files[table]) if table in files else None for table in TABLES}


def print_incidents(result: RunResult, summary: Summary) -> None:
    """Print how fast failures were repaired, and at what cost."""
    never = summary.crashes - summary.repaired
    click.echo(
        f"{counted(result.run.nodes or 0, 'broker')}, "
        f"{counted(summary.crashes, 'crash', 'crashes')}"
        f"{f' ({never} never repaired)' if never else ''}, {summary.duration_s:.1f} s of "
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


def print_late(late: Iterable[str], *, err: bool = False) -> None:
    """Print what a scenario plans for a time when its run is over, each with the mend."""
    for words in late:
        click.echo(f"not done: {words}; give it more seconds, or 0 for as many as needed", err=err)


def print_met(met: Mapping[str, Mapping[str, int]]) -> None:
    """Print which kinds of fault met which phases of the protocol; a dot: never."""
    from rich.console import Console
    from rich.table import Table

    from sims.scenarios.phases import Phase

    if not met:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("met", no_wrap=True)
    for phase in Phase:
        table.add_column(phase.value, justify="right", no_wrap=True)
    for what, phases in met.items():
        table.add_row(what, *(str(phases.get(phase.value, ".")) for phase in Phase))
    console = Console()
    Console(width=max(console.width, WIDTH)).print(table)


def _print_spread(name: str, spread: Spread | None, form: str) -> None:
    if spread is not None:
        p50, most = (
            "not reached" if value is None else form.format(value)
            for value in (spread.p50, spread.max)
        )
        click.echo(f"{name}: median {p50}, at most {most}")
