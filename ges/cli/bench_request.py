"""``chordal bench request``: how long replies take."""

from __future__ import annotations

import secrets
from itertools import product
from typing import TYPE_CHECKING

import click

from ges.cli.bench_options import common_options, size_option
from ges.cli.bench_report import Cells, measure, number, times_of
from ges.cli.connection import Connection
from ges.cli.durations import NumberRange, duration
from ges.wire.topics import check_topic
from overlay.ids import LinkClass
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.bench.figures import RequestFigures


@click.command()
@click.option("--topic", help="Default: one that nobody else uses.")
@click.option(
    "--clients", type=click.IntRange(1, 10_000), default=1, show_default=True, help="That ask."
)
@click.option(
    "--responders",
    type=click.IntRange(0, 10_000),
    default=1,
    show_default=True,
    help="Clients that answer, in one queue group; with 0 others are to answer on --topic.",
)
@click.option(
    "--reply-broker",
    metavar="URL[,URL...]",
    help="Broker that those attach to who answer; default: that of those who ask.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1_000_000_000),
    help="Requests, of all clients together; default: 10000, or with --rate 5 s of it.",
)
@click.option(
    "--rate",
    type=NumberRange(min=0, max=1e6),
    default=0.0,
    metavar="N",
    help="Requests a second, of all clients together, answered or not; default: each client asks "
    "when it has had its reply.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="Without --rate: requests of one client that wait for a reply at the same time.",
)
@click.option(
    "--limit",
    type=duration,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="For one reply; then the request counts as unanswered.",
)
@size_option
@common_options
def request(
    topic: str | None,
    clients: int,
    responders: int,
    reply_broker: str | None,
    count: int | None,
    rate: float,
    at_once: int,
    limit: float,
    sizes: list[int],
    classes: list[LinkClass],
    processes: int,
    as_json: bool,
    connection: Connection,
) -> None:
    """Ask and answer, and see how long a reply takes and whether all come.

    Times are from the request, or with --rate from when it was due, until its reply is there. The
    first request of each client is not counted: the client then subscribes to its replies.
    """
    from ges.bench.load import Load
    from ges.bench.run import measure_requests

    if not responders and topic is None:
        raise click.UsageError("--responders 0 needs --topic: say where others answer")
    if limit <= 0:
        raise click.UsageError("--limit is more than 0")
    name = check_topic(topic or f"bench/{secrets.token_hex(8)}")
    loads = [
        Load(
            topic=name,
            link_class=link_class,
            size=size,
            count=count or (max(1, round(5 * rate)) if rate else 10_000),
            rate=rate,
            publishers=clients,
            subscribers=responders,
            at_once=at_once,
            limit_s=limit,
        )
        for link_class, size in product(classes, sizes)
    ]

    def show(load: Load, found: list[RequestFigures]) -> tuple[str, dict[str, Cells]]:
        pace = f"{load.rate:g} requests a second" if load.rate else f"{load.at_once} at once each"
        who = f"{counted(load.publishers, 'client')}, {pace}"
        others = counted(load.subscribers, "responder") if load.subscribers else "others answer"
        each_end = f"{counted(processes, 'process', 'processes')} for each"
        return f"{who}; {others}; {each_end}; times in ms", {
            "class": [each.link_class for each in found],
            "bytes": [str(each.size) for each in found],
            "requests": [number(each.requests) for each in found],
            "replies": [number(each.replies) for each in found],
            "replies/s": [number(each.replies_per_s) for each in found],
            "unanswered": [number(each.unanswered) for each in found],
            "nobody": [number(each.nobody or None) for each in found],
            **times_of("", [each.round_trip for each in found]),
        }

    ends = connection.urls, (reply_broker or connection.urls) if responders else None
    measure(connection, loads, ends, processes, measure_requests, show, as_json=as_json)
