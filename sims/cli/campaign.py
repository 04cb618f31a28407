"""``chordal sim campaign``: scenarios with many seeds; ``chordal sim shrink``: the smallest one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from overlay.wording import counted
from sims.cli.options import json_option, seeds_option
from sims.cli.plotting import check_plot, plot_option, write_plot
from sims.cli.printed import print_late, print_met

if TYPE_CHECKING:
    from sims.campaign.cells import Shown
    from sims.campaign.table import Row

TOLD = 20  #: runs that went wrong, with their commands
WIDTH = 120  #: of the table at least, as a pipe has no width
TELL_EVERY_S = 5.0  #: how far a campaign is, where stderr is no terminal


@click.command(short_help="Run scenarios with many seeds, over all cores.")
@click.argument("names", nargs=-1, required=True, metavar="NAME|FILE...")
@seeds_option("100")
@click.option("--minutes", type=click.FloatRange(min=0), help="Begin no run after so long.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: all cores]")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="As of 'sim run'.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("campaign"),
    show_default=True,
    metavar="DIR",
    help="Where it notes what is done; the same command goes on from there.",
)
@click.option("--data", is_flag=True, help="Add the rows of each run to the data set DIR as well.")
@plot_option
@json_option
def campaign(
    names: tuple[str, ...],
    seeds: str,
    minutes: float | None,
    workers: int | None,
    changes: tuple[str, ...],
    out: Path,
    data: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Run scenarios with many seeds, and print a row for each scenario.

    What is done is noted in DIR at once: after Ctrl-C or kill -9 the same command goes on, and
    what could not be done is tried again. Fails if a promise was broken, and prints the commands
    that show it again.
    """
    import os

    import msgspec

    from sims import dataset
    from sims.campaign import campaign as running
    from sims.campaign.cells import cells, read_seeds
    from sims.campaign.journal import Journal
    from sims.campaign.table import rows
    from sims.errors import CampaignFailed, InvariantViolated
    from sims.scenarios import library
    from sims.scenarios.faults import late
    from sims.scenarios.files import parse
    from sims.scenarios.phases import merged

    check_plot(plot)
    files = [(name, library.find(name)) for name in dict.fromkeys(names)]
    for _, file in files:
        print_late(late(parse(file, changes)), err=True)
    known = list(cells(files, read_seeds(seeds), changes, out if data else None))
    if data:
        dataset.prepare(out)
    until = None if minutes is None else time.monotonic() + 60 * minutes
    cores = workers or len(os.sched_getaffinity(0))
    telling = _Telling(len(known))
    with Journal(out) as journal:
        before = sum(cell.key in journal.done for cell in known)
        if before:
            click.echo(f"{before} of {len(known)} runs were done before", err=True)
        telling.begin(before)
        try:
            shown = running.run(
                known, journal, workers=cores, until=until, progress=telling.progress
            )
        except KeyboardInterrupt:
            done = sum(cell.key in journal.done for cell in known)
            click.echo(f"{done} of {len(known)} runs are done; the same command goes on", err=True)
            raise
    wrong = [each for each in shown if each.broken] + [each for each in shown if each.error]
    if plot is not None:
        write_plot(counted(len(shown), "run"), _panels(shown), plot)
    if as_json:
        found = {
            "runs": len(shown),
            "of": len(known),
            "scenarios": msgspec.to_builtins(rows(shown)),
            "met": merged(each.met for each in shown),
            "wrong": msgspec.to_builtins(wrong),
        }
        click.echo(msgspec.json.encode(found))
    else:
        _print_table(rows(shown))
        print_met(merged(each.met for each in shown))
        _print_wrong(wrong)
    if wrong and not any(each.broken for each in wrong):
        raise CampaignFailed(
            f"{len(wrong)} of {counted(len(shown), 'run')} could not be done: {wrong[0].error}; "
            "the same command tries them again"
        )
    if wrong:
        shrunk = f"; '{wrong[0].again.replace('sim run', 'sim shrink', 1)}' makes the first smaller"
        raise InvariantViolated(
            f"{len(wrong)} of {counted(len(shown), 'run')} went wrong"
            + (shrunk if wrong[0].broken else "")
        )
    left = len(known) - len(shown)
    if left and not as_json:
        click.echo(f"{len(shown)} of {counted(len(known), 'run')} done; the same command goes on")
    elif not as_json:
        click.echo(f"{len(shown)} of {counted(len(known), 'run')} done, all promises held")


