"""Events as they pass, for people who watch: a few each second, and never all of many.

A reader of a tail is a client of its own broker like any other, with what the access rules let such
a client have. When more events come in a second than are shown, its subscription ends until that
second is over: so a broker that is busy is not made busier.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import trio

from ges.broker import Broker
from ges.client import Client, connect
from ges.errors import SubscribeRefused
from ges.http.answers import NextBlock, server_sent
from ges.wire.attributes import Attribute
from ges.wire.delivered import Event
from overlay.errors import ChordalError
from overlay.ids import LinkClass

SHOWN_PER_SECOND = 50
SHOWN_BYTES = 1024  #: of a payload
WAITING = 100  #: events that wait for a slow reader; beyond that they are passed over
FIND_S = 2.0


class EventPicture(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event, as it is shown."""

    topic: str
    link_class: str = msgspec.field(name="class")
    publisher: str
    sequence: int
    published_unix_ns: int
    hops: int
    size: int  #: bytes of the whole payload
    text: str | None = None  #: its beginning, where it is text
    base64: bytes | None = None  #: the same where it is not
    attributes: dict[str, Attribute] = {}


@asynccontextmanager
async def event_tail(broker: Broker, text: str, *, shows_secure: bool) -> AsyncIterator[NextBlock]:
    """Follow the events that a filter takes, as server-sent events ``event`` and ``skipped``.

    ``shows_secure``: secure ones, too; else nobody sees that there are any.
    """
    send, receive = trio.open_memory_channel[bytes](WAITING)
    async with trio.open_nursery() as nursery, send, receive:
        nursery.start_soon(_attend, broker, text, send, shows_secure)

        async def following() -> bytes | None:
            try:
                return await receive.receive()
            except trio.EndOfChannel:
                return None

        yield following
        nursery.cancel_scope.cancel()


async def _attend(
    broker: Broker, text: str, send: trio.MemorySendChannel[bytes], shows_secure: bool
) -> None:
    config = broker.config
    async with send:
        try:
            async with connect(
                broker.secure_url or broker.url,
                identity=config.identity,
                overlay=config.overlay,
                timeout=FIND_S,
                reattach=False,
                on_waiting=lambda words: None,
            ) as client:
                while True:
                    await _attend_awhile(client, text, send, shows_secure=shows_secure)
        except* SubscribeRefused as group:
            words = "; ".join(map(str, group.exceptions))
            await send.send(server_sent("refused", msgspec.json.encode(words)))
        except* ChordalError:
            pass  # the broker ends


async def _attend_awhile(
    client: Client, text: str, send: trio.MemorySendChannel[bytes], *, shows_secure: bool
) -> None:
    """Show events until there are too many in one second; then wait for its end."""
    ends, shown, skipped = -math.inf, 0, 0
    async with client.subscribe(text) as events:
        async for event in events:
            if event.link_class is LinkClass.SECURE and not shows_secure:
                continue
            now = trio.current_time()
            if now >= ends:
                ends, shown = now + 1, 0
            if shown == SHOWN_PER_SECOND:
                break
            shown += 1
            try:
                send.send_nowait(server_sent("event", msgspec.json.encode(_picture(event))))
            except trio.WouldBlock:
                skipped += 1
    told = {"why": f"more than {SHOWN_PER_SECOND} events came in a second", "unread": skipped}
    await send.send(server_sent("skipped", msgspec.json.encode(told)))
    await trio.sleep_until(ends)


def _picture(event: Event) -> EventPicture:
    start = event.payload[:SHOWN_BYTES]
    text = None
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if len(event.payload) > SHOWN_BYTES and error.start > SHOWN_BYTES - 4:
            text = start[: error.start].decode()  # it is cut inside a character
    return EventPicture(
        event.topic,
        event.link_class.value,
        event.publisher,
        event.sequence,
        event.published_unix_ns,
        event.hops,
        len(event.payload),
        text,
        start if text is None else None,
        dict(event.attributes),
    )
