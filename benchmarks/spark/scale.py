"""Time and memory of the whole analysis, over the size of the data; and its core beside DuckDB.

    python -m benchmarks.spark.scale --rows 100000,1000000,10000000
    python -m benchmarks.spark.scale --rows 100000 --files 180,10000 --cells 1000

Each size is analysed by the command, in a process of its own, as a user would. Memory is that of
all its processes together, the JVM with them. Whether the cost is linear is judged by the seconds
of all cores, which other work on the machine does not change much. Data sets of many small files,
as a sweep leaves them, and of many cells are analysed as well.

Then the quantiles of all measures in all cells are computed by Spark and by DuckDB from the same
files, one after the other; that their answers are the same is checked.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.arguments import at_least, listed
from benchmarks.report import Bars
from benchmarks.spark.planted import SIZES, write
from overlay.trace_schema import PHASES
from spark.analysis import growth
from spark.analysis.groups import Group
from spark.analysis.judging import judge
from spark.analysis.quantiles import buckets, cell_quantiles, counts
from spark.analysis.recovery import MEASURES, keyed_runs, measured
from spark.analysis.replicates import REPLICATES
from spark.dataset.files import check_dataset
from spark.dataset.load import load
from spark.runtime.session import open_session

MAX_SECONDS = 300.0  #: for the largest data set of the default
LARGEST = 10_000_000
MAX_GIB = 8.0
LINEAR = 1.5  #: ten times the rows may take so many times ten times as long
#: Rows -> at most so many seconds of cores: 0.45 of what they took before rows were read once.
MAX_CORE_SECONDS = {100_000: 22.0, 1_000_000: 33.0}
PER_SMALL_RUN = 50  #: incidents
FEW_FILES = 180
MAX_FEW_FILES_S = 30.0  #: of cores
MAX_LOOKING_S = 20.0
MAX_FITS_S = 3.0  #: of 1,000 cells
SAMPLE_S = 0.25
GIB = 2**30
NEVER = 1e18  #: nanoseconds: a quantile that is not reached

Key = tuple[str, int, str]  #: parameters, size, measure


def main() -> int:
    """Measure all sizes, and print what they took."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.scale", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--rows", type=listed(at_least(10_000)), default=[100_000, 1_000_000, LARGEST]
    )
    parser.add_argument("--files", type=listed(at_least(20)), default=[180], help="small ones")
    parser.add_argument("--cells", type=listed(at_least(10)), default=[], help="of three seeds")
    arguments = parser.parse_args()
    bars = Bars()
    took: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory(prefix="chordal-scale-") as folder:
        for rows in sorted(arguments.rows):
            directory = Path(folder) / str(rows)
            write(directory, rows)
            seconds, cores, memory = analyse(directory, Path(folder) / f"report-{rows}")
            took.append((rows, cores))
            used = f"{seconds:.1f} s, {cores:.1f} s of cores, {memory / GIB:.2f} GiB"
            bars.note(f"{rows:>10,} incidents: {used}")
            bars.at_most("scale", f"GiB for {rows:,} incidents", memory / GIB, MAX_GIB)
            if rows in MAX_CORE_SECONDS:
                most = MAX_CORE_SECONDS[rows]
                bars.at_most("scale", f"s of cores for {rows:,} incidents", cores, most)
            if rows == LARGEST:
                bars.at_most("scale", f"seconds for {rows:,} incidents", seconds, MAX_SECONDS)
        for (fewer, before), (more, after) in pairwise(took):
            growth = (after / before) / (more / fewer)
            bars.at_most("scale", f"cost of {more:,} over that of {fewer:,}, a row", growth, LINEAR)
        for files in arguments.files:
            many_files(bars, Path(folder), files)
        for cells in arguments.cells:
            many_cells(bars, Path(folder), cells)
        beside_duckdb(bars, Path(folder) / str(max(arguments.rows)))
    return bars.exit_code


def many_files(bars: Bars, folder: Path, files: int) -> None:
    """Analyse a data set of a file for each run, and say how long looking at them took."""
    directory = folder / f"files-{files}"
    write(directory, files * PER_SMALL_RUN, per_run=PER_SMALL_RUN, apart=True)
    start = time.monotonic()
    check_dataset(directory)
    looked = time.monotonic() - start
    seconds, cores, memory = analyse(directory, folder / f"report-files-{files}")
    used = f"{seconds:.1f} s, {cores:.1f} s of cores, {memory / GIB:.2f} GiB"
    bars.note(f"{files:,} runs of {PER_SMALL_RUN} incidents in files of their own: {used}")
    bars.at_most("scale", f"seconds to look at {files:,} runs", looked, MAX_LOOKING_S)
    if files == FEW_FILES:
        bars.at_most("scale", f"s of cores for {files} small runs", cores, MAX_FEW_FILES_S)