def _panels(shown: Sequence[Shown]) -> dict[str, dict[str, list[float]]]:
    times: dict[str, list[float]] = {}
    for each in shown:
        never = [math.inf] * (each.crashes - len(each.repair_s))
        times.setdefault(each.scenario, []).extend([*each.repair_s, *never])
    return {"ring whole since the crash": times}


class _Telling:
    """Says on stderr how far a campaign is, how fast, and how long it will take."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._before = 0
        self._begin = self._told = time.monotonic()

    def begin(self, before: int) -> None:
        self._before = before

    def progress(self, done: int, shown: Shown) -> None:
        now = time.monotonic()
        if shown.broken or shown.error:
            click.echo(f"{shown.again}: {(shown.error or shown.broken[0])}", err=True)
        if now - self._told < TELL_EVERY_S and done < self._of:
            return
        self._told = now
        rate = (done - self._before) / max(now - self._begin, 1e-9)
        left = (self._of - done) / rate if rate else 0.0
        click.echo(
            f"{done} of {self._of} runs, {60 * rate:.0f} a minute, {left:.0f} s left", err=True
        )


def _print_table(found: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in (
        *("scenario", "runs", "broken", "crashes", "unrepaired", "repair p50", "p99", "messages"),
    ):
        justify: Literal["left", "right"] = "left" if name == "scenario" else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    table.add_column("events once/lost/twice/late", justify="right", no_wrap=True)
    for row in found:
        events = f"{row.once}/{row.lost}/{row.twice}/{row.disordered}"
        table.add_row(
            row.scenario,
            str(row.runs),
            str(row.violations + row.errors),
            str(row.crashes),
            str(row.unrepaired),
            "-" if row.repair_p50_s is None else f"{row.repair_p50_s:.3f} s",
            "-" if row.repair_p99_s is None else f"{row.repair_p99_s:.3f} s",
            "-" if row.messages is None else f"{row.messages:.0f}",
            events if row.once or row.lost else "-",
        )
    console = Console()
    Console(width=max(console.width, WIDTH)).print(table)


def _print_wrong(wrong: Sequence[Shown]) -> None:
    for each in wrong[:TOLD]:
        click.echo(f"{each.again}\n  {each.error or each.broken[0]}")
    if len(wrong) > TOLD:
        click.echo(f"and {len(wrong) - TOLD} more; all were told as they ended, above")


@click.command(short_help="Make a scenario smaller while it still goes wrong.")
@click.argument("name", metavar="NAME|FILE")
@click.option("--seed", type=int, required=True, help="With which it goes wrong.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="As of 'sim run'.")
@click.option("--tries", type=click.IntRange(min=1), default=300, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Where the smaller one is written.  [default: NAME-small.toml here]",
)
def shrink(name: str, seed: int, changes: tuple[str, ...], tries: int, out: Path | None) -> None:
    """Write a smaller scenario that breaks the same promise with the same seed."""
    from overlay.errors import ConfigError
    from sims.campaign.shrink import shrink as find_less
    from sims.scenarios import library
    from sims.unfinished import publish, try_out, unfinished

    file = library.find(name)
    target = out or Path(f"{file.name}-small.toml")
    if target.suffix != ".toml":
        raise ConfigError(f"--out {target}: the file must end in .toml")
    made = unfinished(target)
    try:
        try_out(target.absolute().parent)
        found = find_less(file, seed, changes, limit=tries, told=partial(click.echo, err=True))
        made.write_text(found.text, encoding="utf-8")
        publish(made, target)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {target}: {error.strerror}") from None
    click.echo(
        f"{found.broken}\nafter {counted(found.tries, 'try', 'tries')}, see it with: "
        f"chordal sim run {target} --seed {seed}"
    )
