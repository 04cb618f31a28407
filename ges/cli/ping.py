"""``chordal ping``: round trips to each broker of the ring, by class."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.options import (
    CLASSES,
    client_options,
    console,
    json_option,
    run_async,
    tell,
    token_option,
)
from overlay.address import shown
from overlay.ids import LinkClass, short

if TYPE_CHECKING:
    from ges.operations.pings import Pinged, Trips


@click.command()
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Pings of each class to each broker.",
)
@click.option(
    "--class",
    "classes",
    type=CLASSES,
    multiple=True,
    help="Only pings of that class; may be repeated. Default: all that this client can send.",
)
@json_option
@token_option
@client_options
def ping(
    count: int,
    classes: tuple[str, ...],
    as_json: bool,
    connection: Connection,
) -> None:
    """Send events from the broker given to each broker of its ring, and time their way back.

    The way of a ping is the way of events: this process, the broker given, the overlay, the other
    broker, a second client of this process there, and back. Secure pings need chordals:// URLs. On
    a ring with access rules the topics $ping/# must be allowed. Exit code 1 says that a broker did
    not answer in a class.
    """
    from ges.operations.pings import ping_all

    wanted = [LinkClass(each) for each in classes]
    if not wanted:
        is_secure = connection.urls.startswith("chordals:")
        wanted = [c for c in LinkClass if is_secure or not c.is_secret]
    here, found, missed = run_async(
        ping_all,
        connection.urls,
        wanted,
        count,
        identity=connection.identity,
        overlay=connection.overlay,
        timeout_s=connection.timeout,
        token=connection.token,
        on_waiting=connection.on_waiting,
    )
    if as_json:
        click.echo(json.dumps(_as_json(here, found, missed)))
    else:
        _print(here, found, wanted)
        for words in missed:
            tell(f"chordal: warning: {words}", err=True)
    if missed or not all(each.answers for each in found):
        click.get_current_context().exit(1)


def _print(here: str, found: list[Pinged], classes: list[LinkClass]) -> None:
    from rich.table import Table

    from ges.cli.weights import milliseconds

    table = Table("broker", "url", *(f"{each} ms" for each in classes), "lost", box=None)
    problems: dict[str, None] = {}
    for each in found:
        trips = [each.trips.get(link_class) for link_class in classes]
        medians = [t.median if t is not None else None for t in trips]
        table.add_row(
            short(each.uid) + (" (attached here)" if each.url == here else ""),
            shown(each.url),
            *(milliseconds(None if m is None else 1000 * m) for m in medians),
            str(sum(t.lost for t in trips if t is not None)),
        )
        whys = [each.problem, *(_with_class(c, t) for c, t in each.trips.items())]
        problems |= {f"{short(each.uid)}: {why}": None for why in whys if why}
    console().print(table)
    for problem in problems:
        tell(problem)


def _with_class(link_class: LinkClass, trips: Trips) -> str:
    return f"{link_class}: {trips.problem}" if trips.problem else ""


def _as_json(here: str, found: list[Pinged], missed: list[str]) -> dict[str, object]:
    return {
        "from": here,
        "brokers": [
            {
                "uid": each.uid,
                "url": each.url,
                "problem": each.problem or None,
                "classes": {
                    link_class.value: {
                        "median_ms": None if trips.median is None else 1000 * trips.median,
                        "min_ms": 1000 * min(trips.seconds) if trips.seconds else None,
                        "max_ms": 1000 * max(trips.seconds) if trips.seconds else None,
                        "lost": trips.lost,
                        "problem": trips.problem or None,
                    }
                    for link_class, trips in each.trips.items()
                },
            }
            for each in found
        ],
        "not_asked": missed,
    }
