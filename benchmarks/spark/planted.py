"""Data sets whose answers are known, drawn fast and written as they would be by a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overlay.ids import NANOS_PER_SECOND
from overlay.trace_schema import SCHEMA_VERSION, Incident, Run
from sims.dataset import arrow_schema

Reals = NDArray[np.float64]

SIZES = (64, 256, 1024, 4096, 16384)
SETTINGS = ("rank", "none")
PER_RUN = 1000  #: incidents
SECONDS = 3600.0
ROWS_PER_FILE = 500_000
OPEN_SHARE = 0.01

LAWS: Mapping[str, Callable[[Reals], Reals]] = {
    "constant": lambda n: 0 * n,
    "log n": np.log2,
    "log² n": lambda n: np.log2(n) ** 2,
    "sqrt n": np.sqrt,
    "n": lambda n: n,
}


def write(
    directory: Path,
    incidents: int,
    *,
    per_run: int = PER_RUN,
    settings: Sequence[str] = SETTINGS,
    apart: bool = False,
) -> None:
    """Write a data set of so many incidents.

    Args:
        directory: The data set.
        incidents: All of them.
        per_run: Incidents of a run.
        settings: The runs take turns with these, and then with sizes.
        apart: Write files of each run, as a sweep does, and not a few large ones.
    """
    runs = list(_runs(max(1, incidents // per_run), settings))
    folders = directory / "runs", directory / "incidents"
    for folder in folders:
        folder.mkdir(parents=True)
    at_once = 1 if apart else ROWS_PER_FILE // per_run
    random = np.random.default_rng(1)
    for at in range(0, len(runs), at_once):
        some = runs[at : at + at_once]
        name = f"{some[0]['run_id'] if apart else f'{at:06}'}.parquet"
        tables = [_incidents(random, run, per_run) for run in some]
        pq.write_table(pa.Table.from_pylist(some, arrow_schema(Run)), folders[0] / name)
        pq.write_table(pa.concat_tables(tables), folders[1] / name)


def _runs(count: int, settings: Sequence[str]) -> Iterator[dict[str, object]]:
    for number in range(count):
        setting = settings[number % len(settings)]
        n = SIZES[number // len(settings) % len(SIZES)]
        seed = number // len(settings) // len(SIZES) + 1
        yield {
            "schema_version": SCHEMA_VERSION,
            "run_id": f"crash-n{n}-s{seed}-{setting}",
            "source": "simulator",
            "scenario": "crash",
            "nodes": n,
            "seed": seed,
            "profile": "lan",
            "version": "0.1.0",
            "started_unix_ns": None,
            "duration_ns": int(SECONDS * NANOS_PER_SECOND),
            "parameters": msgspec.json.encode({"chords": setting}).decode(),
        }


def _incidents(random: np.random.Generator, run: Mapping[str, object], per_run: int) -> pa.Table:
    n = float(str(run["nodes"]))
    slower = 1.0 if "rank" in str(run["parameters"]) else 1.4
    luck = random.lognormal(0, 0.04)
    failed = np.sort(random.uniform(1, SECONDS - 20, per_run))
    suspected = failed + luck * random.lognormal(np.log(2.3), 0.1, per_run)
    confirmed = suspected + random.lognormal(np.log(0.2), 0.25, per_run)
    repair = slower * luck * (0.3 + 0.1 * np.log2(n))
    repaired = confirmed + repair * random.lognormal(0, 0.25, per_run)
    chords = repaired + random.lognormal(0, 0.25, per_run)
    is_open = random.random(per_run) < OPEN_SHARE
    numbers = np.arange(per_run)
    uids = [f"u{number}" for number in numbers]
    columns = {
        "schema_version": np.full(per_run, SCHEMA_VERSION),
        "run_id": [run["run_id"]] * per_run,
        "incident_id": [f"{uid}/1" for uid in uids],
        "verdict": ["broker_failed"] * per_run,
        "subject": uids,
        "subject_ring_id": numbers,
        "observer": pa.nulls(per_run, pa.string()),
        "n": np.full(per_run, int(n)),
        "degree": np.full(per_run, 8),
        "failed_ns": _nanos(failed),
        "suspected_ns": _nanos(suspected),
        "confirmed_ns": _nanos(confirmed),
        "repaired_ns": pa.array(_nanos(repaired), mask=is_open),
        "chords_repaired_ns": pa.array(_nanos(chords), mask=is_open),
        "messages": np.round(random.lognormal(np.log(20 + 6 * np.log2(n)), 0.1, per_run)).astype(
            np.int64
        ),
        "witnesses": [["w"]] * per_run,
    }
    # Levels of units and records are not planted: these columns are empty.
    return pa.table(
        {f.name: columns.get(f.name, pa.nulls(per_run, f.type)) for f in arrow_schema(Incident)},
        schema=arrow_schema(Incident),
    )


def _nanos(seconds: Reals) -> NDArray[np.int64]:
    return (seconds * NANOS_PER_SECOND).astype(np.int64)


def law_cells(
    random: np.random.Generator,
    law: str,
    sizes: tuple[int, ...],
    *,
    seeds: int,
    incidents: int,
    rise: float,
    noise: float,
    luck: float,
) -> Iterator[tuple[int, int, Reals]]:
    """Yield size, seed and the seconds of its incidents, where these follow a law.

    Args:
        random: decides all that is drawn.
        law: of :data:`LAWS`.
        sizes: of rings.
        seeds: of each size.
        incidents: of each seed.
        rise: from the smallest size to the largest, as a share of the former.
        noise: standard deviation of the logarithm of one incident's time.
        luck: the same of what the incidents of one seed have in common.
    """
    n = np.array(sizes, dtype=np.float64)
    shape = LAWS[law](n) - LAWS[law](n)[0]
    means = 1 + rise * shape / max(shape[-1], 1e-9)
    for size, mean in zip(sizes, means, strict=True):
        for seed in range(seeds):
            common = mean * random.lognormal(0, luck)
            yield size, seed, common * random.lognormal(0, noise, incidents)
