"""What must hold of each row of a table, and which columns no two rows may share.

The rules are expressions of SQL, so one aggregation checks them all, wherever the rows come from.
A rule speaks of rows for which its expression is true: those break it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from overlay.trace_schema import Deed, Incident, Probe, Run, Traffic
from spark.dataset.column_types import Kind, columns

Record = type[Run] | type[Incident] | type[Probe] | type[Traffic]

#: Times and counts are below this, so that no difference of two and no sum of three overflows.
LARGEST = 2**61
MAX_BROKERS = 2**32  #: places on a ring

#: Columns whose values, taken together, no two rows share.
KEYS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    Run: ("run_id",),
    Incident: ("run_id", "incident_id", "observer"),
    Probe: ("run_id", "publisher", "link_class", "sequence", "subscriber"),
    Traffic: ("run_id", "broker", "from_ns"),
    Deed: ("run_id", "step", "kind", "subject", "other"),
}


class Rule(NamedTuple):
    """What must not be."""

    broken: str  #: expression of SQL
    words: str  #: what is wrong with such a row


_ORDERS: dict[Record, tuple[tuple[str, str], ...]] = {
    Run: (),
    # A broker may be suspected before it fails, and a ring be repaired before all are sure.
    Incident: (("failed_ns", "repaired_ns"), ("failed_ns", "chords_repaired_ns")),
    Probe: (("published_ns", "delivered_ns"),),
    Traffic: (("from_ns", "to_ns"),),
}


def rules(record: Record) -> tuple[Rule, ...]:
    """Return the rules for rows of a table."""
    return (*_of_columns(record), *_of_orders(record))


def _of_columns(record: Record) -> list[Rule]:
    found = []
    for column in columns(record):
        name = column.name
        if not column.nullable:
            found.append(Rule(f"{name} IS NULL", f"{name} is missing"))
        if column.values is not None:
            known = ", ".join(f"'{value}'" for value in sorted(column.values))
            found.append(Rule(f"{name} NOT IN ({known})", f"{name} is none of {known}"))
        if column.kind is Kind.INTEGER and name != "seed":
            least, most = (1, MAX_BROKERS) if name == "nodes" else (0, LARGEST)
            broken = f"{name} NOT BETWEEN {least} AND {most}"
            found.append(Rule(broken, f"{name} is not between {least} and {most}"))
    return found


def _of_orders(record: Record) -> list[Rule]:
    return [
        Rule(f"{after} < {before}", f"{after} is before {before}")
        for before, after in _ORDERS[record]
    ]
