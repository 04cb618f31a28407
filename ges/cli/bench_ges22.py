"""``chordal bench ges22``: the published experiment, on this machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.bench.ges22.plan import (
    HALF,
    LEAST_BYTES,
    MATCHES,
    MOST_BYTES,
    MOST_RATE,
    QUICK_RATES,
    QUICK_SECONDS,
    QUICK_SIZES,
    RATES,
    SECONDS,
    SIZES,
)
from ges.cli.bench_options import several
from ges.cli.bench_report import Cells, number, print_columns
from ges.cli.durations import NumberRange
from ges.cli.options import json_option, run_async, tell

if TYPE_CHECKING:
    from ges.bench.ges22.experiment import Results
    from ges.bench.ges22.files import Row
    from ges.bench.ges22.plan import Cell
    from ges.bench.ges22.topology import Topology


def _matches(text: str) -> list[int]:
    found = several(int)(text)
    for match in found:
        if match not in MATCHES:
            known = ", ".join(map(str, MATCHES))
            raise click.BadParameter(f"{match}: a match rate is one of {known}")
    return found


def _sizes(text: str) -> list[int]:
    found = several(int)(text)
    for size in found:
        if not LEAST_BYTES <= size <= MOST_BYTES:
            raise click.BadParameter(f"{size}: an event has {LEAST_BYTES} to {MOST_BYTES} bytes")
    return found


def _rates(text: str) -> list[float]:
    found: list[float] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            rate = HALF if part == "half" else float(part)
        except ValueError:
            rate = -1.0
        if part != "half" and not 1 <= rate <= MOST_RATE:
            raise click.BadParameter(
                f"{part!r}: a rate is 1 to {MOST_RATE:g} events a second, or 'half'"
            )
        found.append(rate)
    return found


@click.command()
@click.option(
    "--topology",
    type=click.Choice(["1", "2", "both"]),
    default="both",
    show_default=True,
    help="1: 9 brokers from publisher to subscriber; 2: 4, 2 and 1.",
)
@click.option(
    "--match",
    "matches",
    type=_matches,
    metavar="PERCENT[,PERCENT...]",
    help="Of the events, that a client gets; default: 100,50,25,10.",
)
@click.option(
    "--size",
    "sizes",
    type=_sizes,
    metavar="BYTES[,BYTES...]",
    help="Of an event; default: 50,250,450, and those that the paper has figures of.",
)
@click.option(
    "--rate",
    "rates",
    type=_rates,
    metavar="N|half[,...]",
    help="Events published a second; half: of the most that gets through. Default: 20,100,400 and "
    "half, and those that the paper has figures of.",
)
@click.option(
    "--seconds",
    type=NumberRange(min=0.5, max=60),
    help=f"For which events are published, each time; default: {SECONDS:g}, or "
    f"{QUICK_SECONDS:g} with --quick.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Measure 250 bytes alone, at 20 events a second and at half of the most.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Save figures as JSON and CSV, and plots, in this folder.",
)
@click.option("--no-plots", is_flag=True, help="Save no plots; they need matplotlib.")
@json_option
def ges22(
    topology: str,
    matches: list[int] | None,
    sizes: list[int] | None,
    rates: list[float] | None,
    seconds: float | None,
    quick: bool,
    out: Path | None,
    no_plots: bool,
    as_json: bool,
) -> None:
    """Repeat the published experiment: 22 brokers, 102 clients, declared links.

    All processes run on this machine and are ended at the end: 22 brokers, and three for the
    clients. It needs 2 GiB of memory. Beside each figure stands what the text of the paper states
    of the same point, if anything; it was measured on 22 machines of 1998.
    """
    from ges.bench.ges22.files import rows, save
    from ges.bench.ges22.plan import cells
    from ges.bench.ges22.topology import Topology

    has_plots = out is not None and not no_plots
    if has_plots:
        from ges.bench.ges22.plots import require

        require()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    chosen = list(
        cells(
            matches or MATCHES,
            sizes or (QUICK_SIZES if quick else SIZES),
            rates or (*(QUICK_RATES if quick else RATES), HALF),
            with_stated=not quick and sizes is None and rates is None,
        )
    )
    topologies = list(Topology) if topology == "both" else [Topology(topology)]
    wanted_s = seconds or (QUICK_SECONDS if quick else SECONDS)
    found: list[Results] = run_async(_measure, topologies, chosen, wanted_s)
    table = [row for results in found for row in rows(results)]
    if as_json:
        import msgspec

        click.echo(json.dumps(msgspec.to_builtins(found)))
    else:
        _print(found, table)
    if out is not None:
        saved = save(found, out)
        if has_plots:
            from ges.bench.ges22.plots import draw

            saved += draw(table, out)
        tell(f"saved {', '.join(map(str, saved))}", err=True)


async def _measure(
    topologies: Sequence[Topology], chosen: Sequence[Cell], seconds: float
) -> list[Results]:
    import trio

    from ges.bench.ges22.experiment import measure
    from ges.errors import BenchFailed

    ended: list[int] = []

    async def watch(scope: trio.CancelScope) -> None:
        # Who is told to end has 25 processes to end first.
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                ended.append(number)
                scope.cancel()

    found: list[Results] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        for topology in topologies:
            results = await measure(topology, chosen, seconds, lambda text: tell(text, err=True))
            found.append(results)
        nursery.cancel_scope.cancel()
    if ended:
        raise BenchFailed(f"ended by {signal.Signals(ended[0]).name}")
    return found


def _print(found: Sequence[Results], table: Sequence[Row]) -> None:
    for line in found[0].conditions.in_words[:1]:
        tell(line)
    for results in found:
        measured = ", ".join(f"{hops} to {broker}" for broker, hops in results.hops.items())
        tell(
            f"topology {results.topology}: hops {measured}; at most "
            f"{results.saturation_per_s:.0f} events/s of 250 bytes reach broker 10"
        )
    tell("times in ms; hops count brokers, the publisher's too; paper: 22 machines of 1998")
    columns: dict[str, Cells] = {
        "topology": [row.topology for row in table],
        "at": [str(row.broker) for row in table],
        "hops": [number(row.hops) for row in table],
        "match %": [str(row.match) for row in table],
        "bytes": [str(row.size) for row in table],
        "rate": [f"{row.rate:g}" + (" (half)" if row.is_half else "") for row in table],
        "published/s": [f"{row.published_per_s:.1f}" for row in table],
        "received": [f"{row.received} of {row.expected}" for row in table],
        "received/s": [_shown(row.received_per_s) for row in table],
        "mean": [_shown(row.mean_ms) for row in table],
        "variance": [_shown(row.variance_ms2) for row in table],
        "paper mean": [_shown(row.paper_mean_ms) for row in table],
        "paper variance": [_shown(row.paper_variance_ms2) for row in table],
        "paper received/s": [_shown(row.paper_received_per_s) for row in table],
    }
    print_columns(columns)


def _shown(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}"
