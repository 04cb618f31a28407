"""The report: a folder that is put in place whole, or not at all.

A folder that is there already stays the same one, as a shell may stand in it, or a disk be mounted
there: its files are replaced one by one when all are written, the page last.

============================  =====================================================
``index.html``                the report, plots inside, for a browser
``report.md``                 the same in Markdown, without plots
``quantiles.csv``             every measure at every size
``fits.csv``                  every fit, with its measure's verdict
``survival.csv`` and others   what else the analysis found, table by table
``*.parquet``                 the same tables, each a single small file
============================  =====================================================
"""

from __future__ import annotations

import csv
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sims.dataset import arrow_schema
from spark.analysis.analysis import Analysis
from spark.analysis.delivery import Delivery, Interruption
from spark.analysis.results import (
    Churn,
    Comparison,
    Fit,
    Level,
    Outlier,
    Quantiles,
    Records,
    Survival,
)
from spark.errors import ReportError
from spark.report import pages

INDEX = "index.html"
MARKDOWN = "report.md"
#: Tables that are written as they are; that of the fits has its verdicts as well.
TABLES: dict[str, type[msgspec.Struct]] = {
    "quantiles": Quantiles,
    "survival": Survival,
    "churn": Churn,
    "levels": Level,
    "records": Records,
    "delivery": Delivery,
    "interruptions": Interruption,
    "comparisons": Comparison,
    "outliers": Outlier,
}
FILES = (
    INDEX,
    MARKDOWN,
    *(f"{name}.{kind}" for name in ("fits", *TABLES) for kind in ("csv", "parquet")),
)
_UNFINISHED = ".chordal-report-"
#: Each earlier chordal wrote these, and perhaps some more of them.
_FORMER_FILES = {INDEX, MARKDOWN, "quantiles.csv", "quantiles.parquet", "fits.csv", "fits.parquet"}


def check_place(directory: Path) -> None:
    """Check that a report can be put at ``directory``.

    The folders above it are made, to fail before a long analysis and not after it.

    Raises:
        ReportError: Something else is there, or nothing can be written there; an earlier report
            may be replaced, nothing more.
    """
    if directory.is_dir():
        there = {path.name for path in directory.iterdir() if not _is_unfinished(path.name)}
        if there and not (_FORMER_FILES <= there <= set(FILES)):
            raise ReportError(f"{directory} holds other things than a report: name another folder")
    elif directory.exists():
        raise ReportError(f"{directory} is a file: name a folder for the report")
    probe = _fresh(directory)
    try:
        probe.mkdir(parents=True)
        if not directory.is_dir():
            probe.rename(directory)
            probe = directory
        probe.rmdir()
    except OSError as error:
        raise _unwritable(directory, error) from error


def write_report(analysis: Analysis, directory: Path, command: str = "") -> Path:
    """Write the report of ``analysis`` to ``directory`` and return the path of its page.

    ``command`` is the line that asked for it.

    Raises:
        ReportError: Something else is there, or it cannot be written.
    """
    check_place(directory)
    place = directory.resolve()
    fresh = _fresh(directory)
    try:
        fresh.mkdir(parents=True)
        _fill(analysis, fresh, command)
        if place.is_dir():
            for name in (*(name for name in FILES if name != INDEX), INDEX):
                os.replace(fresh / name, place / name)
        else:
            fresh.rename(place)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    for left in place.iterdir():
        if _is_unfinished(left.name):  # by one that was killed
            shutil.rmtree(left, ignore_errors=True)
    return place / INDEX


def _fresh(directory: Path) -> Path:
    """Return a name that nothing has: in ``directory`` if it is there, or else beside it."""
    place = directory.resolve()
    name = f"{_UNFINISHED}{secrets.token_hex(4)}"
    return place / name if place.is_dir() else place.with_name(name)


def _is_unfinished(name: str) -> bool:
    return name.startswith(_UNFINISHED)


def _unwritable(directory: Path, error: OSError) -> ReportError:
    return ReportError(f"{directory} cannot be written: {error.strerror or error}")


def _fill(analysis: Analysis, directory: Path, command: str) -> None:
    blocks = pages.outline(analysis, command)
    (directory / INDEX).write_text(pages.page(blocks), encoding="utf-8")
    (directory / MARKDOWN).write_text(pages.markdown(blocks), encoding="utf-8")
    verdicts = {(v.group, v.measure, v.quantile): v for v in analysis.verdicts}
    fits = []
    for fit in analysis.fits:
        verdict = verdicts[fit.group, fit.measure, fit.quantile]
        said = {"growth": verdict.growth.value, "verdict": verdict.words}
        fits.append({**msgspec.to_builtins(fit), **said})
    said_fields = [pa.field("growth", pa.string()), pa.field("verdict", pa.string())]
    _write_table(directory / "fits", pa.schema([*arrow_schema(Fit), *said_fields]), fits)
    for name, record in TABLES.items():
        rows = [msgspec.to_builtins(row) for row in getattr(analysis, name)]
        _write_table(directory / name, arrow_schema(record), rows)


def _write_table(stem: Path, schema: pa.Schema, rows: Sequence[dict[str, object]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), stem.with_suffix(".parquet"))
    with stem.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, schema.names)
        writer.writeheader()
        writer.writerows(rows)
