"""Verdicts: what the fits of one measure say of its growth, and what they cannot say.

A law is *supported* if the data are less than ``EVIDENCE`` times likelier under the best one. The
verdict is one law only if no other is supported, and it is the best in at least half of the
replicates. If it is not, these sizes cannot tell, and the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from spark.analysis.recovery import NUMBERS
from spark.analysis.results import Fit, Growth, Judgement, Law

EVIDENCE = 5.0
NEGLIGIBLE = 0.10  #: a change below this share of the mean is called flat
FEWEST_SIZES = 3
MAJORITY = 0.5  #: share of the replicates in which a law must be the best

_GROWTHS = {
    Law.CONSTANT: Growth.FLAT,
    Law.LOG: Growth.LOG,
    Law.LOG_SQUARED: Growth.LOG_SQUARED,
    Law.SQRT: Growth.SQRT,
    Law.LINEAR: Growth.LINEAR,
}
FUNCTIONS = {
    Law.CONSTANT: lambda n: 0.0 * n,
    Law.LOG: math.log2,
    Law.LOG_SQUARED: lambda n: math.log2(n) ** 2,
    Law.SQRT: math.sqrt,
    Law.LINEAR: float,
}


def judge_all(fits: Iterable[Fit]) -> tuple[Judgement, ...]:
    """Return a verdict for each group, measure and quantile of ``fits``, sorted by these."""

    def key(fit: Fit) -> tuple[object, ...]:
        return fit.group, fit.measure, fit.quantile

    return tuple(judge(list(alike)) for _, alike in groupby(fits, key=key))


def judge(fits: Sequence[Fit]) -> Judgement:
    """Return the verdict on one quantile of one measure from its fits, one a law."""
    by_law = {fit.law: fit for fit in fits}
    best = min(fits, key=lambda fit: (fit.criterion, fit.law is not Law.CONSTANT))
    if best.sizes < FEWEST_SIZES:
        least, most = best.n_min, best.n_max
        more = sorted({least, 4 * most, 16 * most} if best.sizes == 1 else {least, most, 4 * most})
        words = f"too few sizes ({best.sizes}; need {FEWEST_SIZES})"
        return _verdict(best, Growth.TOO_FEW, (), words, _sweep("one size more", more))
    supported = sorted(
        (fit for fit in fits if fit.criterion - best.criterion < 2 * math.log(EVIDENCE)),
        key=lambda fit: fit.criterion,
    )
    laws = tuple(fit.law for fit in supported)
    growing = min(
        (fit for fit in fits if fit.law is not Law.CONSTANT), key=lambda fit: fit.criterion
    )
    span = f"from n = {best.n_min:,} to n = {best.n_max:,}"
    if _is_flat(growing) or (_is_flat(by_law[Law.LOG]) and Law.CONSTANT in laws):
        words = f"flat: does not grow with n (changes by {_change(growing)} {span})"
        return _verdict(best, Growth.FLAT, laws, words)
    if Law.CONSTANT in laws:
        words = (
            "no clear growth: these sizes and seeds cannot tell whether it grows "
            f"({_range(by_law[Law.LOG])} {span})"
        )
        return _verdict(best, Growth.UNCLEAR, laws, words, _sweep("more seeds", _doubled(best)))
    if growing.slope < 0:
        return _verdict(
            best, Growth.FALLING, laws, f"falls as n grows: by {abs(growing.change):.0%} {span}"
        )
    if len(laws) == 1 and (best.share is None or best.share >= MAJORITY):
        words = f"grows like {best.law}: {_rate(best)} ({_worth(best)}{span})"
        return _verdict(best, _GROWTHS[best.law], laws, words)
    if len(laws) == 1:
        runner_up = max((fit for fit in fits if fit is not best), key=lambda fit: fit.share or 0.0)
        laws, supported = (best.law, runner_up.law), [best, runner_up]
    names = " or ".join(laws)
    shares = ", ".join(f"{fit.share:.0%}" for fit in supported if fit.share is not None)
    words = f"grows like {names}: these sizes cannot tell them apart ({_shares(shares)}{span})"
    return _verdict(best, Growth.UNDECIDED, laws, words, _sweep("larger rings", _further(best)))


def _verdict(
    fit: Fit, growth: Growth, laws: tuple[Law, ...], words: str, question: str | None = None
) -> Judgement:
    return Judgement(
        source=fit.source,
        scenario=fit.scenario,
        profile=fit.profile,
        parameters=fit.parameters,
        measure=fit.measure,
        quantile=fit.quantile,
        growth=growth,
        models=tuple(law.value for law in laws),
        words=words,
        question=question,
    )


def _is_flat(fit: Fit) -> bool:
    """Say whether even the ends of its interval change little."""
    ends = (fit.change_low, fit.change_high)
    if None in ends:
        return abs(fit.change) < NEGLIGIBLE
    return all(abs(end) < NEGLIGIBLE for end in ends if end is not None)


def _change(fit: Fit) -> str:
    return f"{fit.change:+.0%}"


def _range(fit: Fit) -> str:
    if fit.change_low is None or fit.change_high is None:
        return f"{fit.change:+.0%}"
    return f"between {fit.change_low:+.0%} and {fit.change_high:+.0%}"


def _worth(fit: Fit) -> str:
    return "" if fit.share is None else f"best in {fit.share:.0%} of the replicates, "


def _shares(shares: str) -> str:
    return f"best in {shares} of the replicates, " if shares else ""


def _rate(fit: Fit) -> str:
    per = {
        Law.LOG: "each time n doubles",
        Law.LOG_SQUARED: "for each unit of log² n",
        Law.SQRT: "for each unit of sqrt n",
        Law.LINEAR: "for each broker",
    }[fit.law]
    return f"{fit.slope:+.3g}{'' if fit.measure in NUMBERS else ' s'} {per}"


def _doubled(fit: Fit) -> list[int]:
    middle = 2 ** round((math.log2(fit.n_min) + math.log2(fit.n_max)) / 2)
    return sorted({fit.n_min, middle, fit.n_max})


def _further(fit: Fit) -> list[int]:
    return sorted({fit.n_min, fit.n_max, 4 * fit.n_max, 16 * fit.n_max})


def _sweep(what: str, sizes: Sequence[int]) -> str:
    return f"{what}: --nodes {','.join(map(str, sizes))} --seeds 40"
