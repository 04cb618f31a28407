"""The answer that a report opens with: how recovery grows, and which setting to use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark.analysis.analysis import Analysis
from spark.analysis.groups import Group, names, settings
from spark.analysis.judging import FEWEST_SIZES
from spark.analysis.recovery import MESSAGES
from spark.analysis.results import Comparison, Growth, Judgement, Quantiles
from spark.report.outline import Number
from spark.report.tables import interval, shown

#: What an experiment does to a ring, and where: nobody can choose that it is otherwise.
_CONDITIONS = ("crash_share", "crash_mode", "mode", "profile", "quiet", "ring.forming", "seconds")
_FEW = 100  #: incidents; of fewer, p99 says no more than the maximum
_CONDITION_TABLES = ("churn.", "faults.", "network.", "promises.", "workload.")


@dataclass(frozen=True, slots=True)
class Advice:
    """What the data say of one setting."""

    setting: str
    best: str
    group: Group  #: that of the best
    n: int
    ratio: float  #: of the runner-up's time to the best's
    rival: str  #: the runner-up
    worst: str
    worst_ratio: float
    sure: bool  #: the best is told from the runner-up


@dataclass(frozen=True, slots=True)
class Answer:
    """The first paragraph, and the numbers below it."""

    text: str
    numbers: tuple[Number, ...]
    group: Group | None  #: the group that it is about


def answer(analysis: Analysis) -> Answer:
    """Return what the data say first of all."""
    if not any(count.broker_failed for count in analysis.counts):
        return Answer(
            "No broker failed in these runs, so there is nothing to say of recovery.", (), None
        )
    advised = advice(analysis)
    group = _main_group(analysis)
    if advised and _sizes(analysis, advised[0].group) >= min(FEWEST_SIZES, _sizes(analysis, group)):
        group = advised[0].group
    measure = _time_measure(analysis, group)
    rows = [row for row in analysis.quantiles if row.group == group and row.measure == measure]
    known = [row for row in rows if row.count]
    if not known:
        text = "Brokers failed in these runs, but none of them was seen repaired."
        return Answer(text, (), group)
    last = max(known, key=lambda row: row.n or 0)
    sentences = [_how_long(analysis, group, last), _how_it_grows(analysis, group, measure)]
    sentences += [_which(one) for one in advised[:2]] or [_no_settings(analysis)]
    return Answer(" ".join(sentences), _numbers(analysis, group, last, advised), group)


def advice(analysis: Analysis) -> list[Advice]:
    """Return what to choose of each setting, by the median recovery time at the largest size.

    Where a setting was tried among several others, that is the family with the largest ring.
    """
    families: dict[tuple[object, ...], list[Comparison]] = {}
    for row in analysis.comparisons:
        if row.measure == "total" and row.quantile == "p50" and not is_condition(row.setting):
            others = tuple((k, v) for k, v in settings(row.parameters).items() if k != row.setting)
            key = (row.setting, row.source, row.scenario, row.profile, others)
            families.setdefault(key, []).append(row)
    found: dict[str, Advice] = {}
    for rows in families.values():
        largest = max(row.n for row in rows)
        one = _advice([row for row in rows if row.n == largest], analysis)
        if one is not None and (one.setting not in found or found[one.setting].n < one.n):
            found[one.setting] = one
    return sorted(found.values(), key=lambda one: -one.worst_ratio)


def is_condition(setting: str) -> bool:
    """Say whether a setting is part of the experiment, and not of the brokers."""
    return setting in _CONDITIONS or setting.startswith(_CONDITION_TABLES)


def _advice(rows: list[Comparison], analysis: Analysis) -> Advice | None:
    times: dict[str, float] = {}
    for row in rows:
        times |= {row.value: row.value_at, row.base: row.base_at}
    best, rival, *_ = sorted(times, key=lambda value: times[value])
    worst = max(times, key=lambda value: times[value])
    row = next(row for row in rows if {row.value, row.base} == {best, rival})
    sample = rows[0]
    group = next(
        (
            group
            for group in analysis.groups
            if (group.source, group.scenario, group.profile)
            == (sample.source, sample.scenario, sample.profile)
            and settings(group.parameters) == {**settings(sample.parameters), sample.setting: best}
        ),
        None,
    )
    if group is None or not times[best]:
        return None
    ends = (row.ratio_low, row.ratio_high)
    sure = None not in ends and not (row.ratio_low or 0) <= 1 <= (row.ratio_high or 0)
    return Advice(
        setting=sample.setting,
        best=best,
        group=group,
        n=sample.n,
        ratio=times[rival] / times[best],
        rival=rival,
        worst=worst,
        worst_ratio=times[worst] / times[best],
        sure=sure,
    )


def _main_group(analysis: Analysis) -> Group:
    """Return the group that was seen at the most sizes, and of these the one with most failures."""

    def weight(group: Group) -> tuple[int, int]:
        own = [row for row in analysis.counts if row.group == group]
        return _sizes(analysis, group), sum(row.broker_failed for row in own)

    return max(analysis.groups, key=weight)


def _sizes(analysis: Analysis, group: Group) -> int:
    """Return at how many sizes of rings failures of a group were seen."""
    own = [row for row in analysis.counts if row.group == group and row.broker_failed]
    return len({row.n for row in own if row.n})


def _time_measure(analysis: Analysis, group: Group) -> str:
    measured = {row.measure for row in analysis.quantiles if row.group == group and row.count}
    return "total" if "total" in measured else "repair"


def _how_long(analysis: Analysis, group: Group, last: Quantiles) -> str:
    where = f"a ring of {last.n:,} brokers" if last.n else "rings of unknown size"
    what = "After a broker fails" if last.measure == "total" else "Once a failure is confirmed"
    return (
        f"{what}, {where} ({names(analysis.groups)[group]}) is whole again after "
        f"{shown(last.p50)} s in the median, and after {_slow(last)}."
    )


def _slow(last: Quantiles) -> str:
    """Say how long slow ones take: of few incidents, p99 is no more than the slowest."""
    if last.count < _FEW:
        return f"{shown(last.max)} s in the slowest of {last.count} cases"
    return f"{shown(last.p99)} s in 99 of 100 cases"


def _sure(low: float | None, high: float | None) -> str:
    return "one seed: no interval" if low is None else f"95 % interval {interval(low, high)}"


def _how_it_grows(analysis: Analysis, group: Group, measure: str) -> str:
    time = _verdict(analysis.verdicts, group, measure)
    messages = _verdict(analysis.verdicts, group, MESSAGES)
    if time is None:
        return "How that grows with the ring cannot be told: the size of the ring is unknown."
    told = f"Recovery time {_in_short(time)}"
    return f"{told}." if messages is None else f"{told}; messages {_in_short(messages, few=True)}."


def _in_short(verdict: Judgement, *, few: bool = False) -> str:
    laws = " or ".join(verdict.models)
    grows = "grow" if few else "grows"
    match verdict.growth:
        case Growth.FLAT:
            return f"{'do' if few else 'does'} not grow with the ring"
        case Growth.TOO_FEW:
            past, now = ("were", "they grow") if few else ("was", "it grows")
            return f"{past} measured at too few sizes to say how {now}"
        case Growth.UNCLEAR:
            return "may or may not grow: these sizes and seeds cannot tell"
        case Growth.FALLING:
            return f"{'fall' if few else 'falls'} as the ring grows"
        case Growth.UNDECIDED:
            return f"{grows} like {laws}, which these sizes cannot tell apart"
        case _:
            return f"{grows} like {laws}"


def _which(one: Advice) -> str:
    chosen = f"{one.setting} {one.best}"
    if not one.sure:
        return (
            f"Of {one.setting}, {one.best} is the quickest at n = {one.n:,}, but "
            f"{one.rival} cannot be told from it."
        )
    if one.rival == one.worst:
        return (
            f"Use {chosen}: with {one.rival} recovery takes {one.ratio:.2f} times as long "
            f"(n = {one.n:,})."
        )
    return (
        f"Use {chosen}: the next best, {one.rival}, takes {one.ratio:.2f} times as long, and "
        f"{one.worst} {one.worst_ratio:.2f} times (n = {one.n:,})."
    )


def _no_settings(analysis: Analysis) -> str:
    return "Which setting to use cannot be told: these runs do not differ in one."


def _numbers(
    analysis: Analysis, group: Group, last: Quantiles, advised: list[Advice]
) -> tuple[Number, ...]:
    n = f"n = {last.n:,}" if last.n else "n unknown"
    what = "recovery" if last.measure == "total" else "repair"
    found = [
        Number(
            f"{shown(last.p50)} s",
            f"median {what}, {n} ({_sure(last.p50_low, last.p50_high)})",
        ),
        Number(
            f"{shown(last.p99)} s",
            f"99 of 100 are done by then ({_sure(last.p99_low, last.p99_high)})",
        ),
    ]
    if advised:
        one = advised[0]
        found.append(
            Number(
                f"× {one.worst_ratio:.2f}",
                f"as long with {one.setting} {one.worst} as with {one.best}",
            )
        )
        return tuple(found)
    fits = [
        fit
        for fit in analysis.fits
        if (fit.group, fit.measure, fit.quantile) == (group, last.measure, "p50")
    ]
    if fits and fits[0].sizes > 1:
        best = min(fits, key=lambda fit: fit.criterion)
        ends = ""
        if best.change_low is not None and best.change_high is not None:
            ends = f" (95 % interval {best.change_low:+.0%} to {best.change_high:+.0%})"
        found.append(
            Number(f"{best.change:+.0%}", f"from n = {best.n_min:,} to n = {best.n_max:,}{ends}")
        )
    else:
        failures = sum(row.broker_failed for row in analysis.counts if row.group == group)
        found.append(Number(f"{failures:,}", "failures measured"))
    return tuple(found)


def _verdict(verdicts: Iterable[Judgement], group: Group, measure: str) -> Judgement | None:
    keys = (group, measure, "p50")
    return next((v for v in verdicts if (v.group, v.measure, v.quantile) == keys), None)
