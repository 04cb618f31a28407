"""``chordal request``: ask the clients that answer on a topic, and print the reply."""

from __future__ import annotations

import sys
from functools import partial

import click

from ges.cli.connection import Connection
from ges.cli.options import (
    CLASSES,
    client_options,
    event_realm_option,
    json_option,
    run_async,
    token_option,
)
from ges.cli.pub import parse_attributes
from ges.cli.sub import as_json_line
from ges.wire.delivered import Event
from ges.wire.events import MAX_PAYLOAD_BYTES
from ges.wire.topics import check_topic
from overlay.ids import LinkClass
from overlay.wording import printable


@click.command()
@click.argument("topic")
@click.argument("payload", default="")
@click.option("--class", "link_class", type=CLASSES, default="normal", show_default=True)
@click.option(
    "--attr",
    "attributes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Attribute of the request; may be repeated.",
)
@event_realm_option
@json_option
@token_option
@partial(client_options, timeout=5.0, timeout_for="For finding a broker, and as long for the reply")
def request(
    topic: str,
    payload: str,
    link_class: str,
    attributes: tuple[str, ...],
    realm: str,
    as_json: bool,
    connection: Connection,
) -> None:
    """Publish PAYLOAD to TOPIC as a request, and print the first reply; - reads standard input.

    Where nobody has subscribed to TOPIC it fails at once. Where nobody answers in time it fails,
    too, and somebody may act on the request all the same. 'chordal reply' answers requests.
    """
    check_topic(topic)  # before a broker is looked for
    data = (
        sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
        if payload == "-"
        else payload.encode(errors="surrogateescape")
    )
    reply: Event = run_async(
        _ask,
        connection,
        topic,
        data,
        LinkClass(link_class),
        parse_attributes(attributes),
        realm,
    )
    if as_json:
        sys.stdout.buffer.write(as_json_line(reply))
    else:
        sys.stdout.buffer.write(_as_text(reply.payload, is_escaped=sys.stdout.isatty()))


def _as_text(payload: bytes, *, is_escaped: bool) -> bytes:
    """Return a reply with one end of line behind it; for people what does not show is escaped."""
    text = payload.removesuffix(b"\n") + b"\n"
    if is_escaped:
        text = printable(text.decode(errors="backslashreplace"), keep="\n\t").encode()
    return text


async def _ask(
    connection: Connection,
    topic: str,
    payload: bytes,
    link_class: LinkClass,
    attributes: dict[str, str],
    realm: str,
) -> Event:
    async with connection.attached() as client:
        return await client.request(
            topic,
            payload,
            timeout=connection.timeout,
            attributes=attributes,
            link_class=link_class,
            realm=realm,
        )
