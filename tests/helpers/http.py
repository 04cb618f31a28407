"""Requests to admin servers, as curl makes them."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

LIMIT_SECONDS = 20.0


@dataclass(frozen=True)
class Answer:
    """What a server has answered."""

    status: int
    headers: dict[str, str]  #: names in lower case
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it says
        """The body, decoded."""
        return json.loads(self.body)


def fetch(
    url: str,
    path: str = "/",
    method: str = "GET",
    *,
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    """Ask once; of a header's name ``_`` is ``-``. ``context``: for HTTPS."""
    connection = _connection(url, context)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        reply = connection.getresponse()
        return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
    finally:
        connection.close()


@contextmanager
def following(url: str, path: str, **headers: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Follow server-sent events for the length of the block: their names, and what they say."""
    connection = _connection(url)
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        yield _events(reply)
    finally:
        connection.close()


def _connection(url: str, context: ssl.SSLContext | None = None) -> HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        return HTTPSConnection(parts.hostname, parts.port, timeout=LIMIT_SECONDS, context=context)
    return HTTPConnection(parts.hostname, parts.port, timeout=LIMIT_SECONDS)


def _events(reply: HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := reply.readline():
        kind, _, rest = line.decode().rstrip("\n").partition(": ")
        if kind == "event":
            name = rest
        elif kind == "data":
            yield name, json.loads(rest)
