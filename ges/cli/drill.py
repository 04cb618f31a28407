"""``chordal drill``: break a live ring on purpose, within what it survives, and measure."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import (
    client_options,
    console,
    is_default,
    json_option,
    run_async,
    tell,
    token_option,
)
from overlay.errors import ChordalError

if TYPE_CHECKING:
    from ges.drills.conduct import End
    from ges.drills.record import Record

_STRIKES = click.IntRange(0, 1000)


@click.command()
@click.argument("ring_url", required=False, metavar="[RING_URL]")
@click.option(
    "--start",
    type=click.IntRange(min=3, max=64),
    metavar="N",
    help="Start a ring of N brokers on loopback for this, and end it afterwards.",
)
@click.option(
    "--profile",
    type=click.Choice(["local", "lan", "wan"]),
    default="lan",
    show_default=True,
    help="With --start: timing of their ring.",
)
@click.option("--kill", type=_STRIKES, default=0, metavar="N", help="Brokers to end.")
@click.option("--pause", type=_STRIKES, default=0, metavar="N", help="Brokers to hold up.")
@click.option("--cut", type=_STRIKES, default=0, metavar="N", help="Links to cut.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Do that so many times.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Strike up to so many at one moment; never more than the ring survives.",
)
@click.option(
    "--gap",
    type=duration,
    default="2s",
    show_default=True,
    metavar="TIME",
    help="That the ring is left in peace between two strikes.",
)
@click.option(
    "--pause-for",
    type=duration,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="How long brokers are held up.",
)
@click.option(
    "--cut-for",
    type=duration,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="How long links are cut.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of what is struck."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Data set to add the incidents to.",
)
@json_option
@token_option
@client_options
def drill(
    ring_url: str | None,
    start: int | None,
    profile: str,
    kill: int,
    pause: int,
    cut: int,
    rounds: int,
    at_once: int,
    gap: float,
    pause_for: float,
    cut_for: float,
    seed: int,
    out: Path | None,
    as_json: bool,
    connection: Connection,
) -> int:
    """Break the live ring of the broker at RING_URL, or one that --start starts, and measure.

    Each round ends, holds up and cuts off as many as told, drawn at random. Nothing is struck
    unless the ring is whole, and never more at once than 'chordal ring --check' says it survives.
    All brokers must have been started with 'serve --drills'. What is ended is started again with
    --start; elsewhere that is the concern of whatever looks after the brokers. Ctrl-C mends what
    can be mended, and says what cannot.

    Who may: on a ring with access rules those with operate = ["drill"] in a rule; without rules
    whoever is on the broker's machine, or, where brokers have identities, shows one of a broker.
    """
    from ges.drills.conduct import conduct
    from ges.drills.plan import Plan
    from ges.drills.record import Record
    from ges.wire.drill_messages import MAX_BREAK_MS

    if start is not None and (ring_url is not None or not is_default("broker")):
        raise click.UsageError("give a ring or --start N, not both")
    if not kill + pause + cut:
        raise click.UsageError("nothing is to be broken; give --kill, --pause or --cut")
    for name, seconds in (("--pause-for", pause_for), ("--cut-for", cut_for)):
        if not 0 < 1000 * seconds <= MAX_BREAK_MS:
            raise click.UsageError(f"{name} is above 0, and {MAX_BREAK_MS // 1000} s at most")
    plan = Plan(
        kill=kill,
        pause=pause,
        cut=cut,
        rounds=rounds,
        at_once=min(at_once, kill + pause + cut),
        gap_s=gap,
        pause_s=pause_for,
        cut_s=cut_for,
        seed=seed,
    )
    operator = replace(connection, urls=ring_url or connection.urls).operator
    record = Record(out)
    try:
        end = run_async(
            conduct,
            *(operator, plan, record, partial(tell, err=as_json)),
            start=start,
            profile=profile,
            warned=lambda line: tell(f"chordal: warning: {line}", err=True),
        )
    except* ChordalError:
        if record.deeds and not as_json:
            _print(record)  # what was measured until then
        raise
    if as_json:
        click.echo(_as_json(record, end))
    else:
        _print(record)
        if end.is_interrupted:
            click.echo("interrupted; a strike that was under way is not recorded")
    return 130 if end.is_interrupted else 0


def _as_json(record: Record, end: End) -> str:
    import msgspec

    from ges.drills.figures import measured

    phases = measured(record.deeds, record.incidents)
    found = {
        "run": record.run,
        "deeds": record.deeds,
        "incidents": record.incidents,
        "seconds": {
            f"{kind}.{phase}": [each.seconds if each.is_over else None for each in values]
            for (kind, phase), values in phases.items()
        },
        "interrupted": end.is_interrupted,
        "left": end.left,
        "files": {name: str(path) for name, path in record.files.items()},
    }
    return msgspec.json.encode(found).decode()


def _print(record: Record) -> None:
    from rich.table import Table

    from ges.drills.figures import QUANTILES, measured, struck
    from overlay.trace_schema import quantile_of

    phases, strikes = measured(record.deeds, record.incidents), struck(record.deeds)
    if phases:
        table = Table("after", "phase", "seen", *QUANTILES, "max", box=None)
        for (kind, phase), values in phases.items():
            shown = (quantile_of(values, q) for q in (*QUANTILES.values(), 1.0))
            numbers = (f"{value:.3f} s" if math.isfinite(value) else "-" for value in shown)
            seen = sum(value.is_over for value in values)
            table.add_row(kind, phase, f"{seen} of {strikes[kind]}", *numbers)
        console().print(table)
    if record.run is not None:
        for path in record.files.values():
            if path.exists():
                click.echo(f"written: {path}")
