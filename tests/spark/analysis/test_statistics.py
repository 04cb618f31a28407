"""The parts of the analysis on small frames, beside plain Python: what is awkward in numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from overlay.errors import InvariantError
from overlay.quantiles import quantile, quantile_with_open
from sims.dataset import arrow_schema
from spark.analysis import growth, replicates, survival
from spark.analysis.frames import expect
from spark.analysis.quantiles import QUANTILES, CellQuantiles, buckets, cell_quantiles, counts
from spark.analysis.ranks import Reals, errors_of, quantiles_of
from spark.analysis.recovery import CURVE, Measured
from spark.analysis.replicates import BOOTSTRAPPED, REPLICATES
from spark.analysis.results import Law
from spark.dataset.column_types import spark_schema
from tests.spark.cells import cell, drawn
from tests.spark.results import SIMULATED

pytestmark = pytest.mark.spark

_rng = random.Random(3)
S = 10**9
AWKWARD: dict[str, Sequence[int | None]] = {
    "single": [7],
    "pair": [1, 2 * S],
    "ties": [S] * 50 + [S + 1] * 50,
    "all the same": [3 * S] * 1000,
    "nulls": [None, 5, None, 9, 1, None],
    "nothing but nulls": [None, None],
    "negative": [-5 * S, -S, 0, 1, 2 * S, -1],
    "skewed": [round(S * _rng.paretovariate(0.6)) for _ in range(3000)],
    "two far ends": [1] * 500 + [2**53] * 500,
    "neighbours in one bucket": [10 * S + at for at in range(997)],
    "large": [2**62, 2**62 + 2**20, 2**61],
}


def frame(spark: SparkSession, groups: Mapping[str, Sequence[int | None]]) -> DataFrame:
    """Return rows of values; None: one that was never over."""
    rows = [
        {
            "group_key": key,
            "size": 64,
            "unit": at % 5,
            "measure": "total",
            "value": value,
            "over": value is not None,
        }
        for key, values in enumerate(groups.values())
        for at, value in enumerate(values)
    ]
    table = pa.Table.from_pylist(rows, arrow_schema(Measured))
    return spark.createDataFrame(table, spark_schema(Measured))


def found_in(measured: DataFrame) -> dict[int, CellQuantiles]:
    counted = counts(buckets(measured))
    return {row.group_key: row for row in cell_quantiles(measured, counted)}


def test_quantiles_of_awkward_values_are_those_of_numpy(spark: SparkSession) -> None:
    """What was never over is infinite: where numpy comes to it, the quantile is not reached."""
    found = found_in(frame(spark, AWKWARD))
    for key, (name, values) in enumerate(AWKWARD.items()):
        known = [math.inf if value is None else value for value in values]
        row = found[key]
        open_ones = sum(value is None for value in values)
        assert (row.count, row.open) == (len(known) - open_ones, open_ones), name
        got = [row.p50, row.p95, row.p99, row.p999, row.max]
        expected = [quantile(known, share) for share in (0.5, 0.95, 0.99, 0.999, 1.0)]
        if not open_ones:
            theirs = np.percentile(np.array(known, dtype=float), [50, 95, 99, 99.9, 100])
            assert got == pytest.approx(list(theirs), rel=1e-12), name
        assert got == [
            pytest.approx(value, rel=1e-12) if math.isfinite(value) else None for value in expected
        ], name


def test_open_ones_are_at_risk_for_as_long_as_they_were_seen(spark: SparkSession) -> None:
    rng = random.Random(8)
    rows = []
    both: list[dict[bool, list[float]]] = []
    for key in range(4):
        sides: dict[bool, list[float]] = {True: [], False: []}
        both.append(sides)
        for at in range(300):
            over = rng.random() > 0.2 * key
            seconds = rng.lognormvariate(0, 1) * (1 if over else 2)
            value = round(seconds * 1000) * 10**6
            own = {"group_key": key, "size": 64, "unit": at % 5, "measure": "total"}
            rows.append({**own, "value": value, "over": over})
            sides[over].append(value)
    table = pa.Table.from_pylist(rows, arrow_schema(Measured))
    found = found_in(spark.createDataFrame(table, spark_schema(Measured)))
    for key in range(4):
        ended, still = both[key][True], both[key][False]
        assert (found[key].mean is None) is bool(still)
        for name, share in QUANTILES.items():
            expected = quantile_with_open(ended, still, share)
            mine = getattr(found[key], name)
            if math.isinf(expected):
                assert mine is None
            else:
                # An open one is taken to be seen until its bucket is over, by half a per cent.
                assert mine == pytest.approx(expected, rel=0.05)


def test_buckets_never_fall_while_values_grow(spark: SparkSession) -> None:
    values = sorted(
        {
            sign * value
            for power in range(63)
            for value in (2**power, 2**power + 1, 3**power % 2**62)
            for sign in (1, -1)
        }
    )
    (own,) = counts(buckets(frame(spark, {"all": list(values)}))).values()
    ends = list(zip(own.least, own.most, strict=True))
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert all(most - least <= 0.012 * abs(most) + 1 for least, most in ends)


def test_two_seeds_with_an_incident_each_have_the_interval_between_them() -> None:
    own = cell([[1.0], [3.0]])
    assert own.at["p95"] == pytest.approx(2.9)
    assert own.ends("p95") == (1.0, 3.0)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("clusters", [2, 3, 20])
def test_no_interval_leaves_the_data(count: int, clusters: int) -> None:
    rng = random.Random(count)
    by_unit = [[rng.paretovariate(1) for _ in range(count)] for _ in range(clusters)]
    values = [value for unit in by_unit for value in unit]
    own = cell(by_unit)
    for name in BOOTSTRAPPED:
        low, high = own.ends(name)
        assert low is not None
        assert high is not None
        assert min(values) - 1e-9 <= low <= own.at[name] + 1e-9
        assert own.at[name] - 1e-9 <= high <= max(values) + 1e-9


def test_replicates_interpolate_as_the_estimate_does() -> None:
    values = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0]
    weights = np.array(
        [[1, 1, 1, 1, 1, 1], [3, 0, 0, 0, 0, 1], [0, 0, 9, 1, 0, 0], [2, 2, 2, 2, 2, 2]]
    ).astype(float)
    ends, none = np.array(values), np.zeros_like(weights)
    for share in (0.0, 0.5, 0.95, 0.99, 1.0):
        (found,) = quantiles_of(weights, none, ends, ends, share)
        for at, row in enumerate(weights):
            whole = [v for v, w in zip(values, row, strict=True) for _ in range(int(w))]
            assert found[at] == pytest.approx(quantile(whole, share))


def test_places_among_counts_are_those_of_the_definition() -> None:
    rng = random.Random(1)
    for number in range(300):
        values = sorted(rng.sample(range(1, 50), rng.randrange(1, 9)))
        over = [rng.choice([0, 1, 2, 3]) for _ in values]
        still = [rng.choice([0, 0, 1, 2]) if number % 3 else 0 for _ in values]
        never = rng.choice([0, 0, 3])
        if not sum(over) + sum(still) + never:
            continue
        ended = [v for v, c in zip(values, over, strict=True) for _ in range(c)]
        seen = [v for v, c in zip(values, still, strict=True) for _ in range(c)]
        ends = np.array([*values, 0], dtype=float)
        rows = (np.array([[*over, 0]], dtype=float), np.array([[*still, never]], dtype=float))
        for share in (0.0, 0.1, 0.5, 0.95, 0.99, 1.0):
            ((mine,),) = quantiles_of(*rows, ends, ends, share)
            expected = quantile_with_open(ended, [*seen, *[math.inf] * never], share)
            assert mine == expected or mine == pytest.approx(expected, abs=1e-6)


def test_intervals_cover_as_often_as_those_of_numpy() -> None:
    """Sixty planted cells of five seeds with three failures each."""
    random = np.random.default_rng(4)
    truth, hits, theirs = math.exp(0.0), 0, 0
    for _ in range(60):
        seeds = [list(luck * random.lognormal(0, 0.3, 3)) for luck in random.lognormal(0, 0.1, 5)]
        low, high = cell(seeds).ends("p50")
        assert low is not None
        assert high is not None
        hits += low <= truth <= high
        draws = [
            np.median(np.concatenate([seeds[at] for at in random.integers(0, 5, 5)]))
            for _ in range(500)
        ]
        low, high = np.percentile(draws, [2.5, 97.5])
        theirs += low <= truth <= high
    assert abs(hits - theirs) <= 2


def test_the_same_seeds_are_drawn_alike_and_one_seed_is_not_drawn_at_all() -> None:
    by_unit = [[float(1 + (unit * at) % 7) for at in range(7)] for unit in range(9)]
    first, again = (drawn(by_unit).draws["p50"].tolist() for _ in range(2))
    assert first == again
    assert len(first) == REPLICATES
    assert len(set(first)) > 3
    alone = drawn([[1.0, 2.0]])
    assert (alone.units, len(alone.draws["p50"])) == (1, 0)


def test_many_buckets_are_drawn_on_the_executors_alike(spark: SparkSession) -> None:
    values = {name: AWKWARD[name] for name in ("pair", "nulls", "nothing but nulls", "skewed")}
    counted = buckets(frame(spark, values), "unit")
    here, there = (replicates.drawn(counted, of) for of in (1, replicates.DRAWN_HERE + 1))
    assert here.keys() == there.keys()
    for key, own in here.items():
        other = there[key]
        assert (own.units, own.counts.numbers) == (other.units, other.counts.numbers)
        assert own.counts.total == pytest.approx(other.counts.total)
        for mine, theirs in (
            *((own.draws[name], other.draws[name]) for name in BOOTSTRAPPED),
            *((getattr(own, name), getattr(other, name)) for name in ("places", "errors")),
            *((getattr(own.counts, n), getattr(other.counts, n)) for n in ("over", "still")),
            *((getattr(own.counts, n), getattr(other.counts, n)) for n in ("least", "most")),
        ):
            np.testing.assert_allclose(mine, theirs)


def test_a_survival_curve_ends_at_what_was_seen_last(spark: SparkSession) -> None:
    """Two in one millisecond are one step; a time that nobody knows is at risk to the end."""
    own = [(1_200_000, True), (1_900_000, True), (3 * S, True), (4 * S, False), (None, False)]
    table = pa.Table.from_pylist(
        [
            {"group_key": 1, "size": 64, "unit": at, "measure": CURVE, "value": v, "over": over}
            for at, (v, over) in enumerate(own)
        ],
        arrow_schema(Measured),
    )
    counted = buckets(spark.createDataFrame(table, spark_schema(Measured)), "unit")
    (curve,) = (drawn.counts for drawn in replicates.drawn(counted, len(own)).values())
    steps = survival.steps({(1, 64, CURVE): curve})
    assert [step.after_s for step in steps] == [0.0019, 3.0, 4.0]
    assert [step.survival for step in steps] == pytest.approx([0.6, 0.4, 0.4])
    assert [step.at_risk for step in steps] == [5, 3, 2]
    assert (steps[0].failures, steps[0].censored) == (5, 2)
    assert survival.summaries(steps)[0].p50_s == 3.0


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_errors_of_a_curve_are_told_of_two_clusters_and_no_fewer(count: int) -> None:
    rng = np.random.default_rng(count)
    for clusters in (1, 2, 3):
        over, still = (rng.integers(0, 3, (clusters, count)).astype(float) for _ in range(2))
        found = errors_of(over, still)
        assert found.shape == (count,)
        assert np.isnan(found).all() if clusters == 1 else (found[np.isfinite(found)] >= 0).all()


def test_errors_of_a_curve_are_greenwood_s_where_each_incident_is_a_cluster() -> None:
    rng = np.random.default_rng(1)
    count, steps = 400, 60
    times, is_over = rng.integers(0, steps, count), rng.random(count) > 0.3
    over, still = np.zeros((count, steps)), np.zeros((count, steps))
    over[np.arange(count)[is_over], times[is_over]] = 1
    still[np.arange(count)[~is_over], times[~is_over]] = 1
    ended, lost = over.sum(axis=0), still.sum(axis=0)
    at_risk = count - (ended + lost).cumsum() + ended + lost
    greenwood = np.sqrt(np.cumsum(ended / (at_risk * (at_risk - ended + 1e-12))))
    assert errors_of(over, still)[:50] == pytest.approx(greenwood[:50], rel=0.01)


def test_errors_of_a_curve_are_those_that_seeds_make() -> None:
    """Ten seeds of a thousand incidents, whose luck differs by 4 %: Greenwood's is too small."""
    rng = np.random.default_rng(2)
    edges = np.linspace(0.5, 1.6, 60)

    def played() -> tuple[Reals, Reals]:
        luck = rng.lognormal(0, 0.04, 10)
        times = luck[:, None] * rng.lognormal(0, 0.1, (10, 1000))
        over = np.stack([np.histogram(row, [0, *edges, 99])[0] for row in times]).astype(float)
        return over, 1 - over.sum(axis=0).cumsum() / 10_000

    middle = int(np.searchsorted(edges, 1.1))
    curves = np.array([np.log(played()[1][middle]) for _ in range(300)])
    runs = [played()[0] for _ in range(40)]
    errors = [errors_of(over, np.zeros_like(over))[middle] for over in runs]
    assert float(np.mean(errors)) == pytest.approx(float(curves.std()), rel=0.2)
    left = np.exp(curves.mean())
    greenwood = math.sqrt((1 - left) / left / 10_000)
    assert curves.std() > 3 * greenwood


