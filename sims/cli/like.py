"""``chordal sim run --like DIR``: a drill of a live ring, beside its twin in virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from overlay.wording import counted
from sims.cli.plotting import check_plot, write_plot
from sims.cli.printed import counting

if TYPE_CHECKING:
    from ges.drills.figures import Measured
    from sims.twin.comparison import Compared
    from sims.twin.drills import Drills

WIDTH = 110  #: of the table at least, as a pipe has no width


def run_like(
    directory: Path, plays: int, seed: int, out: Path | None, plot: Path | None, *, as_json: bool
) -> None:
    """Play what the drills in a data set did, and compare.

    Raises:
        ConfigError: there is no drill, or a file cannot be written.
        InvariantViolated: a promise did not hold in the simulator.
    """
    from sims import dataset
    from sims.errors import InvariantViolated
    from sims.twin.comparison import Side, compare, missing
    from sims.twin.drills import read
    from sims.twin.twin import play_like

    check_plot(plot)
    drills = read(directory)
    if out is not None:
        dataset.prepare(out)
    with counting("playing") as told:
        twin = play_like(
            drills,
            plays,
            seed,
            told=told,
            kept=lambda result: None if out is None else _keep(result, out),
        )
    live = Side(drills.deeds, drills.incidents)
    simulated = Side(twin.deeds, twin.incidents)
    found = compare(live, simulated, drills.clocks_s, seed, beat_s=drills.beat_s)
    one_sided = missing(live, simulated)
    if plot is not None:
        write_plot(_title(drills), _panels(live.measured, simulated.measured), plot)
    if as_json:
        _print_json(drills, twin.plays, found, one_sided)
    else:
        _print_words(drills, twin.plays, found, one_sided)
        if plot is not None:
            click.echo(f"written: {plot}")
    if twin.broken:
        raise InvariantViolated(
            f"{counted(len(twin.broken), 'promise')} did not hold in the simulator; see it again "
            f"with: chordal sim run --like {directory} --plays {plays} --seed {seed}\n"
            f"  {twin.broken[0]}"
        )


def _keep(result: object, out: Path) -> None:
    from sims import dataset
    from sims.scenarios.results import RunResult

    assert isinstance(result, RunResult)
    dataset.write(result, out)


def _title(drills: Drills) -> str:
    sizes = sorted({conditions.n for conditions in drills.conditions})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"live and simulated, {counted(len(drills.deeds), 'strike')} on a ring of {size}"


def _panels(live: Measured, simulated: Measured) -> dict[str, dict[str, Sequence[float]]]:
    def values(of: Measured, kind: str, phase: str) -> list[float]:
        return [each.seconds if each.is_over else math.inf for each in of[kind, phase]]

    return {
        f"{kind}: {phase}": {
            "live": values(live, kind, phase),
            "simulated": values(simulated, kind, phase),
        }
        for kind, phase in live
        if (kind, phase) in simulated and phase in ("detection", "confirmation", "total")
    }


def _seconds(value: float | None) -> str:
    return "not seen" if value is None else f"{max(value, 0.0):.3f} s"


def _print_json(
    drills: Drills, plays: int, found: Sequence[Compared], one_sided: Sequence[str]
) -> None:
    import msgspec

    told = {
        "drills": [run.run_id for run in drills.runs],
        "strikes": len(drills.deeds),
        "plays": plays,
        "clocks_s": drills.clocks_s,
        "rtt_ms": drills.rtt_ms,
        "compared": [{**msgspec.to_builtins(each), "verdict": each.verdict} for each in found],
        "missing": one_sided,
    }
    click.echo(msgspec.json.encode(told))


def _print_words(
    drills: Drills, plays: int, found: Sequence[Compared], one_sided: Sequence[str]
) -> None:
    from rich.console import Console
    from rich.table import Table

    trips = drills.rtt_ms
    click.echo(
        f"{_title(drills)}; {counted(plays, 'play')}; round trips as measured"
        + (f", {trips[len(trips) // 2]:.1f} ms in the median" if trips else "")
        + f"; clocks within {1000 * drills.clocks_s:.1f} ms"
    )
    if found:
        click.echo(
            "what may differ: times by what the clocks are off; and brokers of the simulator take "
            f"no time to work, while live ones took up to {found[0].work_s:.3f} s more where "
            "nobody waits for a timer"
        )
    table = Table(box=None, pad_edge=False)
    for name in ("after", "phase", "seen", ""):
        table.add_column(name, no_wrap=True)
    for name in ("live", "simulated", "ratio", "expected of as many"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in found:
        table.add_row(
            each.kind,
            each.phase,
            f"{each.seen} of {each.struck}",
            each.quantile,
            _seconds(each.live),
            _seconds(each.simulated),
            "-" if each.ratio is None else f"{each.ratio:.2f}",
            f"{_seconds(each.low)} to {_seconds(each.high)}",
            "" if each.verdict == "as expected" else each.verdict,
        )
    console = Console(highlight=False)
    Console(highlight=False, width=max(console.width, WIDTH)).print(table)
    for words in one_sided:
        click.echo(f"not compared: {words}")
    odd = [each for each in found if each.verdict in ("faster", "slower")]
    work = [each for each in found if each.verdict == "work"]
    of = counted(len(found), "quantile")
    if not found:
        click.echo("nothing to compare: no strike was noticed on both sides")
    elif not odd and not work:
        click.echo("all quantiles are as expected")
    if work:
        click.echo(
            f"{len(work)} of {of} are longer by no more than the work that the simulator leaves "
            f"out: {_names(work)}"
        )
    if odd:
        click.echo(f"{len(odd)} of {of} differ by more than that: {_names(odd)}")


def _names(compared: Sequence[Compared]) -> str:
    return ", ".join(f"{each.kind} {each.phase} {each.quantile}" for each in compared)
