"""``chordal top``: the brokers and links of a ring with their rates, as they change."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import client_options, console, json_option, run_async
from overlay.address import Address, parse_url, shown
from overlay.errors import ConfigError
from overlay.ids import short
from overlay.wording import counted, lasting, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ges.operations.rates import BrokerActivity, LinkActivity
    from ges.operations.walk import Walk
    from ges.wire.status import Status

    Walking = Callable[[str], Awaitable[Walk]]

MAX_URLS = 16  #: of brokers met, to go on with when the one given is gone


@click.command()
@click.option("--once", is_flag=True, help="Print one table, and end.")
@click.option(
    "--interval",
    type=duration,
    default="2s",
    show_default=True,
    metavar="TIME",
    help="Between two looks; rates are averages over it.",
)
@click.option(
    "--links",
    "most_links",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the N links with most traffic.",
)
@json_option
@client_options
def top(
    once: bool,
    interval: float,
    most_links: int,
    as_json: bool,
    connection: Connection,
) -> None:
    """Show what goes on at each broker of the ring and over its links, again and again.

    It ends with Ctrl-C; with --once, and with --json, after two looks. If the broker given is gone,
    it goes on with another one of the ring.
    """
    if interval <= 0:
        raise click.BadParameter("a time above 0", param_hint="--interval")
    try:
        run_async(
            _show, Looks(connection.walk, connection.urls, interval), once, most_links, as_json
        )
    except* KeyboardInterrupt:
        pass  # that is how it ends


class Look:
    """What was met, compared with the look before."""

    def __init__(self, walk: Walk, before: tuple[Status, ...], problem: str = "") -> None:
        from ges.operations.rates import brokers_between, links_of

        self.brokers = brokers_between(before, walk.brokers)
        self.links = links_of(walk.brokers)
        self.problems = [problem] * bool(problem) + [*walk.findings]


class Looks:
    """Looks at a ring, again and again; each is compared with the one before."""

    def __init__(self, walk: Walking, urls: str, interval: float) -> None:
        self._walk = walk
        self._urls = self._at = urls
        self._interval = interval
        self._last: Walk | None = None
        self._due = 0.0

    async def next(self) -> Look:
        """Return the next look, when its time has come; the first has no rates.

        Raises:
            ConnectionLost: no broker answers at the first look.
        """
        import trio

        from ges.errors import ConnectionLost

        await trio.sleep_until(max(self._due, trio.current_time()))
        self._due = trio.current_time() + self._interval
        last = self._last
        try:
            found = await self._walk(self._at)
        except ConnectionLost as error:
            if last is None:
                raise
            return Look(last, last.brokers, str(error))
        self._last, self._at = found, _with_others(self._urls, found)
        return Look(found, last.brokers if last is not None else ())


def _with_others(urls: str, walk: Walk) -> str:
    """Return the URLs to ask next: those given, and brokers met, in case all of those are gone."""
    tls = parse_url(urls.split(",")[0]).tls
    others = []
    for status in walk.brokers[:MAX_URLS]:
        try:
            address = parse_url(status.url)
        except ConfigError:
            continue
        others.append(Address(address.host, address.port, tls).url)
    return ",".join([urls, *others])


async def _show(looks: Looks, once: bool, most_links: int, as_json: bool) -> None:
    await looks.next()  # it has no rates
    out = console()
    if as_json:
        click.echo(json.dumps(_as_json(await looks.next())))
    elif once:
        out.print(_tables(await looks.next(), most_links))
    elif not sys.stdout.isatty():
        while True:
            out.print(_tables(await looks.next(), most_links))
    else:
        from rich.live import Live

        with Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_tables(await looks.next(), most_links), refresh=True)


def _tables(look: Look, most_links: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    shown_links = look.links[:most_links]
    parts: list[RenderableType] = [
        Text(
            f"{counted(len(look.brokers), 'broker')}, {counted(len(look.links), 'link')}, "
            f"{counted(sum(each.clients for each in look.brokers), 'client')}"
        ),
        _brokers(look.brokers),
    ]
    if shown_links:
        parts.append(_links(shown_links))
    if len(shown_links) < len(look.links):
        parts.append(Text(f"and {len(look.links) - len(shown_links)} links with less traffic"))
    parts += [Text(printable(problem)) for problem in look.problems]
    return Group(*parts)


def _brokers(brokers: list[BrokerActivity]) -> Table:
    from rich.table import Table

    table = Table(
        *("broker", "url", "ring id", "up", "clients", "subs"),
        *(
            "published/s",
            "received/s",
            "delivered/s",
            "forwarded/s",
            "lost/s",
            "queued",
            "suspects",
        ),
        box=None,
    )
    for each in brokers:
        status = each.status
        table.add_row(
            short(status.uid),
            printable(shown(status.url)),
            str(status.member.ring_id) if status.member else "-",
            lasting(status.uptime_s),
            str(each.clients),
            str(status.subscriptions),
            _rate(each.published_per_s),
            _rate(each.received_per_s),
            _rate(each.delivered_per_s),
            _rate(each.forwarded_per_s),
            _rate(each.lost_per_s),
            str(each.queued_bytes),
            " ".join(map(short, status.suspects)) or "-",
        )
    return table


def _links(links: list[LinkActivity]) -> Table:
    from rich.table import Table

    from ges.cli.weights import byte_rate, milliseconds, resets

    table = Table("link between", "and", "class", "rtt ms", "traffic", "queued", "resets", box=None)
    for link in links:
        table.add_row(
            short(link.ends[0]),
            short(link.ends[1]) + ("" if link.told_by > 1 else " (one end)"),
            link.link_class.value,
            milliseconds(link.rtt_ms),
            byte_rate(link.traffic),
            str(link.queued_bytes),
            resets(link.resets),
        )
    return table


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _as_json(look: Look) -> dict[str, object]:
    return {
        "brokers": [
            {
                "uid": each.status.uid,
                "url": each.status.url,
                "ring_id": each.status.member.ring_id if each.status.member else None,
                "clients": each.clients,
                "subscriptions": each.status.subscriptions,
                "published_per_s": each.published_per_s,
                "received_per_s": each.received_per_s,
                "delivered_per_s": each.delivered_per_s,
                "forwarded_per_s": each.forwarded_per_s,
                "lost_per_s": each.lost_per_s,
                "queued_bytes": each.queued_bytes,
                "suspects": list(each.status.suspects),
            }
            for each in look.brokers
        ],
        "links": [
            {
                "ends": list(link.ends),
                "class": link.link_class.value,
                "rtt_ms": link.rtt_ms,
                "traffic": link.traffic,
                "queued_bytes": link.queued_bytes,
                "resets": link.resets,
            }
            for link in look.links
        ],
        "problems": look.problems,
    }
