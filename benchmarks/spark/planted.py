"""Data sets whose answers are known, drawn fast and written as they would be by a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


def write(directory: Path, incidents: int) -> None:
    """Write a data set of so many incidents, in runs of a thousand, of two settings."""
    runs = list(_runs(max(1, incidents // PER_RUN)))
    folder = directory / "runs"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(runs, arrow_schema(Run)), folder / "all.parquet")
    (directory / "incidents").mkdir()
    per_file = ROWS_PER_FILE // PER_RUN
    random = np.random.default_rng(1)
    for at in range(0, len(runs), per_file):
        tables = [_incidents(random, run) for run in runs[at : at + per_file]]
        pq.write_table(pa.concat_tables(tables), directory / "incidents" / f"{at:06}.parquet")


def _runs(count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        setting = SETTINGS[number % len(SETTINGS)]
        n = SIZES[number // len(SETTINGS) % len(SIZES)]
        seed = number // len(SETTINGS) // len(SIZES) + 1
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


def _incidents(random: np.random.Generator, run: Mapping[str, object]) -> pa.Table:
    n = float(str(run["nodes"]))
    slower = 1.0 if "rank" in str(run["parameters"]) else 1.4
    luck = random.lognormal(0, 0.04)
    failed = np.sort(random.uniform(1, SECONDS - 20, PER_RUN))
    suspected = failed + luck * random.lognormal(np.log(2.3), 0.1, PER_RUN)
    confirmed = suspected + random.lognormal(np.log(0.2), 0.25, PER_RUN)
    repair = slower * luck * (0.3 + 0.1 * np.log2(n))
    repaired = confirmed + repair * random.lognormal(0, 0.25, PER_RUN)
    chords = repaired + random.lognormal(0, 0.25, PER_RUN)
    is_open = random.random(PER_RUN) < OPEN_SHARE
    numbers = np.arange(PER_RUN)
    uids = [f"u{number}" for number in numbers]
    columns = {
        "schema_version": np.full(PER_RUN, SCHEMA_VERSION),
        "run_id": [run["run_id"]] * PER_RUN,
        "incident_id": [f"{uid}/1" for uid in uids],
        "verdict": ["broker_failed"] * PER_RUN,
        "subject": uids,
        "subject_ring_id": numbers,
        "observer": pa.nulls(PER_RUN, pa.string()),
        "n": np.full(PER_RUN, int(n)),
        "degree": np.full(PER_RUN, 8),
        "failed_ns": _nanos(failed),
        "suspected_ns": _nanos(suspected),
        "confirmed_ns": _nanos(confirmed),
        "repaired_ns": pa.array(_nanos(repaired), mask=is_open),
        "chords_repaired_ns": pa.array(_nanos(chords), mask=is_open),
        "messages": np.round(random.lognormal(np.log(20 + 6 * np.log2(n)), 0.1, PER_RUN)).astype(
            np.int64
        ),
        "witnesses": [["w"]] * PER_RUN,
    }
    schema = arrow_schema(Incident)
    return pa.table({name: columns[name] for name in Incident.__struct_fields__}, schema=schema)


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
