"""A status that is too long for one frame goes in pages, and is put together again.

A broker with 200 links to brokers with long URLs says more than fits into a control frame. First
come its place and its counters, then the links that the ring stands on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ges.wire.client_messages import CLIENT_CODEC
from ges.wire.status import MAX_PAGES, MoreStatus, Status
from overlay.errors import ProtocolError
from overlay.wire.frames import HEADER, MAX_CONTROL_BYTES

#: Lists of a status that may be long, in the order in which they are told.
LISTS = ("backups", "chords", "suspects", "links", "verdicts")

_SPARE = 64  #: bytes that a page may take beside its items and what an empty one takes

_encode = msgspec.msgpack.Encoder().encode


def status_frames(status: Status) -> list[bytes]:
    """Return a status as frames, each a page; one, wherever that is enough."""
    whole = CLIENT_CODEC.encode(status)
    if len(whole) <= MAX_CONTROL_BYTES:
        return [whole]
    first: Status | MoreStatus = msgspec.structs.replace(status, **_lists([]))
    room = MAX_CONTROL_BYTES - len(CLIENT_CODEC.encode(first)) - _SPARE
    pages: list[list[tuple[str, object]]] = [[]]
    for name, item in _items(status):
        size = len(_encode(item))
        if size > room and pages[-1]:
            if len(pages) == MAX_PAGES:
                break
            pages.append([])
            room = MAX_CONTROL_BYTES - HEADER.size - _SPARE
        room -= size
        pages[-1].append((name, item))
    frames = []
    for number, page in enumerate(pages):
        more = len(pages) - 1 - number
        message = (
            msgspec.structs.replace(status, more=more, **_lists(page))
            if number == 0
            else MoreStatus(more=more, **_lists(page))
        )
        frames.append(CLIENT_CODEC.encode(message))
    return frames


def _items(status: Status) -> Iterator[tuple[str, object]]:
    for name in LISTS:
        items = getattr(status, name)
        if name == "links":
            items = sorted(status.links, key=lambda link: not link.roles)
        for item in items:
            yield name, item


def _lists(items: Sequence[tuple[str, object]]) -> dict[str, Any]:
    return {name: tuple(item for its, item in items if its == name) for name in LISTS}


class StatusPages:
    """Puts pages together as they come, at the client."""

    __slots__ = ("_missing", "_pages")

    def __init__(self) -> None:
        self._pages: list[Status | MoreStatus] = []
        self._missing = 0  #: pages to come

    def take(self, page: Status | MoreStatus) -> Status | None:
        """Take the next page; returns the status when it is whole.

        Raises:
            ProtocolError: it is not the page that is to come.
        """
        if isinstance(page, Status):
            self._pages = []
        elif page.more != self._missing - 1:
            raise ProtocolError("a page of a status that is none of those announced")
        self._pages.append(page)
        self._missing = page.more
        if page.more:
            return None
        first, pages = self._pages[0], self._pages
        self._pages = []
        assert isinstance(first, Status)
        if len(pages) == 1:
            return first
        whole = {
            name: tuple(item for each in pages for item in getattr(each, name)) for name in LISTS
        }
        status = msgspec.structs.replace(first, **whole)
        links = sorted(status.links, key=lambda link: (link.uid, link.link_class))
        return msgspec.structs.replace(status, links=tuple(links), more=0)
