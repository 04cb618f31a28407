"""The sections on a ring at work: churn, the delivery of events, and the slowest incidents."""

from __future__ import annotations

from collections.abc import Iterator

from spark.analysis.analysis import Analysis
from spark.analysis.groups import names
from spark.analysis.results import Churn, Quantiles
from spark.report import plots
from spark.report.outline import Block, Command, Figure, Heading, Paragraph
from spark.report.tables import Table, interval, share, size

FEWEST_RATES = 3  #: of failures, to draw recovery over them


def churn(analysis: Analysis) -> Iterator[Block]:
    """How the ring lives with failures."""
    rows = analysis.churn
    if not rows:
        return
    yield Heading("Churn: errors, availability, overlaps")
    if points := _over_rates(analysis):
        yield Figure(
            plots.churn_plot("churn", points),
            "Median recovery over the rate of failures, with 95 % intervals over seeds.",
        )
    told = names(analysis.groups)
    yield Table(
        caption="The ring under failures",
        columns=(
            *("group", "n", "broker hours", "failures per broker hour"),
            *("false suspicions per broker hour", "held for dead alive", "ring whole"),
            "neighbours linked",
        ),
        rows=tuple(
            (
                *(told[r.group], r.n, r.broker_hours, r.failures_per_broker_hour),
                *(r.false_suspicions_per_broker_hour, r.false_deaths, share(r.whole_share)),
                share(r.pairs_share),
            )
            for r in rows
        ),
    )
    overlapping = [row for row in rows if row.overlapping]
    if overlapping:
        yield Table(
            caption="Failures while another was unrepaired, and alone (median recovery in seconds)",
            columns=("group", "n", "alone", "p50", "overlapping", "p50", "times as long"),
            rows=tuple(
                (
                    *(told[r.group], r.n, r.alone, r.alone_p50_s),
                    *(r.overlapping, r.overlapping_p50_s, r.slowdown),
                )
                for r in overlapping
            ),
        )


def _over_rates(analysis: Analysis) -> dict[str, list[tuple[Churn, Quantiles]]]:
    """Return cells of one scenario and size at different rates of failures, by their rates."""
    recovery = {
        (q.group, q.n): q for q in analysis.quantiles if q.measure == "total" and q.p50 is not None
    }
    lines: dict[str, list[tuple[Churn, Quantiles]]] = {}
    for row in analysis.churn:
        if (found := recovery.get((row.group, row.n))) and row.failures_per_broker_hour > 0:
            lines.setdefault(f"{row.scenario}, {row.profile}, n = {row.n:,}", []).append(
                (row, found)
            )
    return {
        label: sorted(pairs, key=lambda pair: pair[0].failures_per_broker_hour)
        for label, pairs in lines.items()
        if len(pairs) >= FEWEST_RATES
    }


def delivery(analysis: Analysis) -> Iterator[Block]:
    """What became of events."""
    if not analysis.delivery:
        return
    yield Heading("Delivery of events")
    told = names(analysis.groups)
    yield Table(
        caption="What became of events, by class of links (an event at a subscriber counts once)",
        columns=(
            *("group", "n", "class", "events", "came once", "lost", "95 % interval", "unexplained"),
            *("late", "twice", "out of order", "p50 s", "p99 s"),
        ),
        rows=tuple(
            (
                *(told[r.group], size(r.n), r.link_class, r.events, share(r.once_share)),
                *(share(r.lost_share), _shares(r.lost_low, r.lost_high), r.unexplained),
                *(r.late, r.twice, r.disordered, r.p50_s, r.p99_s),
            )
            for r in analysis.delivery
        ),
    )
    if analysis.interruptions:
        yield Table(
            caption=(
                "Interruptions: the longest time without an event that came, around a fault, in "
                "seconds, over flows from one publisher to one subscriber"
            ),
            columns=(
                "group",
                "n",
                "class",
                "fault",
                "befell",
                "flows",
                "silent",
                "p50",
                "p99",
                "max",
                "usual gap",
            ),
            rows=tuple(
                (
                    *(told[r.group], size(r.n), r.link_class, r.fault, r.struck, r.flows, r.silent),
                    *(r.p50_s, r.p99_s, r.max_s, r.usual_s),
                )
                for r in analysis.interruptions
            ),
        )


def _shares(low: float | None, high: float | None) -> str:
    return interval(None, None) if low is None or high is None else f"{share(low)} to {share(high)}"


def outliers(analysis: Analysis) -> Iterator[Block]:
    """The slowest incidents, and how to see them again."""
    if not analysis.outliers:
        return
    yield Heading("Outliers: beyond the p99.9 of their own scenario")
    told = names(analysis.groups)
    yield Table(
        caption="The slowest incidents, in seconds",
        columns=("group", "n", "seed", "incident", "took", "", "p99.9"),
        rows=tuple(
            (
                *(told[r.group], size(r.n), r.seed, r.incident_id, r.total_s),
                *("" if r.repaired else "or more: not repaired", r.beyond_s),
            )
            for r in analysis.outliers
        ),
    )
    commands = dict.fromkeys(row.command for row in analysis.outliers if row.command)
    if commands:
        yield Paragraph("These commands show their runs again:")
        yield Command("\n".join(commands))
