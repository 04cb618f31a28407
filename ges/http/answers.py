"""Requests as the admin server sees them, and its answers; without I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from overlay.errors import ProtocolError
from overlay.wording import printable

NextBlock = Callable[[], Awaitable[bytes | None]]  #: of server-sent events; None: there are no more
End = tuple[str, int]  #: address and port of a client

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
MAX_QUERY_FIELDS = 16
STILL_HERE = b": still here\n\n"  #: no event; it shows that the server is there

#: On every answer. The page loads nothing from elsewhere, and stands in no frame of another one.
_SAFETY = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
    ),
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for; names of headers are in lower case, of several the first counts."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    client: End | None = None
    is_certified: bool = False  #: it has shown a certificate that counts here


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whole."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def all_headers(self) -> list[tuple[str, str]]:
        """The headers to send."""
        own = [("content-type", self.content_type), ("content-length", str(len(self.body)))]
        return [*own, *_SAFETY, *self.headers]


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on: server-sent events, each a block of lines."""

    opened: AbstractAsyncContextManager[NextBlock]
    counted: Callable[[], AbstractContextManager[None]]  #: around it, while it lasts
    quiet_s: float  #: without an event; then the client is told that the server is there

    @property
    def all_headers(self) -> list[tuple[str, str]]:
        """The headers to send."""
        own = ("content-type", "text/event-stream; charset=utf-8"), ("x-accel-buffering", "no")
        return [*own, *_SAFETY]


def refused(status: int, words: str, *headers: tuple[str, str]) -> Reply:
    """Return an answer that says in one line why there is none."""
    return Reply(status, f"{words}\n".encode(), TEXT, headers)


def server_sent(name: str, data: bytes) -> bytes:
    """Return one server-sent event; ``data`` is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def read_request(
    method: str,
    target: str,
    headers: Iterable[tuple[bytes, bytes]],
    client: End | None = None,
    *,
    is_certified: bool = False,
) -> Request:
    """Return what a client asks for, from what it has sent.

    Raises:
        ProtocolError: it does not ask this server, but through it for another.
    """
    if not target.startswith("/"):
        raise ProtocolError(f"{printable(target)!r} is no path")
    path, _, query = target.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as error:
        raise ProtocolError(f"more than {MAX_QUERY_FIELDS} fields after '?'") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    named: dict[str, str] = {}
    for raw_name, raw_value in headers:
        named.setdefault(raw_name.decode("latin-1").lower(), raw_value.decode("latin-1"))
    return Request(method, unquote(path), fields, named, client, is_certified)
