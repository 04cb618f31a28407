"""``chordal recovery``: sweep experiments, analyse how fast rings recover.

What these commands need is an extra and heavy, so it is imported inside them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
import msgspec

from overlay.wording import counted
from spark.errors import MissingExtra, SweepFailed

_EXTRA = ("matplotlib", "numpy", "pandas", "pyarrow", "pyspark")

_master = click.option(
    "--master",
    metavar="URL",
    help="Spark master or Spark Connect URL.  [default: the cores of this machine]",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")


def _numbers(
    context: click.Context, option: click.Parameter, value: str | None
) -> list[int] | None:
    """Read whole numbers that commas separate."""
    if value is None:
        return None
    try:
        return [int(part) for part in value.split(",")]
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
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="The data set."
)
@click.option(
    "--nodes", metavar="N,N,...", callback=_numbers, help="Sizes of rings.  [default: 64,256,1024]"
)
@click.option(
    "--seeds",
    metavar="N or N,N,...",
    callback=_numbers,
    help="One number: that many seeds. A list: these seeds.  [default: 5]",
)
@click.option("--crash-share", type=float, help="Share of the brokers that crash.")
@click.option("--profile", help="Timing profile of the brokers: local, lan or wan.  [default: lan]")
@_master
@_json
def sweep(
    grid: Path | None,
    out: Path,
    nodes: list[int] | None,
    seeds: list[int] | None,
    crash_share: float | None,
    profile: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Simulate a grid of experiments into the data set DIR.

    GRID is a TOML file; options override its keys. A sweep that was interrupted goes on where it
    was when it is started again.
    """
    _require_extra()
    from spark import progress
    from spark.runtime.session import open_session
    from spark.sweep.grid import cells, read_grid
    from spark.sweep.run import FAILED_FILE, Outcome, plan
    from spark.sweep.run import sweep as run_sweep

    options = {
        "nodes": nodes,
        "seeds": seeds[0] if seeds is not None and len(seeds) == 1 else seeds,
        "crash_share": crash_share,
        "profile": profile,
    }
    given = {key: value for key, value in options.items() if value is not None}
    todo = plan(out, cells({**(read_grid(grid) if grid else {}), **given}))
    outcomes: tuple[Outcome, ...] = ()
    if todo.cells:
        bar = progress.bar("cells", lambda: todo.finished, len(todo.cells))
        with open_session(master) as spark, bar:
            outcomes = run_sweep(spark, todo)
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    done = len(outcomes) - len(failed)
    if as_json:
        summary = {
            "out": str(todo.directory),
            "done": done,
            "skipped": todo.skipped,
            "failed": [{"run_id": cell.run_id, "error": cell.error} for cell in failed],
        }
        click.echo(msgspec.json.encode(summary).decode())
    else:
        for cell in failed:
            first_line, *_ = str(cell.error).splitlines()
            click.echo(f"failed: {cell.run_id}: {first_line}")
        click.echo(f"{counted(done, 'run')} done, {todo.skipped} there already: {out}")
    if failed:
        raise SweepFailed(
            f"{len(failed)} of {len(outcomes)} cells failed; {out / FAILED_FILE} says how. "
            "Run the same sweep again to retry them"
        )


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
    from spark.dataset.files import check_dataset
    from spark.dataset.load import is_url, load, load_url, of_scenarios
    from spark.report.folder import check_place, write_report
    from spark.report.pages import headline
    from spark.runtime.session import open_session

    check_place(out)
    with progress.spinner(f"analysing {data}"):
        files = None if is_url(data) else check_dataset(Path(data), skip_broken=skip_broken)
        with open_session(master, memory="4g") as spark:
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


def _require_extra() -> None:
    if any(find_spec(name) is None for name in _EXTRA):
        raise MissingExtra(
            "this command needs the analysis extra; in a checkout: pip install '.[analysis]'"
        )
