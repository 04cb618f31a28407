"""``chordal bench``: how fast, and how late, with a user's own brokers and sizes."""

from __future__ import annotations

import secrets
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from ges.cli.bench_ges22 import ges22
from ges.cli.bench_options import Command, common_options, size_option
from ges.cli.bench_report import Cells, measure, number, shown, times_of
from ges.cli.bench_request import request
from ges.cli.connection import Connection
from ges.cli.durations import NumberRange, duration
from ges.wire.topics import check_filter, check_topic
from overlay.ids import LinkClass
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.bench.figures import Figures
    from ges.bench.load import Load, Stop


def _flow_options(command: Command) -> Command:
    for option in (
        click.option(
            "--count",
            type=click.IntRange(1, 1_000_000_000),
            help="Events, of all publishers together; default: 100000, or with --rate 5 s of it.",
        ),
        click.option(
            "--rate",
            type=NumberRange(min=0, max=1e7),
            default=0.0,
            metavar="N",
            help="Events a second, of all publishers together; default: as fast as they go.",
        ),
        click.option("--publishers", type=click.IntRange(1, 10_000), default=1, show_default=True),
        size_option,
        click.option(
            "--confirm",
            is_flag=True,
            help="Publish the next event once the broker has taken the one before; time that.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def bench() -> None:
    """Measure how many events go through a ring, and how long they take.

    Latencies are from when an event was due, or without --rate published, until a subscriber has
    it. So publishers and subscribers belong on one machine, or on two whose clocks agree.
    """


bench.add_command(request)
bench.add_command(ges22)


@bench.command()
@click.option("--topic", default="bench", show_default=True)
@_flow_options
@common_options
def pub(topic: str, **options: Any) -> None:  # noqa: ANN401 - as click hands them in
    """Publish, and see how fast the broker takes it."""
    check_topic(topic)
    _measure(topic, publish=True, subscribers=0, **options)


@bench.command()
@click.argument("filter", default="bench")
@click.option("--subscribers", type=click.IntRange(1, 10_000), default=1, show_default=True)
@click.option(
    "--count", type=click.IntRange(1, 1_000_000_000), help="End once each subscriber has so many."
)
@click.option(
    "--wait",
    type=duration,
    default="10s",
    show_default=True,
    metavar="TIME",
    help="End when nothing has come for so long.",
)
@common_options
def sub(filter: str, wait: float, count: int | None, **options: Any) -> None:  # noqa: ANN401
    """Subscribe, and see how fast events come that others publish; 'bench pub', say."""
    from ges.bench.load import Stop

    check_filter(filter)
    _measure(filter, publish=False, stop=Stop(count, wait), **options)


@bench.command()
@click.option("--topic", help="Default: one that nobody else uses.")
@click.option("--subscribers", type=click.IntRange(1, 10_000), default=1, show_default=True)
@click.option(
    "--sub-broker",
    metavar="URL[,URL...]",
    help="Broker that subscribers attach to; default: that of the publishers.",
)
@_flow_options
@common_options
def pubsub(topic: str | None, **options: Any) -> None:  # noqa: ANN401
    """Publish and subscribe, and see how fast, how late and whether all of it comes."""
    _measure(check_topic(topic or f"bench/{secrets.token_hex(8)}"), publish=True, **options)


def _measure(
    topic: str,
    *,
    publish: bool,
    subscribers: int,
    classes: list[LinkClass],
    processes: int,
    as_json: bool,
    connection: Connection,
    sizes: list[int] | None = None,
    sub_broker: str | None = None,
    stop: Stop | None = None,
    count: int | None = None,
    rate: float = 0.0,
    publishers: int = 1,
    confirm: bool = False,
) -> None:
    from ges.bench.load import Load
    from ges.bench.run import measure as run

    loads = [
        Load(
            topic=topic,
            link_class=link_class,
            size=size,
            count=count or (max(1, round(5 * rate)) if rate else 100_000),
            rate=rate,
            publishers=publishers,
            subscribers=subscribers,
            confirm=confirm,
        )
        for link_class, size in product(classes, sizes or [0])
    ]

    def show(load: Load, found: list[Figures]) -> tuple[str, dict[str, Cells]]:
        return _in_words(load, found[0], processes), {
            "class": [each.link_class for each in found],
            "bytes": [str(each.size) if sizes is not None else None for each in found],
            "published": [number(each.published) for each in found],
            "published/s": [number(each.published_per_s) for each in found],
            "received": [number(each.received) for each in found],
            "received/s": [number(each.received_per_s) for each in found],
            "MB/s": [shown(each.megabytes_per_s) for each in found],
            "lost": [number(each.lost) for each in found],
            "dropped": [number(each.dropped or None) for each in found],
            **times_of("", [each.latency for each in found]),
            **times_of("confirm ", [each.confirm for each in found]),
        }

    ends = (
        connection.urls if publish else None,
        (sub_broker or connection.urls) if subscribers else None,
    )
    measure(connection, loads, ends, processes, partial(run, stop=stop), show, as_json=as_json)


def _in_words(load: Load, figures: Figures, processes: int) -> str:
    parts = []
    if figures.published is not None:
        pace = f"{load.rate:g} events a second" if load.rate else "as fast as they go"
        confirmed = ", each confirmed" if load.confirm else ""
        parts.append(f"{counted(load.publishers, 'publisher')}, {pace}{confirmed}")
    if figures.received is not None:
        parts.append(counted(load.subscribers, "subscriber"))
    each = f"{counted(processes, 'process', 'processes')} for each"
    return f"{'; '.join(parts)}; {each}; times in ms"
