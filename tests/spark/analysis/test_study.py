"""The analysis of a planted study, beside the same sums in plain Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import numpy as np
import pytest

from overlay.quantiles import quantile, quantile_with_open
from overlay.trace_schema import PHASES, Incident, Run, Source, Verdict, lasted
from spark.analysis.analysis import Analysis
from spark.analysis.results import Churn
from tests.spark.study import NONE, RANK, SIZES, Study

pytestmark = pytest.mark.spark

CELLS = [*((p, n) for p in (RANK, NONE) for n in SIZES), (RANK, 16), (RANK, 4096), (None, None)]


def values(pairs: list[tuple[Run, Incident]], measure: str) -> list[tuple[float, bool]]:
    """Return the values of a measure in a cell, seconds or messages, and whether each is over."""
    deaths = [
        (run, i)
        for run, i in pairs
        if i.verdict is Verdict.BROKER_FAILED or i.failed_ns is not None
    ]
    found = []
    for run, i in deaths:
        is_death = i.failed_ns is not None or run.source is Source.LIVE
        if measure == "messages":
            found.append((float(i.messages), i.repaired_ns is not None or not is_death))
            continue
        took = lasted(i, PHASES[measure].start, PHASES[measure].end, run.duration_ns)
        if took is not None and (took.is_over or is_death):
            found.append((took.seconds, took.is_over))
    return found


@pytest.mark.parametrize(("parameters", "n"), CELLS)
def test_quantiles_are_those_of_numpy(
    found: Analysis, study: Study, parameters: str | None, n: int | None
) -> None:
    rows = {r.measure: r for r in found.quantiles if (r.parameters, r.n) == (parameters, n)}
    for measure in (*PHASES, "messages"):
        given = values(study.of(parameters, n), measure)
        over, still = ([value for value, ended in given if ended is side] for side in (True, False))
        if not given:  # live brokers do not know when another one died
            assert measure not in rows
            continue
        row = rows[measure]
        assert (row.count, row.open) == (len(over), len(still))
        mine = [row.p50, row.p95, row.p99, row.p999, row.max]
        shares = (0.5, 0.95, 0.99, 0.999, 1.0)
        expected = [quantile_with_open(over, still, share) for share in shares]
        if still:
            expected[-1] = math.inf
        # An open one is taken to be seen until its bucket is over, by half a per cent.
        near = 1e-9 if not still else 0.01
        assert mine == [
            pytest.approx(value, rel=near) if math.isfinite(value) else None for value in expected
        ]
        assert row.mean == (None if still else pytest.approx(statistics.fmean(over)))
        if not still:
            theirs = np.percentile(over, [50, 95, 99, 99.9, 100])
            assert mine == pytest.approx(list(theirs), rel=1e-12)


def test_intervals_are_those_of_a_bootstrap_over_seeds(found: Analysis, study: Study) -> None:
    random = np.random.default_rng(5)
    for parameters, n in ((RANK, 256), (NONE, 1024)):
        by_seed: dict[int | None, list[float]] = {}
        for run, i in study.of(parameters, n):
            if i.verdict is Verdict.BROKER_FAILED and None not in (
                i.failed_ns,
                i.repaired_ns,
            ):
                took = ((i.repaired_ns or 0) - (i.failed_ns or 0)) / 1e9
                by_seed.setdefault(run.seed, []).append(took)
            elif i.failed_ns is not None:
                by_seed.setdefault(run.seed, []).append(100.0)
        seeds = list(by_seed.values())
        draws = [
            quantile(
                np.concatenate([seeds[at] for at in random.integers(0, len(seeds), len(seeds))]),
                0.5,
            )
            for _ in range(3000)
        ]
        low, high = np.percentile(draws, [2.5, 97.5])
        (row,) = (
            r for r in found.quantiles if (r.parameters, r.n, r.measure) == (parameters, n, "total")
        )
        assert row.units == 8
        assert (row.p50_low, row.p50_high) == pytest.approx((low, high), abs=0.25 * (high - low))


def test_one_seed_gives_no_interval(found: Analysis) -> None:
    (row,) = (r for r in found.quantiles if (r.n, r.measure) == (16, "total"))
    assert (row.units, row.p50_low, row.p99_high) == (1, None, None)


@pytest.mark.parametrize(("parameters", "n"), [(RANK, 64), (NONE, 1024), (RANK, 4096)])
def test_survival_is_that_of_lifelines(
    found: Analysis, study: Study, parameters: str, n: int
) -> None:
    failed = [(run, i) for run, i in study.of(parameters, n) if i.failed_ns is not None]
    ends = [i.repaired_ns or run.duration_ns or 0 for run, i in failed]
    times = [(end - (i.failed_ns or 0)) / 1e9 for (_, i), end in zip(failed, ends, strict=True)]
    seen = [i.repaired_ns is not None for _, i in failed]
    from lifelines import KaplanMeierFitter  # not by each worker that collects

    fitted = KaplanMeierFitter().fit(times, seen)
    (row,) = (r for r in found.survived if (r.parameters, r.n) == (parameters, n))
    assert (row.failures, row.censored) == (len(times), seen.count(False))
    assert row.p50_s == pytest.approx(fitted.median_survival_time_)
    steps = [r for r in found.survival if (r.parameters, r.n) == (parameters, n)]
    assert len(steps) > 15
    interval = fitted.confidence_interval_
    for step in steps:
        at = min(fitted.survival_function_.index, key=lambda time: abs(time - step.after_s))
        assert at == pytest.approx(step.after_s)
        assert step.survival == pytest.approx(fitted.survival_function_.loc[at].iloc[0], abs=1e-9)
        assert step.at_risk == fitted.event_table.loc[at, "at_risk"]
        if step.low is not None and step.high is not None:
            assert step.low < step.survival < step.high
            # Seeds share their luck, so the interval is not Greenwood's; it is of that order here.
            theirs = interval.loc[at].iloc[1] - interval.loc[at].iloc[0]
            assert 0.9 * theirs < step.high - step.low < 9 * theirs


def holes(pairs: list[tuple[Run, Incident]]) -> Iterator[tuple[str, int, int, bool]]:
    for run, i in pairs:
        if i.failed_ns is not None:
            end = i.repaired_ns if i.repaired_ns is not None else run.duration_ns
            yield (
                i.run_id,
                i.failed_ns,
                min(end or 0, run.duration_ns or 0),
                i.repaired_ns is not None,
            )


def churn_of(found: Analysis, parameters: str, n: int) -> Churn:
    (row,) = (r for r in found.churn if (r.parameters, r.n) == (parameters, n))
    return row


@pytest.mark.parametrize(("parameters", "n"), [(RANK, 64), (NONE, 256), (RANK, 4096)])
def test_churn_is_what_counting_each_centisecond_gives(
    found: Analysis, study: Study, parameters: str, n: int
) -> None:
    pairs = study.of(parameters, n)
    row = churn_of(found, parameters, n)
    runs = {run.run_id for run in study.runs if (run.parameters, run.nodes) == (parameters, n)}
    spans = list(holes(pairs))
    ticks = {name: np.zeros(10_000, dtype=bool) for name in runs}
    for name, start, end, _ in spans:
        ticks[name][start // 10**7 : end // 10**7] = True
    broken = sum(int(ticks[name].sum()) for name in runs) / 100
    assert row.whole_share == pytest.approx(1 - broken / (100 * len(runs)))
    open_time = sum(end - start for _, start, end, _ in spans) / 1e9
    assert row.pairs_share == pytest.approx(1 - open_time / (100 * len(runs) * n))
    hours = len(runs) * n * 100 / 3600
    wrong = sum(i.verdict in (Verdict.REFUTED, Verdict.LINK_FAILED) for _, i in pairs)
    assert row.false_suspicions_per_broker_hour == pytest.approx(wrong / hours)
    assert row.failures_per_broker_hour == pytest.approx(len(spans) / hours)
    lived = [i for _, i in pairs if i.verdict is Verdict.BROKER_FAILED and i.failed_ns is None]
    assert row.false_deaths == len(lived)
    both: dict[bool, tuple[list[float], list[float]]] = {True: ([], []), False: ([], [])}
    counts = {True: 0, False: 0}
    for at, (name, start, end, repaired) in enumerate(spans):
        overlaps = any(
            name == other and start < until and since < end
            for place, (other, since, until, _) in enumerate(spans)
            if place != at
        )
        counts[overlaps] += 1
        both[overlaps][not repaired].append((end - start) / 1e9)
    assert (row.alone, row.overlapping) == (counts[False], counts[True])
    for times, median in ((both[False], row.alone_p50_s), (both[True], row.overlapping_p50_s)):
        expected = quantile_with_open(*times, 0.5)
        assert median == (pytest.approx(expected, rel=0.01) if math.isfinite(expected) else None)


def test_comparisons_are_those_of_all_pairs(found: Analysis, study: Study) -> None:
    rows = [
        r for r in found.comparisons if (r.setting, r.n, r.measure) == ("chords", 1024, "total")
    ]
    assert [(r.base, r.value, r.quantile) for r in rows] == [
        ("none", "rank", "p50"),
        ("none", "rank", "p99"),
    ]
    sides = [
        [v if ended else math.inf for v, ended in values(study.of(parameters, 1024), "total")]
        for parameters in (RANK, NONE)
    ]
    rank, none = (quantile(side, 0.5) for side in sides)
    row = rows[0]
    assert (row.value_at, row.base_at) == pytest.approx((rank, none))
    assert (row.difference, row.ratio) == pytest.approx((rank - none, rank / none))
    more = sum(a > b for a in sides[0] for b in sides[1])
    less = sum(a < b for a in sides[0] for b in sides[1])
    assert row.effect == pytest.approx((more - less) / (len(sides[0]) * len(sides[1])), abs=0.01)
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    assert row.ratio_low < rank / none < row.ratio_high < 1
    assert "less recovery time (p50, n = 1,024) than chords none" in row.words
    messages = next(r for r in found.comparisons if (r.measure, r.quantile) == ("messages", "p50"))
    assert "cannot be told apart" in messages.words


def test_counts_and_strays(found: Analysis, study: Study) -> None:
    assert (found.facts.runs, found.facts.live, found.facts.strays) == (len(study.runs), 1, 1)
    for row in found.counts:
        pairs = study.of(row.parameters, row.n)
        seen = [i.verdict for _, i in pairs]
        assert (row.broker_failed, row.refuted, row.link_failed, row.open) == tuple(
            seen.count(verdict)
            for verdict in (
                *(Verdict.BROKER_FAILED, Verdict.REFUTED, Verdict.LINK_FAILED, Verdict.OPEN),
            )
        )


def test_groups_are_named_by_what_tells_them_apart(found: Analysis) -> None:
    assert [str(group) for group in found.groups] == [
        "live, wan, live",
        "crash, lan, chords none",
        "crash, lan, chords rank",
    ]


def test_delivery_is_told_by_class_of_links(found: Analysis) -> None:
    (row,) = found.delivery
    assert (row.n, row.link_class, row.events, row.lost, row.twice) == (64, "normal", 160, 18, 8)
    assert (row.late, row.unexplained, row.p50_s) == (7, 0, 0.01)
    assert row.lost_share == pytest.approx(18 / 160)
    # Of four seeds 3, 4, 5 and 6 of 40 are lost: the error of their mean, by the textbook.
    error = statistics.stdev([3, 4, 5, 6]) / 4**0.5 / 40
    assert row.lost_low == pytest.approx(18 / 160 - 1.959964 * error)
    assert row.lost_high == pytest.approx(18 / 160 + 1.959964 * error)


def test_interruptions_are_told_by_fault_and_by_whom_it_befell(found: Analysis) -> None:
    rows = {row.struck: row for row in found.interruptions}
    assert {(r.fault, r.flows, r.silent) for r in rows.values()} == {("crash", 4, 0)}
    # The gap is one more than the events that are lost, each 100 ms.
    assert rows["subscriber"].max_s == pytest.approx(0.7)
    assert rows["subscriber"].p50_s == pytest.approx(0.55)
    assert rows["other"].max_s == rows["other"].usual_s == pytest.approx(0.1)


def test_all_that_was_planted_is_in_the_study(study: Study) -> None:
    assert any(row.repaired_ns is None for row in study.incidents)
    times = [v for v, ended in values(study.of(RANK, 4096), "total") if ended]
    assert len(set(times)) < len(times)
    assert any(v < 0 for v, _ in values(study.of(RANK, 4096), "detection"))
