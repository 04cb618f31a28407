"""The sections on how long recovery takes, how it grows, and what settings do to it."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.trace_schema import PHASES
from spark.analysis.analysis import Analysis
from spark.analysis.groups import Group, names, settings
from spark.analysis.recovery import MESSAGES
from spark.analysis.replay import usual
from spark.analysis.results import Comparison, Fit, Growth, Judgement, Law, Quantiles
from spark.report import plots
from spark.report.headline import is_condition
from spark.report.outline import Block, Figure, Heading, Listed, Paragraph
from spark.report.tables import Table, interval, size

MEANINGS = {
    **{name: phase.meaning for name, phase in PHASES.items()},
    MESSAGES: "all that were sent on account of one incident",
}
MAX_LINES = 6  #: of one plot
MAX_CURVES = 7
MAX_RATIOS = 16


def lead(analysis: Analysis, group: Group | None) -> Figure | None:
    """Return the plot that shows the answer: recovery time over n, the group of it first."""
    if group is None:
        return None
    alike = [g for g in analysis.groups if (g.source, g.scenario) == (group.source, group.scenario)]
    chosen = [group, *(g for g in alike if g != group)][:MAX_LINES]
    told = {g: _set_apart(g, alike) for g in chosen}
    lines = {told[g]: rows for g in chosen if (rows := sized(analysis, g, "total"))}
    if told[group] not in lines:
        return None
    fits = _told_law(analysis, group)
    svg = plots.lead_plot("lead", lines, fits)
    left = len(alike) - len(chosen)
    dropped = f" {left} more settings are in the tables." if left > 0 else ""
    law = f" The dashed line is {fits[0].law} fitted to the median." if fits else ""
    missing = (
        ""
        if all(_reached(rows) for rows in lines.values())
        else (" Where a point is missing, too many were not seen repaired.")
    )
    caption = (
        "Seconds until the ring is whole, over the number of brokers. Bars are 95 % intervals over "
        f"seeds.{law}{missing}{dropped}"
    )
    return Figure(svg, caption)


def _told_law(analysis: Analysis, group: Group) -> list[Fit]:
    """Return the law of the median, if it can be told."""
    key = (group, "total", "p50")
    verdict = next((v for v in analysis.verdicts if (v.group, v.measure, v.quantile) == key), None)
    untold = (Growth.UNCLEAR, Growth.UNDECIDED, Growth.UNEXPLAINED)
    if verdict is None or verdict.growth in untold:
        return []
    found = _supported(analysis, *key)
    flat = [fit for fit in found if fit.law is Law.CONSTANT and verdict.growth is Growth.FLAT]
    return (flat or found)[:1]


def _set_apart(group: Group, alike: list[Group]) -> str:
    """Return the settings that tell a group from those alike, in words for a legend."""
    every = [{**settings(each.parameters), "profile": each.profile} for each in alike]
    own = {**settings(group.parameters), "profile": group.profile}
    keys = [key for key in own if len({each.get(key) for each in every}) > 1]
    usual_of = usual(group.scenario)
    missing = {key for each in every for key in each if key not in own}
    told = [f"{key} {own[key]}" for key in keys]
    told += [f"{key} {usual_of.get(key, 'as usual')}" for key in sorted(missing)]
    return ", ".join(told)


def _reached(rows: list[Quantiles]) -> bool:
    return all(row.p50 is not None and row.p99 is not None for row in rows)


def phases(analysis: Analysis, group: Group | None) -> Iterator[Block]:
    """Phases of recovery: what takes the time."""
    measured = [row for row in analysis.quantiles if row.count + row.open]
    if not measured or group is None:
        return
    yield Heading("Phases: what takes the time")
    parts = {name: sized(analysis, group, name) for name in PHASES}
    if any(parts.values()):
        svg = plots.phases_plot("phases", {name: rows for name, rows in parts.items() if rows})
        told = names(analysis.groups)[group]
        yield Figure(svg, f"{told}: p50 and p99 of each phase, with 95 % intervals over seeds.")
    yield Paragraph(
        "; ".join(f"{name}: {MEANINGS[name]}" for name in MEANINGS) + ". Medians of phases do not "
        "add up to the median of their sum.",
        "note",
    )
    yield _quantile_table(analysis, [row for row in measured if row.group == group], group)
    if others := [
        row
        for row in measured
        if row.group != group and row.measure in ("total", "repair", MESSAGES)
    ]:
        yield _largest_table(analysis, others)


def _quantile_table(analysis: Analysis, rows: list[Quantiles], group: Group) -> Table:
    return Table(
        caption=f"{names(analysis.groups)[group]}: seconds, or messages per incident",
        columns=(
            *("measure", "n", "seeds", "incidents", "not seen to end", "p50", "95 % interval"),
            *("p95", "p99", "95 % interval", "max"),
        ),
        rows=tuple(
            (
                *(r.measure, size(r.n), r.units, r.count + r.open, r.open, r.p50),
                *(interval(r.p50_low, r.p50_high), r.p95, r.p99),
                *(interval(r.p99_low, r.p99_high), r.max),
            )
            for r in rows
        ),
    )


def _largest_table(analysis: Analysis, rows: list[Quantiles]) -> Table:
    largest: dict[tuple[Group, str], Quantiles] = {}
    for row in rows:
        largest[row.group, row.measure] = row  # they come sorted by size
    told = names(analysis.groups)
    return Table(
        caption="The other groups, each at its largest size (all sizes are in quantiles.csv)",
        columns=(
            "group",
            "measure",
            "n",
            "incidents",
            "not seen to end",
            "p50",
            "95 % interval",
            "p99",
            "95 % interval",
        ),
        rows=tuple(
            (
                *(told[r.group], r.measure, size(r.n), r.count + r.open, r.open, r.p50),
                *(interval(r.p50_low, r.p50_high), r.p99, interval(r.p99_low, r.p99_high)),
            )
            for r in largest.values()
        ),
    )


def survival(analysis: Analysis, group: Group | None) -> Iterator[Block]:
    """Survival of holes, with those that a run did not see repaired."""
    rows = analysis.survived
    if not rows:
        return
    yield Heading("Survival: how long a hole lasts")
    told = names(analysis.groups)
    mine = [row for row in analysis.survival if row.group == group and row.n is not None]
    if mine:
        all_sizes = sorted({row.n for row in mine if row.n is not None})
        kept = all_sizes[:: -(-len(all_sizes) // MAX_CURVES)]
        curves = {n: [row for row in mine if row.n == n] for n in kept}
        svg = plots.survival_plot("survival", curves)
        yield Figure(
            svg,
            f"{told[mine[0].group]}: share of failures not yet repaired (Kaplan-Meier). Failures "
            "that a run did not see repaired count until its end; bands are 95 % intervals over "
            "seeds.",
        )
    yield Table(
        caption="Failures, and those that a run did not see repaired",
        columns=("group", "n", "failures", "not seen repaired"),
        rows=tuple((told[r.group], size(r.n), r.failures, r.censored) for r in rows),
    )


def laws(analysis: Analysis, group: Group | None) -> Iterator[Block]:
    """Growth with the size of the ring."""
    if not analysis.verdicts:
        return
    yield Heading("Growth: laws, and how sure they are")
    told = names(analysis.groups)
    if group is not None:
        panels = {}
        for measure in ("total", MESSAGES):
            if rows := sized(analysis, group, measure):
                fits = {q: _supported(analysis, group, measure, q)[:2] for q in ("p50", "p99")}
                panels[measure] = (rows, fits)
        if panels:
            svg = plots.laws_plot("laws", panels)
            yield Figure(
                svg,
                f"{told[group]}: quantiles, and the laws that the verdicts name. Bands are where "
                "the law lies with 95 %; a dotted line is a second law that explains the data too.",
            )
    ranked = [v for v in analysis.verdicts if v.measure in ("total", "repair", MESSAGES)]
    several = len({v.group for v in ranked}) > 1
    yield Listed(
        tuple(
            _line(v, told[v.group] if several else "")
            for v in ranked
            if v.group == group or v.quantile == "p50"
        )
    )
    fitted = [
        fit for fit in analysis.fits if fit.group == group and fit.measure in ("total", MESSAGES)
    ]
    if fitted:
        yield Table(
            caption="The five laws (all groups and measures are in fits.csv)",
            columns=(
                "measure",
                "quantile",
                "law",
                "intercept",
                "slope",
                "criterion",
                "best in",
                "change",
            ),
            rows=tuple(
                (
                    *(f.measure, f.quantile, f.law.value, f.intercept, f.slope, f.criterion),
                    *("–" if f.share is None else f"{f.share:.0%}",),
                    "–" if f.change is None else f"{f.change:+.0%}",
                )
                for f in fitted
            ),
        )
    yield Paragraph(
        "A law is intercept + slope × law(n). The lower its criterion, the better; a law is named "
        "if no other is nearly as good. Best in: share of the replicates of the bootstrap. Change: "
        "what the law says of the largest size, as a share of what it says of the smallest; a "
        "constant has none. Measured is what the data show at these two sizes. A verdict holds for "
        "the sizes measured, and says nothing of larger ones.",
        "note",
    )


def _line(verdict: Judgement, group: str) -> str:
    head = f"{group}: " if group else ""
    return f"{head}{verdict.measure} ({verdict.quantile}): {verdict.words}"


def comparisons(analysis: Analysis) -> Iterator[Block]:
    """Settings compared."""
    rows = _largest(analysis.comparisons)
    if not rows:
        return
    yield Heading("Settings compared")
    shown = [row for row in rows if row.quantile == "p50" and row.ratio is not None][:MAX_RATIOS]
    if shown:
        labels = [
            f"{row.measure}: {row.setting} {row.value} / {row.base} (n = {row.n:,})"
            for row in shown
        ]
        yield Figure(
            plots.ratios_plot("ratios", shown, labels),
            "Ratios of medians, at the largest common size. Left of the line: the first is less. "
            "What is not reached has none.",
        )
    told = names(analysis.groups)
    several = len({row.group for row in rows}) > 2
    yield Listed(
        tuple(row.words for row in rows if row.measure == "total" or row.quantile == "p50")
    )
    yield Table(
        caption="Differences at the largest common size (all sizes are in comparisons.csv)",
        columns=(
            *(("group",) if several else ()),
            *("setting", "value", "base", "n", "measure", "quantile", "value at", "base at"),
            *("difference", "95 % interval", "ratio", "95 % interval", "Cliff's delta"),
        ),
        rows=tuple(
            (
                *((told[r.group],) if several else ()),
                *(r.setting, r.value, r.base, r.n, r.measure, r.quantile, r.value_at, r.base_at),
                *(r.difference, interval(r.difference_low, r.difference_high)),
                *(r.ratio, interval(r.ratio_low, r.ratio_high), r.effect),
            )
            for r in rows
        ),
    )


def _largest(rows: tuple[Comparison, ...]) -> list[Comparison]:
    """Return each comparison at its largest size; settings come before conditions."""
    largest: dict[tuple[object, ...], Comparison] = {}
    for row in rows:
        key = (row.group, row.setting, row.value, row.base, row.measure, row.quantile)
        if key not in largest or largest[key].n < row.n:
            largest[key] = row
    return sorted(
        largest.values(), key=lambda row: (is_condition(row.setting), row.measure != "total")
    )


def counts(analysis: Analysis) -> Table:
    """Return runs and incidents by verdict."""
    told = names(analysis.groups)
    return Table(
        caption="Runs, and incidents by verdict",
        columns=("group", "n", "runs", "seeds", "broker failed", "link failed", "refuted", "open"),
        rows=tuple(
            (
                *(told[c.group], size(c.n), c.runs, c.seeds),
                *(c.broker_failed, c.link_failed, c.refuted, c.open),
            )
            for c in analysis.counts
        ),
    )


def sized(analysis: Analysis, group: Group, measure: str) -> list[Quantiles]:
    """Return the rows of a group and measure that have a size."""
    return [
        row
        for row in analysis.quantiles
        if (row.group, row.measure) == (group, measure) and row.n is not None
    ]


def _supported(analysis: Analysis, group: Group, measure: str, quantile: str) -> list[Fit]:
    """Return the fits of the laws that a verdict names, best first."""
    key = (group, measure, quantile)
    verdict = next((v for v in analysis.verdicts if (v.group, v.measure, v.quantile) == key), None)
    fits = {f.law.value: f for f in analysis.fits if (f.group, f.measure, f.quantile) == key}
    return [fits[law] for law in verdict.models if law in fits] if verdict else []
