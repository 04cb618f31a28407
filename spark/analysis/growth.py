"""How recovery grows with the size of the ring: three fits, and a verdict to rely on.

:func:`fits` draws a straight line over log2 n, over the root of n and over n itself.

Three straight lines always fit something. What they are worth is judged by one rule throughout:
a model is *preferred* to another if the data are at least ``EVIDENCE`` times likelier under it.
With normal errors and m sizes the likelihoods of two least-squares lines stand in the ratio
(U2 / U1) ** (m / 2), where U is the part of the variance left unexplained, 1 - R^2; a constant
leaves all of it and has one parameter less, which Akaike's criterion values at a factor e.

The fewer the sizes, the larger the difference that this asks for: with three sizes, four and a
half times the unexplained variance; with six, a bit more than twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark.analysis.recovery import GROUP, SIZE
from spark.analysis.results import Fit, Growth, Judgement, Model

EVIDENCE = 10.0
NEGLIGIBLE = 0.10  #: a predicted change below this share of the mean is called flat
FEWEST_SIZES = 3

# Rounding leaves a perfect fit about this much unexplained; less is not evidence for anything.
_ROUNDING = 1e-12

_GROWTHS = {Model.LOG: Growth.LOG, Model.SQRT: Growth.SQRT, Model.LINEAR: Growth.LINEAR}
_NAMES = {Model.LOG: "log n", Model.SQRT: "sqrt n", Model.LINEAR: "n"}


def fits(sizes: DataFrame) -> DataFrame:
    """Return rows of ``results.Fit`` from the table of ``quantiles``: three a group and measure."""
    models = fn.explode(
        fn.array(
            *(
                fn.struct(fn.lit(model.value).alias("model"), x.alias("x"))
                for model, x in _model_functions(fn.col("n").cast("double")).items()
            )
        )
    )
    return (
        sizes.where(fn.col("n").isNotNull() & fn.col("p50").isNotNull())
        .select(*SIZE, "measure", fn.col("p50").alias("y"), models.alias("at"))
        .select(*SIZE, "measure", "y", "at.model", "at.x")
        .groupBy(*GROUP, "measure", "model")
        .agg(
            fn.count("*").alias("sizes"),
            fn.min("n").alias("n_min"),
            fn.max("n").alias("n_max"),
            fn.min("x").alias("x_min"),
            fn.max("x").alias("x_max"),
            fn.avg("y").alias("mean"),
            fn.regr_slope("y", "x").alias("slope"),
            fn.regr_intercept("y", "x").alias("intercept"),
            fn.regr_r2("y", "x").alias("r2"),
        )
    )


def _model_functions(n: Column) -> dict[Model, Column]:
    return {Model.LOG: fn.log2(n), Model.SQRT: fn.sqrt(n), Model.LINEAR: n}


def judge_all(fits: Sequence[Fit]) -> tuple[Judgement, ...]:
    """Return a verdict for each group and measure of ``fits``, which must be sorted by them."""
    return tuple(
        judge(list(same)) for _, same in groupby(fits, key=lambda fit: (fit.group, fit.measure))
    )


def judge(fits: Sequence[Fit]) -> Judgement:
    """Return the verdict on one measure of one group from its fits, one a model."""
    ranked = sorted(fits, key=_unexplained)
    best = ranked[0]
    if best.sizes < FEWEST_SIZES or best.slope is None:
        return _verdict(best, Growth.TOO_FEW, (), f"too few sizes (need {FEWEST_SIZES})")
    span = f"from n = {best.n_min:,} to n = {best.n_max:,}"
    change = best.slope * (best.x_max - best.x_min)
    share = abs(change / best.mean) if best.mean else 0.0
    if share < NEGLIGIBLE:
        words = f"flat: does not grow with n (changes by {share:.0%} {span})"
        return _verdict(best, Growth.FLAT, (), words)
    if math.e * EVIDENCE > _likelier(_unexplained(best), 1.0, best.sizes):
        words = (
            f"no clear growth: differs between sizes, but follows no model (best R² {_r2(best)})"
        )
        return _verdict(best, Growth.UNCLEAR, (), words)
    if change < 0:
        return _verdict(best, Growth.FALLING, (), f"falls as n grows: by {share:.0%} {span}")
    supported = [
        fit
        for fit in ranked
        if _likelier(_unexplained(best), _unexplained(fit), best.sizes) < EVIDENCE
    ]
    models = tuple(fit.model for fit in supported)
    if len(models) == 1:
        return _verdict(
            best,
            _GROWTHS[best.model],
            models,
            f"grows like {_NAMES[best.model]}: {_rate(best)} (R² {_r2(best)}, {span})",
        )
    names = " or ".join(_NAMES[model] for model in models)
    r2s = ", ".join(_r2(fit) for fit in supported)
    words = f"grows like {names}: these sizes do not tell them apart (R² {r2s}, {span})"
    return _verdict(best, Growth.UNDECIDED, models, words)


def _verdict(fit: Fit, growth: Growth, models: tuple[Model, ...], words: str) -> Judgement:
    return Judgement(
        source=fit.source,
        scenario=fit.scenario,
        profile=fit.profile,
        parameters=fit.parameters,
        measure=fit.measure,
        growth=growth,
        models=tuple(model.value for model in models),
        words=words,
    )


def _unexplained(fit: Fit) -> float:
    return max(1.0 - (fit.r2 or 0.0), _ROUNDING)


def _likelier(unexplained: float, than: float, sizes: int) -> float:
    return math.pow(than / unexplained, sizes / 2)


def _rate(fit: Fit) -> str:
    per = {
        Model.LOG: "each time n doubles",
        Model.SQRT: "for each unit of sqrt n",
        Model.LINEAR: "for each broker",
    }[fit.model]
    return f"{fit.slope:+.3g}{'' if fit.measure == 'messages' else ' s'} {per}"


def _r2(fit: Fit) -> str:
    return f"{fit.r2:.3f}"
