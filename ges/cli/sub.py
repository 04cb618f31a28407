"""``chordal sub``: print events as they come."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import NumberRange
from ges.cli.options import (
    CLASSES,
    json_option,
    long_lived_client_options,
    queue_option,
    realm_option,
    run_async,
    token_option,
)
from ges.wire.names import check_name, name_filter
from ges.wire.topics import check_filter, check_queue
from overlay.ids import LinkClass
from overlay.wording import counted, printable

if TYPE_CHECKING:
    from ges.client import Gap, Subscription
    from ges.wire.delivered import Event


@click.command()
@click.argument("filter", required=False)
@click.option(
    "--name",
    metavar="NAME",
    help="In place of FILTER: be attached under this name, and print what is published to it.",
)
@click.option("--class", "link_class", type=CLASSES, help="Only events of that class.")
@queue_option
@realm_option("Only events that are published in the same unit of that kind.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after that many events.")
@click.option(
    "--wait",
    type=NumberRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after that time; with --count, too few events by then are an error.",
)
@click.option(
    "--raw/--escaped",
    default=None,
    help="Print events byte for byte, or what does not show in them as \\x1b, \\n and so on; "
    "default: escaped on a terminal, raw in a pipe.",
)
@json_option
@token_option
@long_lived_client_options
def sub(
    filter: str | None,
    name: str | None,
    link_class: str | None,
    queue: str | None,
    realm: str,
    count: int | None,
    wait: float | None,
    raw: bool | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """Print events that match FILTER: '+' is one level of a topic, '#' the rest of it.

    It waits for a broker, for ever unless --timeout or --wait says for how long. If its broker
    dies, it attaches to another by itself and says on stderr for how long events may have been
    missed. So it does if it reads too slowly, and events are dropped. When the subscription is
    active, so that no event is missed wherever it is published, it says so on stderr.

    With --queue it shares events with all others that have this FILTER and this queue: each event
    goes to one of them.

    With --name it prints what 'chordal pub --to' publishes to that name.
    """
    if (filter is None) == (name is None):
        raise click.UsageError("give FILTER, or --name")
    if name is not None:
        if queue is not None or realm != "all":
            raise click.UsageError("--name goes neither with --queue nor with --realm")
        filter = name_filter(check_name(name))
    assert filter is not None
    check_filter(filter)  # before a broker is looked for
    if queue is not None:
        check_queue(queue)
    if raw is not None and as_json:
        raise click.UsageError("--raw and --escaped are for text, and --json is neither")
    run_async(
        _subscribe,
        connection,
        filter,
        LinkClass(link_class) if link_class is not None else None,
        queue,
        realm,
        count,
        wait,
        as_json,
        raw=not sys.stdout.isatty() if raw is None else raw,
    )


async def _subscribe(
    connection: Connection,
    text: str,
    link_class: LinkClass | None,
    queue: str | None,
    realm: str,
    count: int | None,
    wait: float | None,
    as_json: bool,
    *,
    raw: bool,
) -> None:
    import trio

    from ges.errors import TooFewEvents

    render = as_json_line if as_json else as_raw if raw else as_shown
    left = count
    is_subscribed = False
    patience = wait if wait is not None else float("inf")
    told = 0
    with trio.CancelScope() as scope:
        end = trio.current_time() + patience
        async with connection.attached(
            timeout=min(connection.timeout, patience),  # it knows why there is no broker
            on_gap=_tell_gap,
        ) as client:
            scope.deadline = end
            async with (
                client.subscribe(text, link_class=link_class, queue=queue, realm=realm) as events,
                trio.open_nursery() as nursery,
            ):
                is_subscribed = True
                member = f" in queue {queue}" if queue is not None else ""
                click.echo(
                    f"chordal: subscribed to {text}{member} at {client.broker_url}", err=True
                )
                nursery.start_soon(_tell_active, events)
                while batch := await events.batch():
                    if left is not None:
                        batch = batch[:left]
                        left -= len(batch)
                    lines = b"".join(render(event) for event in batch)
                    await trio.to_thread.run_sync(_write, lines, abandon_on_cancel=True)
                    told = _tell_dropped(sum(client.dropped) + events.dropped, told)
                    if left == 0:
                        nursery.cancel_scope.cancel()
                        return
    if not is_subscribed:
        raise TooFewEvents(f"not subscribed to {text} within {wait:g} s")
    if left:
        raise TooFewEvents(
            f"{count - left if count else 0} of {count} events came within {wait:g} s"
        )


def _write(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


async def _tell_active(events: Subscription) -> None:
    """Say once in which units nothing is missed any more, up to all."""
    from ges.client import Level
    from ges.errors import EventError
    from ges.units.unit_names import LEVEL_NAMES

    told = 0
    try:
        while told < Level.SYSTEM:
            await events.active.wait(Level(told + 1))
            for level in events.active.levels:
                if level > told:
                    told = level
                    where = "" if level is Level.SYSTEM else f" in the {LEVEL_NAMES[level]}"
                    who = "all brokers" if level is Level.SYSTEM else "all brokers there"
                    said = f"{events.filter} is active{where}: {who} know of it"
                    click.echo(f"chordal: {said}", err=True)
    except EventError:
        pass  # whoever reads the events says so


def _tell_gap(gap: Gap) -> None:
    if gap.lost == gap.found:
        click.echo(
            f"chordal: {gap.found} was off its ring, or held for dead, in the last "
            f"{gap.seconds:.3f} s; events published then may have been missed",
            err=True,
        )
        return
    click.echo(
        f"chordal: lost {gap.lost}, attached to {gap.found} after {gap.seconds:.3f} s; "
        "events published in between may have been missed",
        err=True,
    )


def _tell_dropped(dropped: int, told: int) -> int:
    """Say how many events this has missed as it was too slow; returns how many that are."""
    if dropped > told:
        click.echo(
            f"chordal: too slow for what comes: {counted(dropped, 'event')} missed", err=True
        )
    return dropped


def as_shown(event: Event) -> bytes:
    """Return an event as a line for people; what does not show in it is escaped."""
    payload = event.payload.decode(errors="backslashreplace")
    return f"{printable(event.topic)} {printable(payload)}\n".encode()


def as_raw(event: Event) -> bytes:
    """Return an event as it is, for programs."""
    return event.topic.encode() + b" " + event.payload + b"\n"


def as_json_line(event: Event) -> bytes:
    """Return an event as an object in ASCII, on a line of its own."""
    row: dict[str, object] = {"topic": event.topic}
    try:
        row["payload"] = event.payload.decode()
    except UnicodeDecodeError:
        row["payload_base64"] = base64.b64encode(event.payload).decode()
    row |= {
        "attributes": dict(event.attributes),
        "class": event.link_class.value,
        "publisher": event.publisher,
        "sequence": event.sequence,
        "published_unix_ns": event.published_unix_ns,
        "hops": event.hops,
    }
    if event.retained:
        row["retained"] = True
    if event.traceparent:
        row["traceparent"] = event.traceparent
    if event.link_class.is_timed:
        row |= {
            "late": event.late,
            "express_path": event.express_path,
            "budget_ms": event.budget_us / 1000,
            "spent_ms": event.spent_us / 1000,
        }
    return json.dumps(row).encode() + b"\n"
