"""``chordal status``: one broker as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.names import labelled, names_of
from ges.cli.options import client_options, console, json_option, run_async
from overlay.address import shown
from overlay.ids import short
from overlay.wording import counted, lasting

if TYPE_CHECKING:
    from ges.wire.status import LinkStatus, Status


MIB = 1024 * 1024
LEAST_UNSURE = 0.001  #: a smaller share of the time is not shown


@click.command()
@json_option
@client_options
def status(as_json: bool, connection: Connection) -> None:
    """Show one broker: its place on the ring, its links, clients and counters."""
    found = run_async(ask, connection)
    if as_json:
        from ges.wire.status_names import named

        click.echo(json.dumps(named(found)))  # in ASCII: nothing that does not show
    else:
        _print(found)


async def ask(connection: Connection) -> Status:
    """Return what the broker says of itself."""
    async with connection.attached(reattach=False, only_looks=True) as client:
        return await client.status()


def _unit(found: Status) -> str:
    """Return where it is in the units, for people."""
    if found.steward is None:
        return "no address yet"
    label = labelled(names_of([found]))
    whose = "this broker" if found.steward == found.uid else label(found.steward)
    cluster = f"{counted(found.members, 'member')} in the cluster, steward {whose}"
    if found.address is None:
        return f"no address: there is no free slot for it; {cluster}"
    return f"address {found.address}, {cluster}"


def _seldom(links: tuple[LinkStatus, ...]) -> dict[str, list[str]]:
    """Return the last columns, shown only where a link has something in them, by name."""
    from ges.cli.weights import byte_rate

    columns = {
        "capacity": [byte_rate(link.capacity) for link in links],
        "late": [str(link.late or "-") for link in links],
        "dropped": [str(link.dropped or "-") for link in links],
    }
    return {name: values for name, values in columns.items() if any(v != "-" for v in values)}


def _class_of(link: LinkStatus) -> str:
    """Return the class of a link, and what keeps events from it or brings them there."""
    notes = (
        (link.demoted, "demoted"),
        (link.declared, "declared"),
        (not link.carries, "no events"),
    )
    return ", ".join((link.link_class.value, *(text for holds, text in notes if holds)))


def _print_event_links(found: Status) -> None:
    """Show the links that are named for events, and what has become of events without a way."""
    out = console()
    if found.without_way:
        out.print(f"  no way for events to {', '.join(found.without_way)}", soft_wrap=True)
    if not found.declared and not found.event_links:
        return
    up = sum(link.uid is not None for link in found.event_links)
    over = "declared links alone" if found.declared else "all links"
    out.print(f"  events over {over}; {up} of {len(found.event_links)} named here are up")
    for link in found.event_links:
        if link.uid is None:
            out.print(f"  no link to {shown(link.url)}: {link.problem}", soft_wrap=True)
    lost = found.counters.get("events_without_link", 0)
    if lost:
        out.print(f"  {counted(lost, 'event')} given up, as no way led on")


def _mib(size: int) -> str:
    return f"{size / MIB:.1f}"


def _print_losses(found: Status) -> None:
    """Show units that are cut off, and the last lost connections between units."""
    from rich.table import Table

    from ges.units.unit_names import LEVEL_NAMES

    out = console()
    for at in found.levels:
        if at.cut_off:
            out.print(f"  no path to {counted(at.cut_off, LEVEL_NAMES[at.level])} at present")
    if not found.losses:
        return
    losses = Table("links lost between", "and", "kind", "links left", "s ago", box=None)
    for loss in found.losses:
        ago = f"{max(0.0, found.uptime_s - loss.at_s):.1f}"
        losses.add_row(*loss.units, loss.kind, str(loss.left), ago)
    out.print(losses)


def _print(found: Status) -> None:
    from rich.table import Table

    from ges.cli.weights import byte_rate, milliseconds, resets

    out = console()
    place = f"ring id {found.member.ring_id}" if found.member else "not on the ring"
    name = f"{found.name}, " if found.name else ""
    out.print(f"broker {name}{found.uid} (incarnation {found.incarnation})")
    out.print(f"  {shown(found.url)}, overlay {found.overlay}, chordal {found.version}, {place}")
    out.print(
        f"  up {lasting(found.uptime_s)}, {counted(found.clients, 'client')}, "
        f"{counted(found.subscriptions, 'subscription')}, "
        f"{'with' if found.secure else 'without'} identity"
    )
    out.print(f"  {_unit(found)}")
    if found.unit or found.unit_wanted:
        is_elsewhere = found.unit != found.unit_wanted
        wished = f", and is to be in {found.unit_wanted or 'one without a name'}"
        out.print(f"  unit {found.unit or 'without a name'}{wished if is_elsewhere else ''}")
    if found.identity is not None:
        own = found.identity
        out.print(
            f"  certificate until {own.not_after} (in {lasting(own.expires_in_s)}), "
            f"{counted(own.authorities, 'authority', 'authorities')} trusted, "
            f"{own.revoked} revoked (list {own.revocations})"
        )
    for words in found.warnings:
        out.print(f"  warning: {words}", soft_wrap=True)
    _print_event_links(found)
    if found.parked:
        out.print(f"  {counted(found.parked, 'event')} parked for want of an all-secure path")
    if found.unsure_share >= LEAST_UNSURE:
        share = f"{100 * found.unsure_share:.1f} %"
        out.print(f"  units changed for {share} of the time: then events from here go to all")
    if found.kept_bytes:
        out.print(f"  {found.kept_bytes} bytes kept for brokers whose links are lost")
    if found.memory is not None:
        held = ", ".join(
            f"{name.replace('_', ' ')} {_mib(size)}"
            for name, size in found.memory.held.items()
            if size >= MIB / 20
        )
        out.print(
            f"  memory: {_mib(sum(found.memory.held.values()))} of {_mib(found.memory.limit)} MiB "
            f"held for others" + (f" ({held})" if held else ""),
            soft_wrap=True,
        )
    label = labelled(names_of([found]))
    if found.suspects:
        out.print(f"  suspects {', '.join(map(label, found.suspects))}")
    seldom = _seldom(found.links)
    have_names = any(link.name for link in found.links)
    links = Table(
        *(
            "link to",
            *(("name",) if have_names else ()),
            "ring id",
            "class",
            "as",
            "age s",
            "queued",
        ),
        *("rtt ms", "jitter ms", "traffic", "cost ms", "resets", "cipher", "ends in s"),
        *seldom,
        box=None,
    )
    for number, link in enumerate(found.links):
        links.add_row(
            short(link.uid),
            *((link.name or "-",) if have_names else ()),
            "-" if link.ring_id is None else str(link.ring_id),
            _class_of(link),
            ", ".join(link.roles) or "-",
            f"{link.age_s:.1f}",
            str(link.queued_bytes),
            milliseconds(link.rtt_ms),
            milliseconds(link.jitter_ms),
            byte_rate(link.traffic),
            milliseconds(link.cost_ms),
            resets(link.resets),
            link.cipher or "-",
            "-" if link.expires_in_s is None else f"{link.expires_in_s:.0f}",
            *(values[number] for values in seldom.values()),
        )
    out.print(links)
    if found.verdicts:
        verdicts = Table("verdict on", "verdict", "witnesses", "way round", "at s", box=None)
        for ruling in found.verdicts:
            verdicts.add_row(
                label(ruling.uid),
                ruling.verdict.value + (", restored" if ruling.restored_s is not None else ""),
                ", ".join(map(label, ruling.witnesses)) or "-",
                ", ".join(map(label, ruling.path[1:-1])) or "-",
                f"{ruling.at_s:.1f}",
            )
        out.print(verdicts)
    _print_losses(found)
    counters = Table("counter", "value", box=None)
    for name, value in found.counters.items():
        counters.add_row(name, str(value))
    out.print(counters)
