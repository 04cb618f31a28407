"""An analysis made by hand: two groups that differ in a setting, three sizes, and a live group."""

from __future__ import annotations

import math

import msgspec

from spark.analysis.analysis import Analysis
from spark.analysis.delivery import Delivery, Interruption
from spark.analysis.groups import Group
from spark.analysis.judging import FUNCTIONS, judge_all
from spark.analysis.results import (
    Churn,
    Comparison,
    Counts,
    Facts,
    Fit,
    Law,
    Outlier,
    Quantiles,
    Rise,
    Survival,
    Survived,
)

SIZES = (64, 256, 1024)
SIMULATED = Group(
    source="simulator",
    scenario="crash",
    profile="lan",
    parameters='{"chords":"rank","crash_share":0.05}',
)
OTHER = Group(
    source="simulator",
    scenario="crash",
    profile="lan",
    parameters='{"chords":"none","crash_share":0.05}',
)
LIVE = Group(source="live", scenario="live", profile="wan", parameters=None)


def keys(group: Group) -> dict[str, str]:
    return {name: getattr(group, name) for name in group.__struct_fields__}


def quantiles(group: Group, n: int | None, measure: str, p50: float | None) -> Quantiles:
    """Return a row whose other quantiles follow from its median."""
    factors = {"mean": 1.1, "p50": 1.0, "p95": 1.5, "p99": 1.9, "p999": 2.3, "max": 2.5}
    ends = {
        f"{name}_{end}": factors[name] * by
        for name in ("p50", "p95", "p99")
        for end, by in (("low", 0.95), ("high", 1.05))
    }
    row = {name: None if p50 is None else p50 * by for name, by in {**factors, **ends}.items()}
    told = {"n": n, "measure": measure, "units": 10, "count": 0 if p50 is None else 140, "open": 1}
    if p50 is not None:
        row |= {"mean": None, "max": None}  # as one is open
    return msgspec.convert({**keys(group), **told, **row}, Quantiles)


def fits(
    group: Group,
    measure: str,
    quantile: str,
    law: Law,
    slope: float,
    base: float,
    rival: Law | None = None,
) -> list[Fit]:
    """Return five fits of which ``law`` is much better than all others, but for a rival."""
    found = []
    for each in Law:
        change = 0.0
        if each is law:
            grown = FUNCTIONS[law](SIZES[-1]) - FUNCTIONS[law](SIZES[0])
            change = slope * grown / (base + slope * FUNCTIONS[law](SIZES[0]))
        found.append(
            Fit(
                **keys(group),
                measure=measure,
                quantile=quantile,
                law=each,
                sizes=3,
                n_min=SIZES[0],
                n_max=SIZES[-1],
                mean=8.0,
                intercept=base,
                slope=slope if each is law else 0.0,
                intercept_variance=0.01,
                slope_variance=1e-4,
                covariance=-1e-4,
                deviance=1.0 if each is law else 50.0,
                criterion=4.0 if each is law else 4.5 if each is rival else 40.0,
                share=1.0 if each is law else 0.0,
                change=None if each is Law.CONSTANT else change,
                change_low=None if each is Law.CONSTANT else change * 0.9,
                change_high=None if each is Law.CONSTANT else change * 1.1,
            )
        )
    return found


def rise(group: Group, measure: str, quantile: str, first: float, last: float) -> Rise:
    """Return what was measured of a quantile, with an interval of a tenth."""
    change = last / first - 1
    return Rise(
        **keys(group),
        measure=measure,
        quantile=quantile,
        sizes=len(SIZES),
        n_min=SIZES[0],
        n_max=SIZES[-1],
        first=first,
        last=last,
        range=abs(change),
        change=change,
        change_low=change * 0.9,
        change_high=change * 1.1,
        missing=(),
    )


def comparison(measure: str, quantile: str) -> Comparison:
    return Comparison(
        **keys(SIMULATED),
        setting="chords",
        value="rank",
        base="none",
        n=1024,
        measure=measure,
        quantile=quantile,
        value_at=8.0,
        base_at=10.0,
        difference=-2.0,
        difference_low=-2.5,
        difference_high=-1.5,
        ratio=0.8,
        ratio_low=0.75,
        ratio_high=0.85,
        effect=-0.6,
        words=f"chords rank has 20% less {measure} than chords none",
    )


