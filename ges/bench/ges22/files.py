"""What is saved: all figures as JSON, and one row of CSV for each cell and measuring subscriber."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ges.bench.ges22.experiment import Results
from ges.bench.ges22.paper import Stated, stated
from ges.bench.ges22.plan import Cell
from ges.bench.ges22.samples import Sample


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One subscriber in one cell, and what the paper states of it."""

    topology: str
    broker: int
    match: int
    size: int
    rate: float
    is_half: bool
    published_per_s: float
    hops: int | None
    hops_stated: int
    received: int
    expected: int
    mean_ms: float | None
    variance_ms2: float | None
    lowest_ms: float | None
    median_ms: float | None
    p99_ms: float | None
    highest_ms: float | None
    received_per_s: float | None
    paper_mean_ms: float | None
    paper_variance_ms2: float | None
    paper_received_per_s: float | None


def rows(results: Results) -> Iterator[Row]:
    """Yield the rows of one topology."""
    hops = results.topology.stated_hops
    for played in results.played:
        cell = played.cell
        for sample in played.samples:
            said = stated(cell.match, cell.size, cell.rate, hops[sample.broker])
            per_s = played.published_per_s
            yield _row(results, cell, sample, said, per_s, hops[sample.broker])


def _row(
    results: Results, cell: Cell, sample: Sample, said: Stated, per_s: float, hops: int
) -> Row:
    return Row(
        topology=results.topology.value,
        broker=sample.broker,
        match=cell.match,
        size=cell.size,
        rate=cell.rate,
        is_half=cell.is_half,
        published_per_s=per_s,
        hops=sample.usual_hops,
        hops_stated=hops,
        received=sample.received,
        expected=sample.expected,
        mean_ms=sample.mean_ms,
        variance_ms2=sample.variance_ms2,
        lowest_ms=sample.lowest_ms,
        median_ms=sample.median_ms,
        p99_ms=sample.p99_ms,
        highest_ms=sample.highest_ms,
        received_per_s=sample.received_per_s,
        paper_mean_ms=said.mean_ms,
        paper_variance_ms2=said.variance_ms2,
        paper_received_per_s=said.received_per_s,
    )


def save(found: Sequence[Results], folder: Path) -> list[Path]:
    """Write ``ges22.json`` and ``ges22.csv``; returns their paths."""
    as_json, as_csv = folder / "ges22.json", folder / "ges22.csv"
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    with as_csv.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__struct_fields__)
        for results in found:
            writer.writerows(msgspec.structs.astuple(row) for row in rows(results))
    return [as_json, as_csv]