def series(y: Mapping[int, float], draws: Mapping[int, Reals]) -> growth.Series:
    return growth.Series(
        group=SIMULATED,
        measure="total",
        quantile="p50",
        sizes=np.array(list(y), dtype=float),
        values=np.array(list(y.values())),
        draws=tuple(draws[n] for n in y),
    )


def test_fits_are_weighted_least_squares() -> None:
    sizes = (64, 128, 512, 1024, 4096)
    random = np.random.default_rng(2)
    y = {n: 1 + 0.3 * math.log2(n) + random.normal(0, 0.05) for n in sizes}
    draws = {n: y[n] + random.normal(0, 0.02 * (at + 1), 40) for at, n in enumerate(sizes)}
    found = {row.law: row for row in growth.fits(series(y, draws))}
    own = np.array([draws[n].std(ddof=1) ** 2 for n in sizes])
    values = np.array([y[n] for n in sizes])
    common = np.mean(own / values**2) * values**2
    root = np.sqrt(2 / (own + common))
    functions: dict[Law, Callable[[int], float]] = {
        Law.LOG: math.log2,
        Law.LOG_SQUARED: lambda n: math.log2(n) ** 2,
        Law.SQRT: math.sqrt,
        Law.LINEAR: float,
    }
    deviances = {}
    for law, x in functions.items():
        design = np.array([[1.0, x(n)] for n in sizes])
        solved, left, *_ = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)
        row = found[law]
        assert (row.intercept, row.slope) == pytest.approx(tuple(solved), rel=1e-6)
        assert row.deviance == pytest.approx(float(left[0]), rel=1e-6)
        assert row.change == pytest.approx(
            (x(4096) - x(64)) * solved[1] / (solved[0] + x(64) * solved[1])
        )
        deviances[law] = float(left[0])
    mean = float((root**2 * values).sum() / (root**2).sum())
    assert found[Law.CONSTANT].intercept == pytest.approx(mean)
    assert found[Law.CONSTANT].change is None
    inflated = max(1.0, min(deviances.values()) / 3)
    for law, deviance in deviances.items():
        assert found[law].criterion == pytest.approx(deviance / inflated + 4)
    assert sum(row.share or 0.0 for row in found.values()) == pytest.approx(1)


