"""How the measurements of ``chordal bench`` are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ges.cli.options import console

if TYPE_CHECKING:
    from ges.bench.conditions import Conditions
    from ges.bench.figures import Figures, Percentiles, RequestFigures
    from ges.bench.load import Load

Cells = list[str | None]


def print_json(
    conditions: Conditions,
    loads: Sequence[Load],
    processes: int,
    found: Sequence[Figures | RequestFigures],
) -> None:
    """Print what was measured, and under which conditions, for machines."""
    import msgspec

    rows = [{"load": load, "figures": figures} for load, figures in zip(loads, found, strict=True)]
    document = {"conditions": conditions, "processes": processes, "runs": rows}
    click.echo(msgspec.json.encode(document).decode())


def print_columns(columns: Mapping[str, Cells]) -> None:
    """Print a table with a row for each measurement, without columns in which there is nothing."""
    from rich.table import Table

    kept = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    table = Table(*kept, box=None)
    for row in zip(*kept.values(), strict=True):
        table.add_row(*(value or "-" for value in row))
    console().print(table)


def times_of(prefix: str, each: list[Percentiles | None]) -> dict[str, Cells]:
    """Return columns with percentiles, a row for each measurement; ``prefix`` is in each name."""
    names = {"p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "p99.9": "p99_9_ms"}
    return {
        f"{prefix}{title}": [shown(getattr(p, name)) if p is not None else None for p in each]
        for title, name in (names | {"max": "max_ms"}).items()
    }


def number(value: float | None) -> str | None:
    """Return a whole number as it is shown."""
    return None if value is None else f"{value:,.0f}"


def shown(value: float | None) -> str | None:
    """Return a time or a rate as it is shown."""
    return None if value is None else f"{value:.3f}"
