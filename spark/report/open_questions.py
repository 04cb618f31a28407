"""What the data could not answer: which run would, and what was not measured at all."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.trace_schema import Source
from spark.analysis.analysis import Analysis
from spark.analysis.groups import Group, names
from spark.analysis.outliers import ENOUGH
from spark.analysis.recovery import MEASURES, MESSAGES
from spark.report.headline import is_condition

_SHOWN = 3  #: groups that are named in one sentence
_ASKED = ("total", "repair", MESSAGES)


def questions(analysis: Analysis) -> list[str]:
    """Return sentences: a question, and the run that would answer it."""
    return list(dict.fromkeys(_questions(analysis)))


def _questions(analysis: Analysis) -> Iterator[str]:
    if not any(row.count + row.open for row in analysis.quantiles):
        yield "How rings recover: chordal recovery sweep --out DIR"
        return
    told = names(analysis.groups)
    yield from _of_growth(analysis)
    if analysis.facts.simulated and not any(
        not is_condition(row.setting) for row in analysis.comparisons
    ):
        yield (
            "Which setting to use: these runs do not differ in one. "
            "A sweep with --set KEY=VALUE,VALUE would tell."
        )
    lonely = sorted(
        {told[c.group] for c in analysis.counts if c.seeds == 1 and c.source == Source.SIMULATOR}
    )
    if lonely:
        yield f"How sure numbers from one seed are ({lonely[0]}): --seeds 20 would tell."
    if analysis.facts.simulated and not analysis.delivery:
        yield (
            "What becomes of events: a scenario with whole brokers and a workload would tell, such "
            "as chordal sim run delivery-under-churn --out DIR."
        )
    few = [r for r in analysis.quantiles if r.measure == "total" and r.count + r.open < ENOUGH]
    if few and not analysis.outliers:
        most = max(few, key=lambda row: row.count + row.open)
        yield (
            f"Which incidents are beyond p99.9: {ENOUGH:,} failures of one size are needed, and "
            f"there are at most {most.count + most.open:,}. More seeds would tell."
        )


def _of_growth(analysis: Analysis) -> Iterator[str]:
    """Yield what verdicts leave open: what one run would tell stands in one sentence."""
    told = names(analysis.groups)
    asked: dict[str, dict[Group, dict[str, None]]] = {}
    for verdict in analysis.verdicts:
        if verdict.question and verdict.measure in _ASKED:
            of_group = asked.setdefault(verdict.question, {}).setdefault(verdict.group, {})
            of_group[f"{verdict.measure} ({verdict.quantile})"] = None
    for question, groups in asked.items():
        alike: dict[str, list[str]] = {}
        for group, names_of in groups.items():
            alike.setdefault(", ".join(names_of), []).append(told[group])
        for measures, whose in alike.items():
            shown = "; ".join(whose[:_SHOWN])
            more = f"; {len(whose) - _SHOWN} groups more" if len(whose) > _SHOWN else ""
            yield (
                f"How these grow: {measures} ({shown}{more}). "
                f"{question[:1].upper()}{question[1:]} would tell."
            )


def footnotes(analysis: Analysis) -> list[str]:
    """Return what was not measured, and why."""
    found = []
    told = names(analysis.groups)
    measured = {(row.group, row.measure) for row in analysis.quantiles if row.count}
    failed = {row.group for row in analysis.quantiles if row.count + row.open}
    for group in analysis.groups:
        missing = [name for name in MEASURES if (group, name) not in measured]
        if group not in failed:
            found.append(f"{told[group]}: no broker failed.")
        elif missing:
            why = (
                "live brokers do not see when another one dies"
                if group.source == Source.LIVE
                else "no incident got so far"
            )
            found.append(f"{told[group]}: {', '.join(missing)} not measured: {why}.")
    found.append(
        "The traces have no columns for duties taken, clients resumed and hops of an incident, so "
        "these are not measured. The interruption that clients see is, where there are probes."
    )
    found.append(
        "Times are in seconds of the run's clock: virtual in the simulator. Quantiles are of all "
        "failures: what was not seen to end counts as at risk for as long as it was seen (Kaplan "
        "and Meier), and a dash stands where a quantile is not reached. Intervals of quantiles are "
        "bootstraps over seeds, with 500 replicates; those of survival have seeds as clusters."
    )
    return found