def test_a_rise_has_the_smallest_size_as_its_base_and_no_fall_exceeds_all() -> None:
    none = dict.fromkeys((64, 256, 1024), np.zeros(0))
    rise = growth.rise(series({64: 4.0, 256: 1.0, 1024: 0.001}, none))
    assert rise.change == pytest.approx(-0.99975)
    laws = growth.fits(series({64: 4.0, 256: 0.5, 1024: 0.001}, none))
    assert all(fit.change is None or fit.change >= -1 for fit in laws)
    draws = {n: np.full(500, y) for n, y in ((64, 2.0), (256, 2.5), (1024, 3.0))}
    draws[1024][:50] = math.inf  # a tenth of the replicates: the interval has no upper end
    rise = growth.rise(series({64: 2.0, 256: 2.5, 1024: 3.0}, draws))
    assert (rise.missing, rise.change) == ((1024,), None)
    assert growth.fits(series({64: 2.0, 256: 2.5, 1024: 3.0}, draws)) == []


def test_a_table_that_lacks_a_column_or_has_another_type_is_refused(spark: SparkSession) -> None:
    measured = frame(spark, {"one": [1]})
    with pytest.raises(InvariantError, match="no column 'value' in a table of Measured"):
        expect(measured.drop("value"), Measured)
    with pytest.raises(InvariantError, match="'value' of Measured is string, not bigint"):
        expect(measured.withColumn("value", measured["value"].cast("string")), Measured)
    assert expect(measured.withColumn("more", measured["value"]), Measured).columns == [
        *Measured.__struct_fields__
    ]
