"""The sections on a ring at work: churn, units, records, events, and the slowest incidents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from spark.analysis.analysis import Analysis
from spark.analysis.comparison import BACKUPS
from spark.analysis.delivery import Delivery, Interruption
from spark.analysis.groups import names, settings
from spark.analysis.results import Churn, Level, Outlier, Quantiles, Records
from spark.report import plots
from spark.report.outline import Block, Command, Figure, Heading, Paragraph
from spark.report.tables import Cell, Table, interval, share, size

FEWEST_RATES = 3  #: of failures, to draw recovery over them
#: Whom a death of each level takes away.
DEAD = {
    1: "a member of a cluster",
    2: "the steward of a super-cluster",
    3: "the steward of a super-super-cluster",
    4: "the steward of the overlay",
}

_Row = TypeVar("_Row", bound=Churn | Level | Records | Delivery | Interruption | Outlier)


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
    yield _table(
        analysis,
        "The ring under failures",
        (
            *("broker hours", "failures per broker hour", "false suspicions per broker hour"),
            *("held for dead alive", "ring whole", "neighbours linked"),
        ),
        {
            r: (
                *(r.broker_hours, r.failures_per_broker_hour, r.false_suspicions_per_broker_hour),
                *(r.false_deaths, share(r.whole_share), share(r.pairs_share)),
            )
            for r in rows
        },
    )
    if overlapping := [row for row in rows if row.overlapping]:
        yield _table(
            analysis,
            "Failures while another was unrepaired, and alone (median recovery in seconds)",
            ("alone", "p50", "overlapping", "p50", "times as long"),
            {
                r: (r.alone, r.alone_p50_s, r.overlapping, r.overlapping_p50_s, r.slowdown)
                for r in overlapping
            },
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


def levels(analysis: Analysis) -> Iterator[Block]:
    """Recovery by level of units."""
    if not analysis.levels:
        return
    yield Heading("Recovery by level")
    yield _table(
        analysis,
        "Seconds from a death until the ring is whole, and until its units are in order",
        (
            *("level", "died", "deaths", "ring p50", "p99", "not whole"),
            *("units p50", "p99", "max", "not in order"),
        ),
        {
            r: (
                *(r.level, DEAD[r.level], r.failures, r.ring_p50_s, r.ring_p99_s, r.ring_open),
                *(r.units_p50_s, r.units_p99_s, r.units_max_s, r.units_open),
            )
            for r in analysis.levels
        },
    )
    yield Paragraph(
        "Level 1 is the cluster: it is in order once nobody counts the dead among its members. A "
        "death of a higher level took the steward of larger units as well, up to that level: they "
        "are in order once each has another one.",
        "note",
    )


def records(analysis: Analysis) -> Iterator[Block]:
    """What deaths have cost where brokers own records."""
    if not analysis.records:
        return
    yield Heading("Records lost, by number of backups")
    yield _table(
        analysis,
        "Deaths, and the records of which the dead broker was the last to have the bytes",
        ("backups", "deaths", "that cost records", "share", "records lost"),
        {
            r: (
                *(settings(r.parameters).get(BACKUPS, "as usual"), r.failures),
                *(r.costly, share(r.costly / r.failures), r.lost),
            )
            for r in analysis.records
        },
    )


def delivery(analysis: Analysis) -> Iterator[Block]:
    """What became of events."""
    if not analysis.delivery:
        return
    yield Heading("Delivery of events")
    yield _table(
        analysis,
        "What became of events, by class of links (an event at a subscriber counts once)",
        (
            *("class", "events", "came once", "lost", "95 % interval", "unexplained"),
            *("late", "twice", "out of order", "p50 s", "p99 s"),
        ),
        {
            r: (
                *(r.link_class, r.events, share(r.once_share)),
                *(share(r.lost_share), _shares(r.lost_low, r.lost_high), r.unexplained),
                *(r.late, r.twice, r.disordered, r.p50_s, r.p99_s),
            )
            for r in analysis.delivery
        },
    )
    if analysis.interruptions:
        yield _table(
            analysis,
            "Interruptions: the longest time without an event that came, around a fault, in "
            "seconds, over flows from one publisher to one subscriber",
            (
                *("class", "fault", "befell", "flows", "silent"),
                *("p50", "p99", "max", "usual gap"),
            ),
            {
                r: (
                    *(r.link_class, r.fault, r.struck, r.flows, r.silent),
                    *(r.p50_s, r.p99_s, r.max_s, r.usual_s),
                )
                for r in analysis.interruptions
            },
        )


def _shares(low: float | None, high: float | None) -> str:
    return interval(None, None) if low is None or high is None else f"{share(low)} to {share(high)}"


def outliers(analysis: Analysis) -> Iterator[Block]:
    """The slowest incidents, and how to see them again."""
    if not analysis.outliers:
        return
    yield Heading("Outliers: beyond the p99.9 of their own scenario")
    yield _table(
        analysis,
        "The slowest incidents, in seconds",
        ("seed", "incident", "took", "", "p99.9"),
        {
            r: (
                *(r.seed, r.incident_id, r.total_s),
                *("" if r.repaired else "or more: not repaired", r.beyond_s),
            )
            for r in analysis.outliers
        },
    )
    commands = dict.fromkeys(row.command for row in analysis.outliers if row.command)
    if commands:
        yield Paragraph("These commands show their runs again:")
        yield Command("\n".join(commands))


def _table(
    analysis: Analysis,
    caption: str,
    columns: tuple[str, ...],
    rows: Mapping[_Row, tuple[Cell, ...]],
) -> Table:
    """Return a table of rows with their groups and sizes in front."""
    told = names(analysis.groups)
    return Table(
        caption=caption,
        columns=("group", "n", *columns),
        rows=tuple((told[row.group], size(row.n), *cells) for row, cells in rows.items()),
    )
