"""``chordal drain``: have a broker leave its ring, after its clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import (
    client_options,
    json_option,
    run_async,
    tell,
    token_option,
)
from overlay.ids import short

if TYPE_CHECKING:
    from ges.operations.attached import Operator, Place


@click.command()
@click.argument("target", metavar="URL|UID")
@click.option(
    "--grace",
    type=duration,
    metavar="TIME",
    help="Time that its clients have to move; default: as its serve --grace says.",
)
@click.option(
    "--wait/--no-wait",
    "is_waiting",
    default=True,
    show_default=True,
    help="Wait until it has left.",
)
@json_option
@token_option
@client_options
def drain(
    target: str,
    grace: float | None,
    is_waiting: bool,
    as_json: bool,
    connection: Connection,
) -> None:
    """Have the broker at URL, or that with UID on the ring of --broker, leave in good order.

    It takes no new clients and serves on, while those that it has go to other brokers; no normal or
    secure event is lost. Then it hands over its duties, leaves the ring and ends with exit code 0.
    SIGTERM does the same. Who may: on a ring with access rules those with operate = ["drain"] in a
    rule.
    """
    place = run_async(_drain, connection.operator, target, grace, is_waiting)
    if as_json:
        click.echo(json.dumps({"broker": place.uid, "url": place.url, "left": is_waiting}))
    else:
        done = "has left" if is_waiting else "drains"
        tell(f"broker {short(place.uid)} at {place.url} {done}")


async def _drain(operator: Operator, target: str, grace: float | None, is_waiting: bool) -> Place:
    from ges.operations import draining

    place = await draining.find_broker(operator, target)
    await draining.drain(operator, place, grace)
    if is_waiting:
        patience = draining.LEAVE_SECONDS + (draining.MOST_GRACE_S if grace is None else grace)
        await draining.wait_until_gone(operator, place, patience)
    return place