def many_cells(bars: Bars, folder: Path, cells: int) -> None:
    """Analyse a data set of many settings, with three seeds of each at each size."""
    directory = folder / f"cells-{cells}"
    settings = tuple(f"setting{number:04}" for number in range(-(-cells // len(SIZES))))
    runs = 3 * len(settings) * len(SIZES)
    write(directory, runs * PER_SMALL_RUN, per_run=PER_SMALL_RUN, settings=settings)
    seconds, cores, memory = analyse(directory, folder / f"report-cells-{cells}")
    used = f"{seconds:.1f} s, {cores:.1f} s of cores, {memory / GIB:.2f} GiB"
    bars.note(f"{len(settings) * len(SIZES):,} cells of {runs:,} runs: {used}")
    took = fits(len(settings))
    bars.at_most("scale", f"s of cores for laws of {cells:,} cells", took, MAX_FITS_S)


def fits(groups: int) -> float:
    """Fit the laws to each measure of so many groups, and return the seconds of cores."""
    random = np.random.default_rng(1)
    group = Group(source="simulator", scenario="crash", profile="lan", parameters="{}")
    series = [
        growth.Series(
            group=group,
            measure=measure,
            quantile=quantile,
            sizes=np.array(SIZES, dtype=np.float64),
            values=random.lognormal(0, 0.1, len(SIZES)),
            draws=tuple(random.lognormal(0, 0.1, (len(SIZES), REPLICATES))),
        )
        for _ in range(groups)
        for measure in MEASURES
        for quantile in growth.FITTED
    ]
    start = time.process_time()
    for each in series:
        judge(growth.rise(each), growth.fits(each))
    return time.process_time() - start


def analyse(directory: Path, report: Path) -> tuple[float, float, int]:
    """Run the command on a data set.

    Returns its seconds, those of all cores, and the most bytes of its processes together.
    """
    command = [sys.executable, "-c", "from ges.cli.main import main; main()"]
    start, before = time.monotonic(), cores_of_children()
    running = subprocess.Popen(
        [*command, "recovery", "analyze", str(directory), "--out", str(report)],
        stdout=subprocess.DEVNULL,
    )
    most = [0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_S):
            most[0] = max(most[0], sum(map(resident, family(running.pid))))

    sampler = threading.Thread(target=sample)
    sampler.start()
    code = running.wait()
    done.set()
    sampler.join()
    if code:
        raise SystemExit(f"the analysis of {directory} failed with exit code {code}")
    return time.monotonic() - start, cores_of_children() - before, most[0]


def cores_of_children() -> float:
    """Return the seconds that cores have spent on processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def family(pid: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    found = [pid]
    for each in found:
        try:
            tasks = list(Path(f"/proc/{each}/task").iterdir())
            for task in tasks:
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it has ended meanwhile
    return found


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def beside_duckdb(bars: Bars, directory: Path) -> None:
    """Compute the quantiles with both, compare, and print the ratio as it is."""
    with open_session() as spark:
        data = load(spark, check_dataset(directory))
        data.runs.count()  # what starting costs is no part of this
        start = time.monotonic()
        rows = measured(data.incidents, keyed_runs(data.runs))
        found = cell_quantiles(rows, counts(buckets(rows)))
        ours = time.monotonic() - start
    start = time.monotonic()
    theirs = duckdb_quantiles(directory)
    other = time.monotonic() - start
    mine = sorted(
        (r.size, r.measure, r.p50 or NEVER, r.p95 or NEVER, r.p99 or NEVER)
        for r in found
        if r.measure in PHASES
    )
    same = len(mine) == len(theirs) and all(
        a[:2] == b[:2] and all(map(_alike, a[2:], b[2:])) for a, b in zip(mine, theirs, strict=True)
    )
    bars.judge("duckdb", f"{len(mine)} rows of quantiles are the same in both", met=same)
    bars.note(f"Spark {ours:.1f} s, DuckDB {other:.1f} s: a ratio of {ours / other:.1f}")


def _alike(ours: float, theirs: float) -> bool:
    """Say whether two quantiles are the same, or not reached by either."""
    return math.isclose(ours, theirs) or min(ours, theirs) > NEVER / 1e4


def duckdb_quantiles(directory: Path) -> list[tuple[int, str, float, float, float]]:
    """Return size, phase and quantiles of each cell, in nanoseconds, sorted.

    Open repairs were planted to be seen for longer than all that are over.
    """
    phases = ", ".join(
        f"coalesce({phase.end} - {phase.start}, {NEVER}) AS {name}"
        for name, phase in PHASES.items()
    )
    query = f"""
        WITH wide AS (
            SELECT r.parameters, r.nodes, {phases}
            FROM read_parquet('{directory}/incidents/*.parquet') i
            JOIN read_parquet('{directory}/runs/*.parquet') r USING (run_id)
            WHERE i.verdict = 'broker_failed'
        ), long AS (
            UNPIVOT wide ON {", ".join(PHASES)} INTO NAME measure VALUE value
        )
        SELECT nodes, measure, quantile_cont(value, 0.5), quantile_cont(value, 0.95),
               quantile_cont(value, 0.99)
        FROM long GROUP BY parameters, nodes, measure
    """
    with duckdb.connect() as connection:
        return sorted(connection.sql(query).fetchall())


if __name__ == "__main__":
    sys.exit(main())
