"""``chordal ring``: walk the live ring and check it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.options import client_options, console, json_option, run_async
from overlay.ids import short

if TYPE_CHECKING:
    from ges.walk import Walk


@click.command()
@click.option("--check", is_flag=True, help="Fail unless order, symmetry and completeness hold.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="With --check: go on checking for so long until the ring is whole.",
)
@click.option(
    "--expect",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --check: fail unless the ring has N brokers.",
)
@json_option
@client_options
def ring(
    check: bool,
    wait: float,
    expect: int | None,
    as_json: bool,
    broker: str,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> None:
    """Walk the ring from the broker given, to the right, and print it.

    With --check every broker's four pointers are compared with the ideal ring of those met, and
    nobody may be pointed at who was not met; exit code 1 says that something is wrong, and what.
    """
    from ring.errors import InvariantBroken

    if (wait or expect) and not check:
        raise click.UsageError("--wait and --expect go with --check")
    walk = run_async(_walk, broker, wait, expect, identity, overlay, timeout)
    if as_json:
        click.echo(json.dumps(_as_json(walk)))
    else:
        _print(walk)
    if check:
        if walk.findings:
            raise InvariantBroken(walk.findings)
        if not as_json:
            click.echo(f"the ring of {len(walk.brokers)} is whole: ordered, symmetric, complete")


async def _walk(
    broker: str,
    wait: float,
    expect: int | None,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> Walk:
    import trio

    from ges.walk import walk_ring

    deadline = trio.current_time() + wait
    while True:
        walk = await walk_ring(broker, identity=identity, overlay=overlay, timeout_s=timeout)
        if expect is not None:
            walk = walk.expecting(expect)
        if not walk.findings or trio.current_time() >= deadline:
            return walk
        await trio.sleep(0.1)


def _print(walk: Walk) -> None:
    from rich.table import Table

    table = Table("ring id", "broker", "url", "left", "right", "chords", box=None)
    for status in walk.brokers:
        table.add_row(
            str(status.member.ring_id) if status.member else "-",
            short(status.uid),
            status.url,
            " ".join(short(m.uid) for m in status.left),
            " ".join(short(m.uid) for m in status.right),
            " ".join(short(m.uid) for m in status.chords[1:]),
        )
    console().print(table)


def _as_json(walk: Walk) -> dict[str, object]:
    return {
        "size": len(walk.brokers),
        "whole": not walk.findings,
        "findings": list(walk.findings),
        "brokers": [
            {
                "uid": status.uid,
                "url": status.url,
                "ring_id": status.member.ring_id if status.member else None,
                "left": [m.uid for m in status.left],
                "right": [m.uid for m in status.right],
                "chords": [m.uid for m in status.chords],
                "counters": status.counters,
            }
            for status in walk.brokers
        ],
    }
