"""``chordal reply``: answer requests, with a fixed text or with what a command says."""

from __future__ import annotations

import math
import shlex
import shutil
from typing import TYPE_CHECKING

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import (
    CLASSES,
    json_option,
    long_lived_client_options,
    queue_option,
    run_async,
    tell,
    token_option,
)
from ges.wire.topics import check_filter, check_queue
from overlay.errors import ConfigError
from overlay.ids import LinkClass

if TYPE_CHECKING:
    from ges.cli.answering import Answering


@click.command()
@click.argument("filter")
@click.option("--payload", metavar="TEXT", help="Answer each request with this.")
@click.option(
    "--command",
    metavar="COMMAND",
    help="Run this for each request, without a shell: it reads the request's payload, and what it "
    "prints is the reply. CHORDAL_TOPIC is the topic of the request.",
)
@click.option("--class", "link_class", type=CLASSES, help="Only requests of that class.")
@queue_option
@click.option("--count", type=click.IntRange(min=1), help="Stop after that many requests.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Commands that run at the same time.",
)
@click.option(
    "--limit",
    type=duration,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="For one run of the command; then it is killed, and its request gets no reply.",
)
@json_option
@token_option
@long_lived_client_options
def reply(
    filter: str,
    payload: str | None,
    command: str | None,
    link_class: str | None,
    queue: str | None,
    count: int | None,
    jobs: int,
    limit: float,
    as_json: bool,
    connection: Connection,
) -> None:
    """Answer requests on topics that match FILTER; 'chordal request' asks.

    A request whose command fails gets no reply, and stderr says why. Events that are no requests
    get none. With --count the exit code is 1 if one of these requests got no reply. Several of
    these in one --queue share the requests.
    """
    from ges.cli.answering import Answering

    check_filter(filter)  # before a broker is looked for
    if queue is not None:
        check_queue(queue)
    if (payload is None) == (command is None):
        raise click.UsageError("give one of --payload and --command")
    answering = Answering(
        payload.encode(errors="surrogateescape") if payload is not None else None,
        _words(command) if command is not None else [],
        limit if limit > 0 else math.inf,
        jobs,
        count,
        as_json=as_json,
    )
    run_async(
        _serve,
        connection,
        filter,
        LinkClass(link_class) if link_class is not None else None,
        queue,
        answering,
    )


def _words(command: str) -> list[str]:
    """Return a command as its words.

    Raises:
        ConfigError: it is none, or there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--command {command!r}: {error}") from error
    if not words:
        raise ConfigError("--command is empty; write a program and its arguments")
    if shutil.which(words[0]) is None:
        raise ConfigError(f"--command: there is no program {words[0]!r} to be run")
    return words


async def _serve(
    connection: Connection,
    text: str,
    link_class: LinkClass | None,
    queue: str | None,
    answering: Answering,
) -> None:
    async with (
        connection.attached() as client,
        client.subscribe(text, link_class=link_class, queue=queue) as events,
    ):
        member = f" in queue {queue}" if queue is not None else ""
        tell(f"chordal: answering on {text}{member} at {client.broker_url}", err=True)
        await answering.run(client, events)
