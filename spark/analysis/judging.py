"""Verdicts: what the fits of one measure say of its growth, and what they cannot say.

A law is *supported* if the data are less than ``EVIDENCE`` times likelier under the best one. The
verdict is one law only if no other is supported, and it is the best in at least half of the
replicates. If it is not, these sizes cannot tell, and the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spark.analysis.recovery import NUMBERS
from spark.analysis.results import Fit, Growth, Judgement, Law, Rise

EVIDENCE = 5.0
NEGLIGIBLE = 0.10  #: a change below this share, from the smallest size on, is called flat
ROUGH = 0.5  #: sizes that differ by more than this share are not called flat
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


def judge_all(rises: Iterable[Rise], fits: Iterable[Fit]) -> tuple[Judgement, ...]:
    """Return a verdict for each group, measure and quantile of ``rises``, in their order."""
    own: dict[tuple[object, ...], list[Fit]] = {}
    for fit in fits:
        own.setdefault((fit.group, fit.measure, fit.quantile), []).append(fit)
    return tuple(
        judge(rise, own.get((rise.group, rise.measure, rise.quantile), [])) for rise in rises
    )


def judge(rise: Rise, fits: Sequence[Fit]) -> Judgement:
    """Return the verdict on one quantile of one measure from its fits, one a law."""
    if rise.missing or not fits:
        return _not_reached(rise)
    best = min(fits, key=lambda fit: (fit.criterion, fit.law is not Law.CONSTANT))
    if rise.sizes < FEWEST_SIZES:
        return _too_few(rise)
    supported = sorted(
        (fit for fit in fits if fit.criterion - best.criterion < 2 * math.log(EVIDENCE)),
        key=lambda fit: fit.criterion,
    )
    laws = tuple(fit.law for fit in supported)
    growing = min(
        (fit for fit in fits if fit.law is not Law.CONSTANT), key=lambda fit: fit.criterion
    )
    by_law = {fit.law: fit for fit in fits}
    told = f"measured {_span(rise)}: {change_of(rise)}"
    is_flat = _is_flat(growing) or (_is_flat(by_law[Law.LOG]) and Law.CONSTANT in laws)
    is_rough = is_flat and (rise.range or 0.0) > ROUGH
    if is_rough or ((is_flat or Law.CONSTANT in laws) and _is_far(rise)):
        words = f"it changes, but by which law cannot be told ({told})"
        question = _sweep("more sizes", _doubled(rise))
        return _verdict(rise, Growth.UNEXPLAINED, laws, words, question)
    if is_flat:
        return _verdict(rise, Growth.FLAT, laws, f"flat: does not grow with n ({told})")
    if Law.CONSTANT in laws:
        words = (
            f"no clear growth: these sizes and seeds cannot tell whether it grows ({told}; "
            f"{_law_range(by_law[Law.LOG])})"
        )
        return _verdict(rise, Growth.UNCLEAR, laws, words, _sweep("more seeds", _doubled(rise)))
    if growing.slope < 0:
        return _verdict(rise, Growth.FALLING, laws, f"falls as n grows: {told}")
    if len(laws) == 1 and (best.share is None or best.share >= MAJORITY):
        words = f"grows like {best.law}: {rate_of(best)} ({_worth(best)}{_span(rise)}); {told}"
        return _verdict(rise, _GROWTHS[best.law], laws, words)
    if len(laws) == 1:
        runner_up = max((fit for fit in fits if fit is not best), key=lambda fit: fit.share or 0.0)
        laws, supported = (best.law, runner_up.law), [best, runner_up]
    names = " or ".join(laws)
    shares = ", ".join(f"{fit.share:.0%}" for fit in supported if fit.share is not None)
    words = f"grows like {names}: these sizes cannot tell them apart ({_shares(shares)}{told})"
    return _verdict(rise, Growth.UNDECIDED, laws, words, _sweep("larger rings", _further(rise)))


def is_change(rise: Rise | Judgement) -> bool:
    """Say whether the interval of what was measured leaves out that nothing has changed."""
    if rise.change_low is None or rise.change_high is None:
        return False
    return not rise.change_low <= 0 <= rise.change_high


def change_of(rise: Rise | Judgement) -> str:
    """Return a measured change with its interval; its base is the value at the smallest size."""
    if rise.change is None:
        return f"from {_shown(rise, rise.first)} to {_shown(rise, rise.last)}"
    if rise.change_low is None or rise.change_high is None:
        return f"{rise.change:+.0%}"
    return f"{rise.change:+.0%}, 95 % interval {rise.change_low:+.0%} to {rise.change_high:+.0%}"


def rate_of(fit: Fit) -> str:
    """Return how fast a law grows, in words."""
    per = {
        Law.CONSTANT: "",
        Law.LOG: "each time n doubles",
        Law.LOG_SQUARED: "for each unit of log² n",
        Law.SQRT: "for each unit of sqrt n",
        Law.LINEAR: "for each broker",
    }[fit.law]
    return f"{fit.slope:+.3g}{'' if fit.measure in NUMBERS else ' s'} {per}".rstrip()


def _not_reached(rise: Rise) -> Judgement:
    sizes = ", ".join(f"{n:,}" for n in rise.missing)
    words = (
        f"no law can be told: {rise.quantile} or the end of its interval is not reached at "
        f"n = {sizes}, as too many were not seen to end"
    )
    return _verdict(rise, Growth.NOT_REACHED, (), words)


def _too_few(rise: Rise) -> Judgement:
    least, most = rise.n_min, rise.n_max
    more = sorted({least, 4 * most, 16 * most} if rise.sizes == 1 else {least, most, 4 * most})
    words = f"too few sizes ({rise.sizes}; need {FEWEST_SIZES})"
    return _verdict(rise, Growth.TOO_FEW, (), words, _sweep("one size more", more))


def _verdict(
    rise: Rise, growth: Growth, laws: tuple[Law, ...], words: str, question: str | None = None
) -> Judgement:
    own = {
        name: getattr(rise, name)
        for name in rise.__struct_fields__
        if name in Judgement.__struct_fields__
    }
    return Judgement(
        **own,
        growth=growth,
        models=tuple(law.value for law in laws),
        words=words,
        question=question,
    )


def _is_flat(fit: Fit) -> bool:
    """Say whether even the ends of its interval change little."""
    if fit.change is None:
        return False
    if fit.share is None:
        return abs(fit.change) < NEGLIGIBLE
    ends = (fit.change_low, fit.change_high)
    return all(end is not None and abs(end) < NEGLIGIBLE for end in ends)


def _is_far(rise: Rise) -> bool:
    """Say whether what was measured changes by more than is negligible, whatever its seeds."""
    ends = (rise.change_low or 0.0, rise.change_high or 0.0)
    return is_change(rise) and min(map(abs, ends)) >= NEGLIGIBLE


def _law_range(fit: Fit) -> str:
    if fit.change_low is None or fit.change_high is None:
        return f"as a line over log n {fit.change or 0.0:+.0%}"
    return f"as a line over log n between {fit.change_low:+.0%} and {fit.change_high:+.0%}"


def _span(rise: Rise) -> str:
    return f"from n = {rise.n_min:,} to n = {rise.n_max:,}"


def _shown(rise: Rise | Judgement, value: float | None) -> str:
    unit = "" if rise.measure in NUMBERS else " s"
    return "not reached" if value is None else f"{value:.3g}{unit}"


def _worth(fit: Fit) -> str:
    return "" if fit.share is None else f"best in {fit.share:.0%} of the replicates, "


def _shares(shares: str) -> str:
    return f"best in {shares} of the replicates, " if shares else ""


def _doubled(rise: Rise) -> list[int]:
    middle = 2 ** round((math.log2(rise.n_min) + math.log2(rise.n_max)) / 2)
    return sorted({rise.n_min, middle, rise.n_max})


def _further(rise: Rise) -> list[int]:
    return sorted({rise.n_min, rise.n_max, 4 * rise.n_max, 16 * rise.n_max})


def _sweep(what: str, sizes: Sequence[int]) -> str:
    return f"{what}: --nodes {','.join(map(str, sizes))} --seeds 40"