def analysis(group: Group = SIMULATED) -> Analysis:
    """Return an analysis in which the time grows like log n and messages like sqrt n."""
    fitted = [
        *fits(group, "total", "p50", Law.LOG, 0.5, 4.0),
        *fits(group, "total", "p99", Law.LOG, 1.0, 7.0),
        *fits(group, "messages", "p50", Law.SQRT, 2.0, 4.0),
        *fits(group, "messages", "p99", Law.SQRT, 3.0, 4.0, rival=Law.LINEAR),
    ]
    return Analysis(
        facts=Facts(
            runs=61,
            simulated=60,
            live=1,
            seeds=10,
            versions=("0.1.0", "0.2.0"),
            incidents=252,
            strays=0,
        ),
        counts=tuple(
            Counts(
                **keys(row_group),
                n=n,
                runs=10,
                seeds=10,
                broker_failed=42,
                link_failed=0,
                refuted=1,
                open=0,
            )
            for row_group, n in [
                (LIVE, None),
                *((OTHER, n) for n in SIZES),
                *((group, n) for n in SIZES),
            ]
        ),
        quantiles=(
            quantiles(LIVE, None, "repair", 0.2),
            quantiles(LIVE, None, "total", None),
            *(quantiles(OTHER, n, "total", 5.0 + 0.5 * math.log2(n)) for n in SIZES),
            *(quantiles(group, n, "detection", 0.5) for n in SIZES),
            *(quantiles(group, n, "total", 4.0 + 0.5 * math.log2(n)) for n in SIZES),
            *(quantiles(group, n, "messages", 4 + 2 * math.sqrt(n)) for n in SIZES),
        ),
        survival=tuple(
            Survival(
                **keys(group),
                n=n,
                after_s=float(at),
                survival=1 - at / 10,
                low=0.9 - at / 10,
                high=1.0,
                at_risk=42 - at,
            )
            for n in SIZES
            for at in range(1, 9)
        ),
        survived=tuple(
            Survived(**keys(group), n=n, failures=42, censored=2, p50_s=5.0, p95_s=8.0, p99_s=None)
            for n in SIZES
        ),
        fits=tuple(fitted),
        verdicts=judge_all(
            [
                rise(group, "total", "p50", 7.0, 9.0),
                rise(group, "total", "p99", 13.3, 17.1),
                rise(group, "messages", "p50", 20.0, 68.0),
                rise(group, "messages", "p99", 38.0, 129.2),
            ],
            fitted,
        ),
        churn=tuple(
            Churn(
                **keys(group),
                n=n,
                runs=10,
                broker_hours=12.5,
                failures_per_broker_hour=3.2,
                false_suspicions=1,
                false_suspicions_per_broker_hour=0.08,
                false_deaths=0,
                whole_share=0.97,
                pairs_share=0.99995,
                alone=30,
                alone_p50_s=7.0,
                overlapping=10,
                overlapping_p50_s=7.7,
                slowdown=1.1,
            )
            for n in SIZES
        ),
        delivery=(
            Delivery(
                **keys(group),
                n=64,
                link_class="normal",
                events=1000,
                once_share=0.998,
                lost=2,
                lost_share=0.002,
                lost_low=0.0,
                lost_high=0.004,
                unexplained=0,
                late=5,
                twice=0,
                disordered=0,
                p50_s=0.01,
                p99_s=0.9,
                max_s=4.0,
            ),
        ),
        interruptions=(
            Interruption(
                **keys(group),
                n=64,
                link_class="normal",
                fault="crash",
                struck="subscriber",
                flows=12,
                silent=1,
                p50_s=2.5,
                p99_s=5.0,
                max_s=6.0,
                usual_s=0.1,
            ),
        ),
        comparisons=tuple(
            comparison(measure, quantile)
            for measure in ("messages", "total")
            for quantile in ("p50", "p99")
        ),
        outliers=(
            Outlier(
                **keys(group),
                n=1024,
                run_id="crash-n1024-s7",
                incident_id="u7/1",
                seed=7,
                total_s=31.0,
                repaired=True,
                beyond_s=20.0,
                command="chordal sim run crash --nodes 1024 --seed 7 --profile lan",
            ),
        ),
    )
