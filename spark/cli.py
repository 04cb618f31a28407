"""``chordal recovery``: sweep experiments, analyse how fast rings recover.

These commands need an extra that is heavy, so it is imported inside them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
import msgspec

from spark.errors import MissingExtra

_EXTRA = ("matplotlib", "numpy", "pandas", "pyarrow", "pyspark")

_master = click.option(
    "--master",
    "--remote",
    "master",
    metavar="URL",
    help="Spark master, or Spark Connect server (sc://HOST:PORT)."
    "  [default: the cores of this machine]",
)
_tasks = click.option(
    "--tasks", type=click.IntRange(1, 4096), help="Runs at once.  [default: the cores of Spark]"
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")


def _numbers(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Read whole numbers that commas separate."""
    if value is None:
        return None
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no list of whole numbers such as 64,256", context, option
        ) from None


@click.group()
def recovery() -> None:
    """How fast rings recover, and how that grows with their size."""


@recovery.command()
@click.argument(
    "grid", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--out", required=True, metavar="DIR", help="The data set: a folder, or a URL.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME|FILE",
    help="Of the library, or a file that ends in .toml; several times for several."
    "  [default: crash]",
)
@click.option(
    "--nodes",
    metavar="N,N,...",
    callback=_numbers,
    help="Sizes of rings.  [default: the scenario's; without one 64,256,1024]",
)
@click.option(
    "--seeds",
    metavar="N|N,N,...|N-M",
    help="One number: that many seeds. A list, or from and to: these seeds.  [default: 5]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=V,V,...",
    help="Values for a key of the scenarios, such as profile=lan,wan or faults.0.count=1,4.",
)
@_tasks
@_master
@_json
def sweep(
    grid: Path | None,
    out: str,
    scenarios: tuple[str, ...],
    nodes: tuple[int, ...] | None,
    seeds: str | None,
    settings: tuple[str, ...],
    tasks: int | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Simulate a grid of scenarios into the data set DIR.

    GRID is a TOML file; options override its keys. A sweep that was interrupted goes on where it
    was when it is started again. Exit code 1 says that a run failed, or broke a promise of its
    scenario; DIR/failed says which, why, and how to see it again.
    """
    _require_extra()
    from spark.dataset.place import place
    from spark.sweep import grid as grids
    from spark.sweep.command import carry_out, failure

    given = grids.over(
        grids.read_grids(grid) if grid else (grids.Grid(),),
        scenario=scenarios,
        nodes=nodes,
        seeds=grids.read_seeds(seeds) if seeds is not None else None,
        set=dict(grids.read_setting(text) for text in settings),
    )
    todo = grids.cells(given)
    for words in dict.fromkeys(f"{cell.run.given}: {said}" for cell in todo for said in cell.late):
        click.echo(f"not done: {words}", err=True)
    swept = carry_out(place(out), todo, master, tasks)
    click.echo(msgspec.json.encode(swept).decode() if as_json else swept.words)
    if swept.failed or swept.broken:
        raise failure(swept)


@recovery.command()
@click.argument("data", metavar="DATA")
@click.option(
    "--out", required=True, metavar="REPORT", type=click.Path(path_type=Path), help="Its folder."
)
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME",
    help="Only runs of this scenario; may be given several times.",
)
@click.option(
    "--skip-broken", is_flag=True, help="Leave out files that are cut off or no data; say which."
)
@_master
@_json
def analyze(
    data: str,
    out: Path,
    scenarios: tuple[str, ...],
    skip_broken: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Analyse the data set DATA into a report.

    DATA is a folder that simulations, sweeps and live brokers wrote, in any mix; or the URL of
    one, such as hdfs://HOST/DIR, which Spark alone opens.
    """
    _require_extra()
    from spark import progress
    from spark.analysis.analyse import analyse
    from spark.analysis.groups import names
    from spark.dataset.files import BRIEF_ROWS, check_dataset
    from spark.dataset.load import is_url, load, load_url, of_scenarios
    from spark.report.folder import check_place, write_report
    from spark.report.pages import headline
    from spark.runtime.session import open_session

    check_place(out)
    with progress.spinner(f"analysing {data}"):
        files = None if is_url(data) else check_dataset(Path(data), skip_broken=skip_broken)
        is_brief = files is not None and files.rows < BRIEF_ROWS
        with open_session(master, memory="4g", is_brief=is_brief) as spark:
            read = (
                load_url(spark, data, skip_broken=skip_broken)
                if files is None
                else load(spark, files)
            )
            if scenarios:
                read = of_scenarios(read, scenarios)
            analysis = analyse(spark, read)
    words = ["chordal recovery analyze", data, *(f"--scenario {name}" for name in scenarios)]
    words += [*(["--skip-broken"] if skip_broken else []), f"--out {out}"]
    page = write_report(analysis, out, " ".join(words))
    for name in analysis.skipped:
        click.echo(f"left out: {name}", err=True)
    if as_json:
        click.echo(
            msgspec.json.encode(
                {"report": str(page), "answer": headline(analysis)}
                | {name: getattr(analysis, name) for name in analysis.__struct_fields__}
            ).decode()
        )
        return
    click.echo(headline(analysis))
    told = names(analysis.groups)
    for verdict in analysis.verdicts:
        if verdict.quantile == "p50":
            click.echo(f"{told[verdict.group]}: {verdict.measure}: {verdict.words}")
    click.echo(f"-> {page}")


@recovery.command()
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Data and report."
)
@click.option(
    "--quick", "extent", flag_value="quick", help="A part of it: ten minutes on two cores."
)
@click.option("--hour", "extent", flag_value="hour", help="A part of it: an hour on one core.")
@_tasks
@_master
def study(out: Path, extent: str | None, tasks: int | None, master: str | None) -> None:
    """Repeat the study of recovery: simulate its grid, then analyse it.

    How recovery grows with rings of 64 to 16384 brokers, with each choice of chords and of copies,
    for single failures, bursts and churn, in local and wide-area networks. The runs go to
    DIR/data, the report to DIR/report. All of it takes a night on two cores. It can be interrupted
    and started again, and what --quick or --hour have run is not run again.
    """
    _require_extra()
    from spark.dataset.place import place
    from spark.sweep.command import carry_out, failure
    from spark.sweep.study import DATA, REPORT, Extent, study_cells

    swept = carry_out(
        place(str(out / DATA)), study_cells(Extent[(extent or "full").upper()]), master, tasks
    )
    click.echo(swept.words)
    # A promise that a run broke is a finding of the study; a run that is missing is none.
    if swept.failed:
        raise failure(swept)
    command = [str(out / DATA), "--out", str(out / REPORT)]
    analyze.main([*command, *(["--master", master] if master else [])], standalone_mode=False)


