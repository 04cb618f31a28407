"""The sections on units and on records: what recovers at which level, and what a death costs."""

from __future__ import annotations

from collections.abc import Iterator

from spark.analysis.analysis import Analysis
from spark.analysis.comparison import BACKUPS
from spark.analysis.groups import names, settings
from spark.report.outline import Block, Heading, Paragraph
from spark.report.tables import Table, share, size

#: Whom a death of each level takes away.
DEAD = {
    1: "a member of a cluster",
    2: "the steward of a super-cluster",
    3: "the steward of a super-super-cluster",
    4: "the steward of the overlay",
}
USUAL = "as usual"


def levels(analysis: Analysis) -> Iterator[Block]:
    """Recovery by level."""
    if not analysis.levels:
        return
    yield Heading("Recovery by level")
    told = names(analysis.groups)
    yield Table(
        caption="Seconds from a death until the ring is whole, and until its units are in order",
        columns=(
            *("group", "n", "level", "died", "deaths", "ring p50", "p99", "not whole"),
            *("units p50", "p99", "max", "not in order"),
        ),
        rows=tuple(
            (
                *(told[r.group], size(r.n), r.level, DEAD[r.level], r.failures),
                *(r.ring_p50_s, r.ring_p99_s, r.ring_open),
                *(r.units_p50_s, r.units_p99_s, r.units_max_s, r.units_open),
            )
            for r in analysis.levels
        ),
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
    told = names(analysis.groups)
    yield Table(
        caption="Deaths, and the records of which the dead broker was the last to have the bytes",
        columns=("group", "n", "backups", "deaths", "that cost records", "share", "records lost"),
        rows=tuple(
            (
                *(told[r.group], size(r.n), settings(r.parameters).get(BACKUPS, USUAL)),
                *(r.failures, r.costly, share(r.costly / r.failures), r.lost),
            )
            for r in analysis.records
        ),
    )
