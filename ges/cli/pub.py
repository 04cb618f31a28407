"""``chordal pub``: publish one event, or one for each line of input."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import click

from ges.cli.connection import Connection
from ges.cli.durations import duration
from ges.cli.options import (
    CLASSES,
    client_options,
    event_realm_option,
    is_default,
    json_option,
    run_async,
    token_option,
)
from ges.wire.events import MAX_PAYLOAD_BYTES
from ges.wire.names import check_names
from ges.wire.topics import check_topic
from ges.wire.trace_context import traced
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.wording import counted

READ_BYTES = 64 * 1024


@click.command()
@click.argument("topic")
@click.argument("payload", default="")
@click.option("--class", "link_class", type=CLASSES, default="normal", show_default=True)
@click.option(
    "--attr",
    "attributes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Attribute of the event; may be repeated.",
)
@click.option(
    "--budget",
    type=duration,
    metavar="TIME",
    help="Of an express event: how long it may take; default: as the broker has it.",
)
@click.option("--lines", is_flag=True, help="With PAYLOAD -: one event for each line of input.")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, help="Publish the payload this many times."
)
@click.option(
    "--park",
    type=duration,
    metavar="TIME",
    help="How long a secure event may wait for an all-secure path, as 30s; default: not at all.",
)
@click.option(
    "--retain",
    is_flag=True,
    help="Have brokers keep it as the last value of TOPIC: who subscribes later gets it first. "
    "An empty PAYLOAD clears the value.",
)
@click.option(
    "--ttl",
    type=duration,
    metavar="TIME",
    help="How long after being published it may be delivered, as 30s; default: for ever.",
)
@click.option(
    "--traceparent",
    metavar="00-TRACE-SPAN-FLAGS",
    help="Trace that the event belongs to, as W3C Trace Context names it.",
)
@event_realm_option
@click.option(
    "--to",
    metavar="NAME[,NAME...]",
    help="Only to the clients attached under these names, wherever they are; up to 64.",
)
@json_option
@token_option
@client_options
def pub(
    topic: str,
    payload: str,
    link_class: str,
    attributes: tuple[str, ...],
    budget: float | None,
    lines: bool,
    count: int,
    park: float | None,
    retain: bool,
    ttl: float | None,
    traceparent: str | None,
    realm: str,
    to: str | None,
    as_json: bool,
    connection: Connection,
) -> None:
    """Publish PAYLOAD to TOPIC; - reads it from standard input.

    Done when the broker has taken all of it; an event it refuses is an error that says why. With
    --lines it waits for its broker for ever, unless --timeout says for how long.
    """
    if lines and payload != "-":
        raise click.UsageError("--lines needs PAYLOAD to be -, for standard input")
    traits = LinkClass(link_class)
    if park is not None and not traits.may_wait:
        raise click.UsageError("--park is for --class secure")
    if budget is not None and not traits.is_timed:
        raise click.UsageError("--budget is for express events; add --class express")
    if (retain or ttl is not None) and traits.is_timed:
        raise click.UsageError("--retain and --ttl are not for express events")
    names = check_names(to.split(",")) if to is not None else ()
    if names and not traits.is_base:
        raise click.UsageError("--to is for --class normal")
    if names and (retain or realm != "all"):
        raise click.UsageError("--to goes neither with --retain nor with --realm")
    check_topic(topic)  # before a broker is looked for
    pairs = traced(parse_attributes(attributes), traceparent) or {}
    if lines and is_default("timeout"):
        connection = replace(connection, timeout=math.inf)
    run_async(
        _publish,
        connection,
        topic,
        _Lines() if lines else _Given(payload, count),
        LinkClass(link_class),
        pairs,
        budget,
        as_json,
        park=park or 0.0,
        retain=retain,
        ttl=ttl,
        realm=realm,
        to=names,
    )


def parse_attributes(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the attributes that are given as KEY=VALUE.

    Raises:
        click.BadParameter: one is not, or is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--attr")
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice", param_hint="--attr")
        found[key] = value
    return found


class _Given:
    """The payload given on the command line or as standard input, ``count`` times."""

    def __init__(self, payload: str, count: int) -> None:
        # One byte more than may be published: the client says so, whatever is behind it.
        data = (
            sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
            if payload == "-"
            else payload.encode(errors="surrogateescape")
        )
        self._payloads = [data] * count

    async def batch(self) -> list[bytes]:
        """Return all of them, and none when asked again."""
        payloads, self._payloads = self._payloads, []
        return payloads


class _Lines:
    """The lines of standard input, each as soon as it comes."""

    def __init__(self) -> None:
        self._rest: bytes | None = b""  #: the beginning of a line; None at the end of input

    async def batch(self) -> list[bytes]:
        """Return the lines that have come, at least one; none at the end of input."""
        import trio

        lines: list[bytes] = []
        while not lines and self._rest is not None:
            # Not sys.stdin: an interrupt must not meet a thread that holds its lock.
            read = partial(os.read, sys.stdin.fileno(), READ_BYTES)
            data = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
            *lines, rest = (self._rest + data).split(b"\n")
            if len(rest) > MAX_PAYLOAD_BYTES:
                raise ConfigError(
                    f"a line of more than {MAX_PAYLOAD_BYTES} bytes; one line is one event"
                )
            self._rest = rest if data else None
            if not data and rest:
                lines.append(rest)
        return [line.rstrip(b"\r") for line in lines]


async def _publish(
    connection: Connection,
    topic: str,
    payloads: _Given | _Lines,
    link_class: LinkClass,
    attributes: Mapping[str, str],
    budget: float | None,
    as_json: bool,
    *,
    park: float,
    retain: bool,
    ttl: float | None,
    realm: str,
    to: tuple[str, ...],
) -> None:
    done = 0
    async with connection.attached() as client:
        while batch := await payloads.batch():
            for payload in batch:
                await client.publish(
                    topic,
                    payload,
                    attributes=attributes,
                    link_class=link_class,
                    budget=budget,
                    park=park,
                    retain=retain,
                    ttl=ttl,
                    realm=realm,
                    to=to,
                )
            done += len(batch)
        await client.flush()
        url = client.broker_url
    if as_json:
        click.echo(json.dumps({"published": done, "topic": topic, "broker": url}))
    else:
        click.echo(f"published {counted(done, 'event')} to {topic} at {url}")
