"""The answer that a report opens with: how recovery grows, and which setting to use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overlay.trace_schema import Source
from spark.analysis.analysis import Analysis
from spark.analysis.comparison import BACKUPS
from spark.analysis.groups import Group, settings
from spark.analysis.judging import FEWEST_SIZES, NEGLIGIBLE, change_of, is_change, rate_of
from spark.analysis.recovery import MESSAGES
from spark.analysis.replay import departures, usual
from spark.analysis.results import Comparison, Growth, Judgement, Quantiles
from spark.report.outline import Number
from spark.report.tables import interval, share, shown

#: What an experiment does to a ring, and where: nobody can choose that it is otherwise.
_CONDITIONS = (
    *("crash_share", "crash_mode", "mode", "profile", "quiet", "ring.forming", "seconds"),
    "version",
)
_FEW = 100  #: incidents; of fewer, p99 says no more than the maximum
_CONDITION_TABLES = (
    "churn.",
    "faults.",
    "network.",
    "promises.",
    "records.",
    "units.",
    "workload.",
)
#: How brokers die, in words.
_DEATHS = {"power": "brokers lose power", "kill": "processes are killed"}


@dataclass(frozen=True, slots=True)
class Advice:
    """What the data say of one setting."""

    setting: str
    n: int
    words: str  #: a sentence


@dataclass(frozen=True, slots=True)
class Answer:
    """The first paragraph, and the numbers below it."""

    text: str
    numbers: tuple[Number, ...]
    group: Group | None  #: the group that it is about


def answer(analysis: Analysis) -> Answer:
    """Return what the data say first of all."""
    rows = [row for row in analysis.quantiles if row.measure in ("total", "repair")]
    if not any(row.count + row.open for row in rows):
        return Answer(
            "No broker failed in these runs, so there is nothing to say of recovery.", (), None
        )
    group = _main_group(analysis)
    own = _own(analysis, group)
    last = max(own, key=lambda row: row.n or 0)
    sentences = [
        f"{_where(group)}, {_how_long(last)}.",
        _never(analysis, group, own),
        _how_it_grows(analysis, group, last.measure),
        *([one.words for one in advice(analysis)[:2]] or [_no_settings()]),
    ]
    return Answer(" ".join(sentences), _numbers(analysis, group, own, last), group)


def advice(analysis: Analysis) -> list[Advice]:
    """Return what is said of each setting, by the median recovery time at the largest size.

    Where a setting was tried among several others, that is the family with the largest ring. The
    number of backups is for what is lost, and not advised by how long anything takes.
    """
    families: dict[tuple[object, ...], list[Comparison]] = {}
    for row in analysis.comparisons:
        is_asked = row.setting != BACKUPS and not is_condition(row.setting)
        if row.measure == "total" and row.quantile == "p50" and is_asked:
            others = tuple((k, v) for k, v in settings(row.parameters).items() if k != row.setting)
            key = (row.setting, row.source, row.scenario, row.profile, others)
            families.setdefault(key, []).append(row)
    found: dict[str, Advice] = {}
    for rows in families.values():
        largest = max(row.n for row in rows)
        one = _advice([row for row in rows if row.n == largest])
        if one.setting not in found or found[one.setting].n < one.n:
            found[one.setting] = one
    return list(found.values())


def is_condition(setting: str) -> bool:
    """Say whether a setting is part of the experiment, and not of the brokers."""
    return setting in _CONDITIONS or setting.startswith(_CONDITION_TABLES)


def _advice(rows: list[Comparison]) -> Advice:
    setting, n = rows[0].setting, rows[0].n
    place = f"(n = {n:,})"
    if any(row.value_at is None or row.base_at is None for row in rows):
        row = next(row for row in rows if row.value_at is None or row.base_at is None)
        return Advice(setting, n, f"Of {setting} nothing is advised: {row.words}.")
    times: dict[str, float] = {}
    for row in rows:
        times |= {row.value: row.value_at or 0.0, row.base: row.base_at or 0.0}
    best, rival, *others = sorted(times, key=lambda value: times[value])
    if not _is_told(rows, best, rival):
        words = f"{setting} {best} and {rival} cannot be told apart {place}."
        return Advice(setting, n, f"Which {setting} is the quickest cannot be told: {words}")
    if times[rival] < (1 + NEGLIGIBLE) * times[best]:
        words = f"{best} and {rival} differ by less than {NEGLIGIBLE:.0%} {place}."
        return Advice(setting, n, f"Which {setting} is used matters little: {words}")
    longer = f"with {rival} recovery takes {times[rival] / times[best]:.2f} times as long"
    if others and _is_told(rows, best, others[-1]):
        longer += f", and with {others[-1]} {times[others[-1]] / times[best]:.2f} times"
    return Advice(setting, n, f"Use {setting} {best}: {longer} {place}.")


def _is_told(rows: Iterable[Comparison], best: str, rival: str) -> bool:
    """Say whether the interval of the ratio of two settings leaves out 1."""
    row = next(row for row in rows if {row.value, row.base} == {best, rival})
    if row.ratio_low is None or row.ratio_high is None:
        return False
    return not row.ratio_low <= 1 <= row.ratio_high


def _main_group(analysis: Analysis) -> Group:
    """Return the group whose brokers are set as they usually are.

    It is one of the scenario that was seen at the most sizes, and of these the one with the most
    failures. Another group is taken if of the usual one it cannot be said how it grows.
    """

    def weight(group: Group) -> tuple[int, int]:
        own = _own(analysis, group)
        sizes = len({row.n for row in own if row.n})
        return sizes, sum(row.count + row.open for row in own)

    groups = [group for group in analysis.groups if _own(analysis, group)]
    largest = max(groups, key=weight)
    enough = min(FEWEST_SIZES, weight(largest)[0])
    alike = [
        group
        for group in groups
        if (group.source, group.scenario, group.profile)
        == (largest.source, largest.scenario, largest.profile)
        and weight(group)[0] >= enough
    ]
    return min(alike, key=lambda group: (departures(group), *(-part for part in weight(group))))


def _own(analysis: Analysis, group: Group) -> list[Quantiles]:
    """Return the rows of the time that is told of a group: live brokers see no recovery time."""
    for measure in ("total", "repair"):
        own = [
            row
            for row in analysis.quantiles
            if (row.group, row.measure) == (group, measure) and row.count + row.open
        ]
        if own:
            return own
    return []


def _where(group: Group) -> str:
    """Say where the numbers are from: simulated or live, which faults, which profile."""
    own = {**usual(group.scenario), **settings(group.parameters)}
    if group.source != Source.SIMULATOR:
        return f"Measured in live rings (profile {group.profile})"
    modes = {
        value
        for key, value in own.items()
        if key == "crash_mode" or (key.startswith("faults.") and key.endswith(".mode"))
    }
    told = [words for mode, words in _DEATHS.items() if mode in modes]
    deaths = f", in which {' or '.join(told)}" if told else ""
    return f"Simulated: in the scenario {group.scenario}{deaths} (profile {group.profile})"


def _how_long(last: Quantiles) -> str:
    where = f"a ring of {last.n:,} brokers" if last.n else "a ring of unknown size"
    what = "a broker fails" if last.measure == "total" else "a failure is confirmed"
    if last.p50 is None:
        return (
            f"{where} was not seen whole again in {last.open:,} of "
            f"{last.count + last.open:,} cases after {what}, so there is no median"
        )
    return f"{where} is whole again {shown(last.p50)} s after {what} in the median, {_slow(last)}"


def _slow(last: Quantiles) -> str:
    """Say how long slow ones take: of few incidents, p99 is no more than the slowest."""
    if last.count + last.open < _FEW and last.max is not None:
        return f"and after {shown(last.max)} s in the slowest of {last.count} cases"
    if last.p99 is None:
        return "and 99 of 100 are not reached"
    return f"and after {shown(last.p99)} s in 99 of 100 cases"


def _never(analysis: Analysis, group: Group, own: list[Quantiles]) -> str:
    """Say how many failures were not seen repaired."""
    still, of = _counted(own)
    others = [row for other in analysis.groups if other != group for row in _own(analysis, other)]
    told = _seen(still, of)
    if others:
        told += f"; with other settings or scenarios, {_seen(*_counted(others))}"
    return f"{told[:1].upper()}{told[1:]}."


def _seen(still: int, of: int) -> str:
    if not still:
        return f"all {of:,} failures were seen repaired"
    return f"{still:,} of {of:,} failures ({share(still / of)}) were not seen repaired"


def _counted(rows: Iterable[Quantiles]) -> tuple[int, int]:
    known = list(rows)
    still = sum(row.open for row in known)
    return still, still + sum(row.count for row in known)


def _how_it_grows(analysis: Analysis, group: Group, measure: str) -> str:
    time = _verdict(analysis.verdicts, group, measure, "p50")
    if time is None:
        return "How that grows with the ring cannot be told: the size of the ring is unknown."
    if time.growth is Growth.NOT_REACHED:
        sizes = ", ".join(f"{n:,}" for n in time.missing)
        return (
            f"How that grows cannot be told: too many were not seen repaired at n = {sizes} for "
            "a median with its interval."
        )
    if time.n_min == time.n_max:
        return "It was measured at one size, so how it grows cannot be told."
    slow = _verdict(analysis.verdicts, group, measure, "p99")
    told = f"From {time.n_min:,} to {time.n_max:,} brokers the median {_from_to(time)}"
    if slow is not None:
        told += f", and the time of 99 in 100 {_from_to(slow)}"
    messages = _verdict(analysis.verdicts, group, MESSAGES, "p50")
    if messages is not None and messages.first is not None:
        told += f"; the messages of a failure {_from_to(messages)}"
    return f"{told}. {_law(analysis, time)}"


def _from_to(verdict: Judgement) -> str:
    """Say what was measured at the smallest and at the largest size."""
    if verdict.missing or verdict.first is None or verdict.last is None:
        return "is not reached at all sizes"
    unit = "" if verdict.measure == MESSAGES else " s"
    values = f"from {shown(verdict.first)} to {shown(verdict.last)}{unit}"
    verb = "go" if not is_change(verdict) else "rise" if verdict.last > verdict.first else "fall"
    if verdict.measure != MESSAGES:  # which are many
        verb = {"go": "goes"}.get(verb, f"{verb}s")
    if verdict.change is None:
        return f"{verb} {values}"
    return f"{verb} {values} ({change_of(verdict)})"


def _law(analysis: Analysis, verdict: Judgement) -> str:
    """Say which law explains it, and at which rate; nothing of laws that cannot be told apart."""
    laws = " or ".join(verdict.models)
    key = (verdict.group, verdict.measure, verdict.quantile)
    fits = {
        fit.law.value: fit for fit in analysis.fits if (fit.group, fit.measure, fit.quantile) == key
    }
    match verdict.growth:
        case Growth.FLAT:
            return "The median does not grow with the ring."
        case Growth.TOO_FEW:
            return "These are too few sizes to say by which law it grows."
        case Growth.UNCLEAR:
            return "These sizes and seeds cannot tell whether it grows."
        case Growth.UNEXPLAINED:
            return "By which law the median changes cannot be told."
        case Growth.FALLING:
            return "The median falls as the ring grows."
        case Growth.UNDECIDED:
            return f"The median grows like {laws}, which these sizes cannot tell apart."
        case _:
            return f"The median grows like {laws}: {rate_of(fits[verdict.models[0]])}."


def _no_settings() -> str:
    return "Which setting to use cannot be told: these runs do not differ in one."


def _numbers(
    analysis: Analysis, group: Group, own: list[Quantiles], last: Quantiles
) -> tuple[Number, ...]:
    n = f"{last.n:,} brokers" if last.n else "ring of unknown size"
    what = "until the ring is whole" if last.measure == "total" else "from confirmed to whole"
    slow = "not reached" if last.p99 is None else f"{shown(last.p99)} s"
    median = Number(
        "not reached" if last.p50 is None else f"{shown(last.p50)} s",
        f"median {what}, {n}{_sure(last)}; 99 of 100: {slow}",
    )
    still, of = _counted(own)
    never = Number(f"{still:,} of {of:,}", "failures were not seen repaired")
    time = _verdict(analysis.verdicts, group, last.measure, "p50")
    if time is None or time.change is None or time.n_min == time.n_max:
        return median, never
    ends = ""
    if time.change_low is not None and time.change_high is not None:
        ends = f" (95 % interval {time.change_low:+.0%} to {time.change_high:+.0%})"
    grown = f"median, from {time.n_min:,} to {time.n_max:,} brokers{ends}"
    return median, Number(f"{time.change:+.0%}", grown), never


def _sure(row: Quantiles) -> str:
    if row.p50 is None:
        return ""
    told = interval(row.p50_low, row.p50_high)
    return " (one seed: no interval)" if row.p50_low is None else f" (95 % interval {told})"


def _verdict(
    verdicts: Iterable[Judgement], group: Group, measure: str, quantile: str
) -> Judgement | None:
    keys = (group, measure, quantile)
    return next((v for v in verdicts if (v.group, v.measure, v.quantile) == keys), None)
