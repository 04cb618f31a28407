"""The report: a folder that is put in place whole, or not at all.

============================  =====================================================
``index.html``                the report, plots inside, for a browser
``report.md``                 the same in Markdown, without plots
``quantiles.csv``             every measure at every size
``fits.csv``                  every fit, with its measure's verdict
``*.parquet``                 the same two tables, each a single small file
============================  =====================================================
"""

from __future__ import annotations

import csv
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sims.dataset import arrow_schema
from spark.analysis.recovery import MESSAGES, PHASES
from spark.analysis.results import Analysis, Fit, Group, Quantiles
from spark.errors import ReportError
from spark.report import pages, plots

INDEX = "index.html"
MARKDOWN = "report.md"
TABLES = ("quantiles", "fits")
FILES = (INDEX, MARKDOWN, *(f"{name}.{kind}" for name in TABLES for kind in ("csv", "parquet")))


def check_place(directory: Path) -> None:
    """Check that a report can be put at ``directory``.

    The folders above it are made, to fail before a long analysis and not after it.

    Raises:
        ReportError: Something else is there, or nothing can be written there; an earlier report
            may be replaced, nothing more.
    """
    if directory.is_dir():
        there = {path.name for path in directory.iterdir()}
        if there and there != set(FILES):
            raise ReportError(f"{directory} holds other things than a report: name another folder")
    elif directory.exists():
        raise ReportError(f"{directory} is a file: name a folder for the report")
    probe = _beside(directory, "probe")
    try:
        probe.mkdir(parents=True)
        probe.rmdir()
    except OSError as error:
        raise _unwritable(directory, error) from error


def write_report(analysis: Analysis, directory: Path) -> Path:
    """Write the report of ``analysis`` to ``directory`` and return the path of its page.

    Raises:
        ReportError: Something else is there, or it cannot be written.
    """
    check_place(directory)
    place = directory.resolve()
    fresh, former = _beside(directory, "new"), _beside(directory, "old")
    try:
        fresh.mkdir(parents=True)
        _fill(analysis, fresh)
        if place.exists():
            place.rename(former)
        fresh.rename(place)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(former, ignore_errors=True)
    return place / INDEX


def _beside(directory: Path, what: str) -> Path:
    """Return a name in the folder of ``directory`` that nothing has."""
    place = directory.resolve()
    return place.with_name(f".{place.name}-{secrets.token_hex(4)}-{what}")


def _unwritable(directory: Path, error: OSError) -> ReportError:
    return ReportError(f"{directory} cannot be written: {error.strerror or error}")


def _fill(analysis: Analysis, directory: Path) -> None:
    figures = {
        group: _figures(analysis, group, f"g{index}") for index, group in enumerate(analysis.groups)
    }
    (directory / INDEX).write_text(pages.to_html(analysis, figures), encoding="utf-8")
    (directory / MARKDOWN).write_text(pages.to_markdown(analysis), encoding="utf-8")
    verdicts = {(v.group, v.measure): v for v in analysis.verdicts}
    fits = [
        {
            **msgspec.to_builtins(fit),
            "growth": verdicts[fit.group, fit.measure].growth.value,
            "verdict": verdicts[fit.group, fit.measure].words,
        }
        for fit in analysis.fits
    ]
    said = [pa.field("growth", pa.string()), pa.field("verdict", pa.string())]
    quantiles = [msgspec.to_builtins(row) for row in analysis.quantiles]
    _write_table(directory / "quantiles", arrow_schema(Quantiles), quantiles)
    _write_table(directory / "fits", pa.schema([*arrow_schema(Fit), *said]), fits)


def _write_table(stem: Path, schema: pa.Schema, rows: Sequence[dict[str, object]]) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), stem.with_suffix(".parquet"))
    with stem.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, schema.names)
        writer.writeheader()
        writer.writerows(rows)


def _figures(analysis: Analysis, group: Group, name: str) -> list[pages.Figure]:
    """Draw what there is to draw: a measure without values, or of unknown size, has no plot."""
    rows: dict[str, list[Quantiles]] = {}
    for row in analysis.quantiles:
        if row.group == group and row.n is not None and row.count:
            rows.setdefault(row.measure, []).append(row)
    figures = []
    for measure, lines in (("total", ("p50", "p95", "p99")), (MESSAGES, ("p50", "p95", "mean"))):
        if measure in rows:
            fits = [f for f in analysis.fits if f.group == group and f.measure == measure]
            svg = plots.growth_plot(f"{name}-{measure}", rows[measure], fits, lines)
            caption = f"{measure}: {pages.MEANINGS[measure]}, with the three fits of the median."
            figures.append(pages.Figure(svg=svg, caption=caption))
    if phases := {phase: rows[phase] for phase in PHASES if phase in rows and phase != "total"}:
        svg = plots.phases_plot(f"{name}-phases", phases)
        caption = "The phases. Medians of phases do not add up to the median of their sum."
        figures.append(pages.Figure(svg=svg, caption=caption))
    curves = [
        c for c in analysis.curves if c.group == group and c.measure == "total" and c.n is not None
    ]
    if curves:
        svg = plots.distribution_plot(f"{name}-curves", curves)
        caption = "The share of incidents that had recovered within a time, for each size."
        figures.append(pages.Figure(svg=svg, caption=caption))
    return figures
