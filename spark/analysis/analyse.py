"""The analysis of a data set: Spark reduces it to a few small tables, and these are judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession

from overlay.trace_schema import Incident, Probe
from spark.analysis import (
    churn,
    comparison,
    delivery,
    growth,
    judging,
    levels,
    outliers,
    quantiles,
    survival,
)
from spark.analysis import recovery as measures
from spark.analysis.analysis import Analysis
from spark.analysis.frames import Row, collect, ordered, table
from spark.analysis.quantiles import CellQuantiles, Counts, Key
from spark.analysis.recovery import CURVE, GROUP, MEASURES, UNKNOWN
from spark.analysis.replay import command
from spark.analysis.replicates import BOOTSTRAPPED, Cell, Replicates, cells, drawn
from spark.analysis.results import (
    Comparison,
    Facts,
    Law,
    Outlier,
    Quantiles,
    Survival,
    Survived,
)
from spark.dataset.load import Dataset

_Named = TypeVar("_Named", bound=msgspec.Struct)


class _Keyed(Protocol):
    """A row that names its group by key."""

    @property
    def group_key(self) -> int: ...

    @property
    def __struct_fields__(self) -> tuple[str, ...]: ...


def analyse(spark: SparkSession, data: Dataset) -> Analysis:
    """Analyse a data set."""
    small = _reduced(data)
    told = growth.series(small.cells, small.runs.groups)
    rises = _sorted(map(growth.rise, told))
    fits = _sorted(fit for each in told for fit in growth.fits(each))
    return Analysis(
        facts=small.facts,
        counts=_sorted(measures.counts(small.runs, data.told[Incident])),
        quantiles=_sorted(_quantiles(small)),
        survival=_sorted(_survival(small)),
        survived=_sorted(small.row(Survived, row) for row in survival.summaries(small.steps)),
        fits=fits,
        verdicts=judging.judge_all(rises, fits),
        churn=_sorted(churn.churn(small.runs, small.holes, small.took)),
        delivery=_sorted(delivery.deliveries(small.runs, small.events, small.took)),
        interruptions=_sorted(delivery.interruptions(small.runs, small.took)),
        levels=_sorted(levels.by_level(small.runs, small.took)),
        records=_sorted(levels.records(small.runs, data.told[Incident])),
        comparisons=_comparisons(small),
        outliers=_outliers(spark, data, small),
        skipped=data.skipped,
    )


@dataclass(frozen=True, slots=True)
class _Small:
    """What the rows of a data set come down to."""

    runs: measures.Runs
    facts: Facts
    exact: Sequence[CellQuantiles]
    drawn: Mapping[Key, Replicates]
    cells: Sequence[Cell]
    steps: Sequence[survival.Step]
    events: Sequence[delivery.Events]
    holes: Sequence[churn.Hole]
    took: Mapping[Key, CellQuantiles]  #: of all else that lasts

    def row(self, record: type[_Named], keyed: _Keyed, **more: object) -> _Named:
        """Return a keyed row as one of ``record``: with the columns of its cell, and ``more``."""
        own: dict[str, object] = {name: getattr(keyed, name) for name in keyed.__struct_fields__}
        own |= {**self.runs.columns(keyed.group_key, getattr(keyed, "size", UNKNOWN)), **more}
        return record(**{name: own[name] for name in record.__struct_fields__})


def _reduced(data: Dataset) -> _Small:
    """Reduce the rows to small tables, each computed once."""
    runs = measures.runs_here(data.runs)
    facts = measures.facts(runs.rows, data.told[Incident])
    of_levels = levels.rows() if facts.in_units else []
    measured = measures.measured(data.incidents, runs.frame, with_curve=True, more=of_levels)
    every = drawn(quantiles.buckets(measured, "unit"), facts.incidents)
    counts = {key: own.counts for key, own in every.items() if key[2] != CURVE}
    found = {key: every[key] for key in counts if key[2] in MEASURES}
    holes = collect(churn.holes(data.incidents, runs.frame), churn.Hole)
    counts |= quantiles.counts_of(hole for hole in holes if hole.measure)
    parts = [measures.measured(data.incidents, runs.frame, more=of_levels)]
    if any(hole.measure for hole in holes):
        parts.append(churn.lasted(data.incidents, runs.frame))
    if data.probes:
        parts.append(delivery.took(delivery.keyed_probes(data.probes, runs.frame)))
        counts |= quantiles.counts(quantiles.buckets(parts[-1]))
    exact = _exact(parts, counts)
    own = [row for key, row in exact.items() if key in found]
    return _Small(
        runs=runs,
        facts=facts,
        exact=own,
        drawn=found,
        cells=cells(own, found),
        steps=survival.steps({key: own.counts for key, own in every.items() if key[2] == CURVE}),
        events=delivery.events(runs.rows, data.told[Probe]) if data.probes else (),
        holes=holes,
        took={key: row for key, row in exact.items() if key not in found},
    )


def _exact(parts: Sequence[DataFrame], known: Mapping[Key, Counts]) -> dict[Key, CellQuantiles]:
    """Return quantiles of rows that were counted; they are read once more, if at all."""
    found = quantiles.cell_quantiles(reduce(DataFrame.unionByName, parts), known)
    return {(row.group_key, row.size, row.measure): row for row in found}


def _quantiles(small: _Small) -> Iterable[Quantiles]:
    for cell in small.cells:
        known: dict[str, float | None] = {name: _reached(value) for name, value in cell.at.items()}
        for name in BOOTSTRAPPED:
            low, high = cell.ends(name)
            known |= {f"{name}_low": _reached(low), f"{name}_high": _reached(high)}
        yield small.row(Quantiles, cell, **known)


def _reached(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else float(value)


def _survival(small: _Small) -> Iterable[Survival]:
    for step in small.steps:
        low, high = survival.interval(step, small.drawn[survival.key_of(step)])
        yield small.row(Survival, step, low=low, high=high)


def _comparisons(small: _Small) -> tuple[Comparison, ...]:
    pairs = comparison.pairs(small.runs.groups.values())
    counts = {key: own.counts for key, own in small.drawn.items()}
    told = comparison.compare(pairs, small.runs.groups, small.cells, counts)
    keys = ("scenario", "setting", "profile", "measure", "quantile", "n", "base", "value")
    return ordered(told, *keys, "parameters")


def _outliers(spark: SparkSession, data: Dataset, small: _Small) -> tuple[Outlier, ...]:
    bounds = outliers.bounds(small.exact)
    if not bounds:
        return ()
    found = outliers.outliers(
        data.incidents, small.runs.frame, table(spark, outliers.Bound, bounds)
    )
    shown = []
    for row in collect(found, outliers.KeyedOutlier):
        group = small.runs.groups[row.group_key]
        shown.append(small.row(Outlier, row, command=command(group, row.size, row.seed)))
    return tuple(
        sorted(shown, key=lambda row: (row.repaired, -row.total_s, row.run_id, row.incident_id))
    )


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows sorted by group, measure, quantile and size."""
    laws = list(Law)

    def key(row: msgspec.Struct) -> tuple[object, ...]:
        measure, law, n = (getattr(row, name, None) for name in ("measure", "law", "n"))
        return (
            *(getattr(row, name, None) or "" for name in GROUP),
            MEASURES.index(measure) if measure else 0,
            getattr(row, "quantile", ""),
            -1 if n is None else n,
            laws.index(law) if law else 0,
            getattr(row, "after_s", 0.0),
            getattr(row, "level", 0),
            *(getattr(row, name, "") for name in ("link_class", "fault", "struck")),
        )

    return tuple(sorted(rows, key=key))
