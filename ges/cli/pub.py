"""``chordal pub``: publish one event, or one for each line of input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from ges.cli.options import CLASSES, client_options, json_option, run_async
from overlay.ids import LinkClass


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
@click.option("--lines", is_flag=True, help="With PAYLOAD -: one event for each line of input.")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, help="Publish the payload this many times."
)
@json_option
@client_options
def pub(
    topic: str,
    payload: str,
    link_class: str,
    attributes: tuple[str, ...],
    lines: bool,
    count: int,
    as_json: bool,
    broker: str,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> None:
    """Publish PAYLOAD to TOPIC; - reads it from standard input.

    Done when the broker has taken all of it; an event it refuses is an error that says why.
    """
    if lines and payload != "-":
        raise click.UsageError("--lines needs PAYLOAD to be -, for standard input")
    pairs = dict(_parse_attribute(text) for text in attributes)
    run_async(
        _publish,
        broker,
        topic,
        _payloads(payload, lines, count),
        LinkClass(link_class),
        pairs,
        as_json,
        identity=identity,
        overlay=overlay,
        timeout=timeout,
    )


def _parse_attribute(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--attr")
    return key, value


def _payloads(payload: str, lines: bool, count: int) -> Iterable[bytes]:
    if lines:
        return (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    data = sys.stdin.buffer.read() if payload == "-" else payload.encode(errors="surrogateescape")
    return (data for _ in range(count))


async def _publish(
    broker: str,
    topic: str,
    payloads: Iterable[bytes],
    link_class: LinkClass,
    attributes: dict[str, str],
    as_json: bool,
    *,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> None:
    from ges.client import connect

    done = 0
    async with connect(broker, identity=identity, overlay=overlay, timeout=timeout) as client:
        for payload in payloads:
            await client.publish(topic, payload, attributes=attributes, link_class=link_class)
            done += 1
        await client.flush()
        url = client.broker_url
    if as_json:
        click.echo(json.dumps({"published": done, "topic": topic, "broker": url}))
    else:
        click.echo(f"published {done} event{'s' if done != 1 else ''} to {topic} at {url}")
