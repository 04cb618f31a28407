"""Requests as the admin server sees them, and its answers, between ASGI and the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import trio

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
NextBlock = Callable[[], Awaitable[bytes | None]]  #: of server-sent events; None: there are no more

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
MAX_QUERY_FIELDS = 16
_STILL_HERE = b": still here\n\n"

#: On every answer. The page loads nothing from elsewhere, and stands in no frame of another one.
_SAFETY: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for; names of headers are in lower case, of several the first counts."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    client: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on: server-sent events, each a block of lines."""

    opened: AbstractAsyncContextManager[NextBlock]
    counted: Callable[[], AbstractContextManager[None]]  #: around it, while it lasts
    quiet_s: float  #: without an event; then the client is told that the server is there


def refused(status: int, words: str, *headers: tuple[str, str]) -> Reply:
    """Return an answer that says in one line why there is none."""
    return Reply(status, f"{words}\n".encode(), TEXT, headers)


def server_sent(name: str, data: bytes) -> bytes:
    """Return one server-sent event; ``data`` is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def read_request(scope: Scope) -> Request:
    """Return what an ASGI scope asks for."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    query: dict[str, str] = {}
    text = scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:
        pairs = []
    for name, value in pairs:
        query.setdefault(name, value)
    client = scope.get("client")
    end = (str(client[0]), int(client[1])) if client is not None else None
    return Request(scope["method"], scope["path"], query, headers, end)


async def send_reply(send: Send, reply: Reply) -> None:
    """Answer with all at once."""
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", str(len(reply.body)).encode()),
        *_SAFETY,
        *((name.encode(), value.encode()) for name, value in reply.headers),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def send_stream(receive: Receive, send: Send, stream: Stream) -> None:
    """Answer with server-sent events, until they end or the client goes."""
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"x-accel-buffering", b"no"),
        *_SAFETY,
    ]
    with stream.counted():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_for_end, receive, nursery.cancel_scope)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async with stream.opened as next_block:
                is_over = False
                while not is_over:
                    block: bytes | None = _STILL_HERE
                    with trio.move_on_after(stream.quiet_s):
                        block = await next_block()
                    is_over = block is None
                    part = {"type": "http.response.body", "body": block or b"", "more_body": True}
                    await send(part)
            await send({"type": "http.response.body", "body": b""})
            nursery.cancel_scope.cancel()


async def _wait_for_end(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
