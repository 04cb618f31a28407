"""How ``chordal bench`` measures one load after the other, and shows what came of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from ges.cli.connection import Connection
from ges.cli.options import console, run_async, tell

if TYPE_CHECKING:
    from ges.bench.conditions import Conditions
    from ges.bench.figures import Percentiles
    from ges.bench.load import Attach, Load

Cells = list[str | None]
Found = TypeVar("Found")
Run = Callable[["Load", "Attach | None", "Attach | None", int], Awaitable[Found]]


def measure(
    connection: Connection,
    loads: Sequence[Load],
    ends: tuple[str | None, str | None],
    processes: int,
    run: Run[Found],
    show: Callable[[Load, list[Found]], tuple[str, Mapping[str, Cells]]],
    *,
    as_json: bool,
) -> None:
    """Measure loads one after the other, and print what came of them.

    Args:
        connection: how clients attach.
        loads: one for each class and size.
        ends: URLs for those that publish or ask, and for those that get it; None: there are none.
        processes: for each end.
        run: measures one load.
        show: returns a line on what was measured, and the columns of a table.
        as_json: for machines.
    """
    import msgspec

    from ges.bench.conditions import look
    from ges.bench.figures import require_histograms
    from ges.bench.load import Attach

    require_histograms()
    own = str(connection.identity) if connection.identity is not None else None
    here, there = (
        None
        if urls is None
        else Attach(
            urls=urls,
            identity=own,
            overlay=connection.overlay,
            timeout_s=connection.timeout,
            token=connection.token,
        )
        for urls in ends
    )

    async def measured() -> tuple[Conditions, list[Found]]:
        conditions = await look(*(each for each in (here, there) if each is not None))
        return conditions, [await run(load, here, there, processes) for load in loads]

    conditions, found = run_async(measured)
    if as_json:
        rows = [{"load": load, "figures": each} for load, each in zip(loads, found, strict=True)]
        document = {"conditions": conditions, "processes": processes, "runs": rows}
        click.echo(msgspec.json.encode(document).decode())
        return
    words, columns = show(loads[0], found)
    for line in (*conditions.in_words, words):
        tell(line)
    print_columns(columns)


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