@recovery.command()
@click.argument(
    "folders",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--promise",
    "promises",
    multiple=True,
    metavar="'MEASURE.STATISTIC < N'",
    help="What is to hold, such as 'recovery.p99 < 3'; several times for several.",
)
@click.option(
    "--window", default="1h", show_default=True, help="How far back it is judged: 15m, 7d."
)
@click.option(
    "--at-least",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Measured failures without which a promise is not judged.",
)
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=5,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option(
    "--call",
    metavar="COMMAND",
    help="Called when a promise comes to be broken, with CHORDAL_PROMISE and CHORDAL_VALUE in its"
    " environment; the watch goes on.  [default: it ends with exit code 1]",
)
@click.option("--once", is_flag=True, help="Read what is there, judge it, and end.")
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where it is noted what has been read.  [default: watch in the first DIR]",
)
@_json
def watch(
    folders: tuple[Path, ...],
    promises: tuple[str, ...],
    window: str,
    at_least: int,
    every: float,
    call: str | None,
    once: bool,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Follow the failures that running brokers write down, and hold them to a promise.

    DIR is the data directory of a broker, its trace, or a folder with those of several. A line is
    printed whenever there is something new. Started again, the watch goes on where it was; no
    failure is lost or counted twice.
    """
    _require_extra()
    from spark.runtime.session import open_session
    from spark.watch.command import Teller, failure, read_duration
    from spark.watch.follow import Watch, follow
    from spark.watch.promise import read_promise

    watched = Watch(
        folders=folders,
        checkpoint=checkpoint or folders[0] / "watch",
        promises=[read_promise(text) for text in promises],
        window_s=read_duration(window),
        every_s=every,
        at_least=at_least,
        told=Teller(as_json=as_json, command=call),
    )
    with open_session(cores=2) as spark:
        news = follow(spark, watched, once=once)
    if news.broken:
        raise failure(news)


@recovery.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def pack(folder: Path) -> None:
    """Write chordal.zip and job.py into DIR, for spark-submit.

    Other ways to a cluster need no such files: with --master the command hands chordal to the
    executors itself.
    """
    from spark.runtime.package import write_job

    archive, job = write_job(folder)
    click.echo(
        f"spark-submit --py-files {archive} {job} recovery sweep --out DIR\n"
        "is how to use them, with your own --master and options of spark-submit before --py-files"
    )


def _require_extra() -> None:
    if any(find_spec(name) is None for name in _EXTRA):
        raise MissingExtra(
            "this command needs the analysis extra; in a checkout: pip install '.[analysis]'"
        )
