"""How often the analysis tells a planted law, and how often it names a wrong one.

    python -m benchmarks.spark.laws --sets 100

Each data set has nine sizes from 64 to 16,384, twenty seeds, thirty incidents each. The time of an
incident is drawn from a log-normal law: its noise is 25 %, and what the incidents of a seed have in
common is off by 4 %, as in simulated rings. From the smallest size to the largest the median
doubles. All data sets go through the analysis as groups of one frame.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.arguments import at_least, listed, one_of
from benchmarks.report import Bars
from benchmarks.spark.planted import LAWS, law_cells
from overlay.ids import NANOS_PER_SECOND
from spark.analysis import growth
from spark.analysis.groups import Group
from spark.analysis.judging import judge
from spark.analysis.quantiles import buckets, cell_quantiles
from spark.analysis.recovery import Measured
from spark.analysis.replicates import cells, drawn
from spark.analysis.results import Judgement
from spark.dataset.column_types import spark_schema
from spark.runtime.session import open_session

SIZES = tuple(2**power for power in range(6, 15))
SEEDS, INCIDENTS, RISE, NOISE, LUCK = 20, 30, 1.0, 0.25, 0.04
RIGHT, WRONG = 0.95, 0.02  #: shares of the data sets


def planted(laws: Mapping[int, str], seed: int) -> pa.Table:
    """Return rows of ``recovery.Measured``: for each key of ``laws``, a data set of that law."""
    parts = []
    for key, law in laws.items():
        random = np.random.default_rng((seed, key))
        drawn = law_cells(
            *(random, law, SIZES),
            seeds=SEEDS,
            incidents=INCIDENTS,
            rise=RISE,
            noise=NOISE,
            luck=LUCK,
        )
        for size, unit, seconds in drawn:
            count = len(seconds)
            parts.append(
                pa.table(
                    {
                        "group_key": np.full(count, key),
                        "size": np.full(count, size),
                        "unit": np.full(count, unit),
                        "measure": ["total"] * count,
                        "value": (seconds * NANOS_PER_SECOND).astype(np.int64),
                        "over": [True] * count,
                    }
                )
            )
    return pa.concat_tables(parts).combine_chunks()


def verdicts(spark: SparkSession, rows: pa.Table) -> dict[tuple[int, str], Judgement]:
    """Return what the analysis says of each data set, by its key and ``p50`` or ``p99``."""
    measured = spark.createDataFrame(rows, spark_schema(Measured)).persist()
    try:
        found = drawn(buckets(measured, "unit"), len(rows))
        exact = cell_quantiles(measured, {key: own.counts for key, own in found.items()})
        told = growth.series(cells(exact, found), {key: _group(key) for key, _, _ in found})
    finally:
        measured.unpersist()
    return {
        (int(each.group.scenario), each.quantile): judge(growth.rise(each), growth.fits(each))
        for each in told
    }


def _group(key: int) -> Group:
    return Group(source="simulator", scenario=str(key), profile="lan", parameters="{}")


def told_as(verdict: Judgement) -> str:
    """Return the law that a verdict names, or what it says instead."""
    named = verdict.models[0] if len(verdict.models) == 1 else ""
    return named if verdict.words.startswith("grows like") and named else verdict.growth.value


def main() -> int:
    """Plant the laws, and print what they were told for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.laws", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--sets", type=at_least(1), default=100, help="data sets of each law")
    parser.add_argument("--seed", type=at_least(0), default=1)
    parser.add_argument(
        "--laws", type=listed(one_of(LAWS)), default=list(LAWS), help="with commas between them"
    )
    arguments = parser.parse_args()
    keys = {
        number * arguments.sets + at: law
        for number, law in enumerate(arguments.laws)
        for at in range(arguments.sets)
    }
    with open_session() as spark:
        found = verdicts(spark, planted(keys, arguments.seed))
    bars = Bars()
    for law in arguments.laws:
        for quantile in ("p50", "p99"):
            told = Counter(told_as(found[k, quantile]) for k, own in keys.items() if own == law)
            right = told["flat" if law == "constant" else law]
            unsure = sum(told[word] for word in ("undecided", "unclear", "unexplained"))
            wrong = arguments.sets - right - unsure
            shares = ", ".join(f"{word} {count}" for word, count in told.most_common())
            bars.note(f"{law} ({quantile}): {shares}")
            if quantile == "p50":
                bars.at_least("laws", f"{law} told", right / arguments.sets, RIGHT)
                bars.at_most("laws", f"{law} told for another", wrong / arguments.sets, WRONG)
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
