"""Rows of data sets, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from overlay.trace_schema import Incident, Run, Source
from sims import dataset
from sims.scenarios.results import RunResult
from spark.sweep.cells import Cell
from tests.helpers import rows

S = rows.SECOND


def run(run_id: str = "r1", **changes: object) -> Run:
    """Return a simulated run of 64 brokers, with ``changes``."""
    row = rows.run(run_id=run_id, nodes=64, version="0.1.0", duration_ns=100 * S)
    return msgspec.structs.replace(row, **changes)


def incident(run_id: str = "r1", number: int = 1, **changes: object) -> Incident:
    """Return a failure that was repaired in 1 + 2 + 3 seconds, with ``changes``."""
    row = rows.incident(
        run_id=run_id,
        incident_id=f"u{number}/1",
        subject=f"u{number}",
        subject_ring_id=number,
        n=64,
        degree=8,
        confirmed_ns=13 * S,
        repaired_ns=16 * S,
        chords_repaired_ns=20 * S,
        messages=12,
        witnesses=("w1", "w2"),
    )
    return msgspec.structs.replace(row, **changes)


def recovered(run_id: str, number: int, seconds: float, messages: int = 12) -> Incident:
    """Return a failure that was repaired within ``seconds``, all of them spent on detection."""
    end = round((10 + seconds) * S)
    return incident(
        run_id,
        number,
        suspected_ns=end,
        confirmed_ns=end,
        repaired_ns=end,
        chords_repaired_ns=end,
        messages=messages,
    )


def write_parquet(directory: Path, row: Run, incidents: Sequence[Incident] = ()) -> None:
    """Add a run to a data set as the simulator does."""
    dataset.write(RunResult(row, tuple(incidents), 0), directory)


def write_json(directory: Path, row: Run, incidents: Sequence[Incident] = ()) -> None:
    """Add a run to a data set as a live broker does."""
    lines = msgspec.json.Encoder().encode_lines
    for folder, written in ((dataset.RUNS, [row]), (dataset.INCIDENTS, incidents)):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        (directory / folder / f"{row.run_id}.jsonl").write_bytes(lines(written))


def simulated(cell: Cell) -> RunResult:
    """Stand in for the simulator: a broker fails for each ten, and repair takes log2 n seconds."""
    failures = max(1, cell.nodes // 10)
    seconds = cell.nodes.bit_length() - 1
    row = run(cell.run_id, nodes=cell.nodes, seed=cell.run.seed)
    incidents = tuple(recovered(cell.run_id, number, seconds) for number in range(failures))
    return RunResult(row, incidents, 0)


STARTED_UNIX_NS = 1_790_000_000 * S  #: when the brokers of ``live_run`` started


def live_run(run_id: str = "live-a", **changes: object) -> Run:
    """Return the run of a live broker, with ``changes``."""
    told: dict[str, object] = {"scenario": "live", "nodes": None, "seed": None}
    started = {"started_unix_ns": STARTED_UNIX_NS, "duration_ns": None, "parameters": "{}"}
    return run(run_id, source=Source.LIVE, **told, **started, **changes)


def seen_live(run_id: str, number: int, **changes: object) -> Incident:
    """Return a failure as a broker saw it, who knows no time of death: repaired in 5 seconds."""
    told = {"failed_ns": None, "n": None, "degree": None, "observer": "o"}
    return incident(run_id, number, **{**told, **changes})


def line(row: Run | Incident) -> bytes:
    """Return what a live broker writes."""
    return msgspec.json.encode(row) + b"\n"
