"""An analysis made by hand: one group, three sizes, and a live group without times."""

from __future__ import annotations

import math

from spark.analysis.growth import judge_all
from spark.analysis.results import Analysis, Counts, Curve, Facts, Fit, Group, Model, Quantiles

SIZES = (64, 256, 1024)
SIMULATED = Group(
    source="simulator", scenario="crash", profile="lan", parameters='{"crash_share":0.05}'
)
LIVE = Group(source="live", scenario="live", profile="wan", parameters=None)


def _keys(group: Group) -> dict[str, str]:
    return {name: getattr(group, name) for name in group.__struct_fields__}


def quantiles(group: Group, n: int | None, measure: str, p50: float | None) -> Quantiles:
    """Return a row whose other quantiles follow from its median."""
    known = p50 is not None
    scaled = [p50 * factor if p50 is not None else None for factor in (1.1, 1.5, 1.9, 2.5)]
    return Quantiles(
        **_keys(group),
        n=n,
        measure=measure,
        count=40 if known else 0,
        open=2,
        mean=scaled[0],
        p50=p50,
        p95=scaled[1],
        p99=scaled[2],
        max=scaled[3],
    )


def analysis(group: Group = SIMULATED) -> Analysis:
    """Return an analysis in which the total time doubles and messages grow by log2 n."""
    fits = [
        Fit(
            **_keys(group),
            measure=measure,
            model=model,
            sizes=3,
            n_min=64,
            n_max=1024,
            x_min=6.0,
            x_max=10.0,
            mean=8.0,
            slope=slope,
            intercept=0.0,
            r2=r2,
        )
        for measure, slope in (("total", 0.01), ("messages", 2.0))
        for model, r2 in ((Model.LOG, 0.9999), (Model.SQRT, 0.9), (Model.LINEAR, 0.7))
    ]
    return Analysis(
        facts=Facts(
            runs=31,
            simulated=30,
            live=1,
            seeds=10,
            versions=("0.1.0", "0.2.0"),
            incidents=126,
            strays=0,
        ),
        counts=tuple(
            Counts(
                **_keys(row_group),
                n=n,
                runs=10,
                seeds=10,
                broker_failed=42,
                link_failed=0,
                refuted=1,
                open=0,
            )
            for row_group, n in [(LIVE, None), *((group, n) for n in SIZES)]
        ),
        quantiles=(
            quantiles(LIVE, None, "total", None),
            *(quantiles(group, n, "detection", 0.5) for n in SIZES),
            *(quantiles(group, n, "total", 8.0) for n in SIZES),
            *(quantiles(group, n, "messages", 2 * math.log2(n)) for n in SIZES),
        ),
        curves=tuple(
            Curve(**_keys(group), n=n, measure="total", curve=tuple(map(float, range(101))))
            for n in SIZES
        ),
        fits=tuple(fits),
        verdicts=judge_all(fits),
    )
