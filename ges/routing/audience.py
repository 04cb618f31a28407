"""Who wants the events of a topic, and by which subscriptions.

Equal filters of one client are one *holding*: matching finds it once, however many subscriptions
share it. Who wants a topic is remembered, and mended when a filter changes that matches the topic:
only the entry of the client whose filter it is is made anew. So neither the number of filters that
others have nor how often they change them costs the events of a topic much.

A client that has gone is not sought in all that is remembered: its entries lead nowhere from then
on, and are left out when they are made anew.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple

from ges.matching.changes import Changes
from ges.matching.engine import Engine
from ges.matching.topic_cache import TopicCache
from ges.matching.topic_filters import TopicFilters
from ges.routing.subscriber import Subscriber
from ges.wire.delivered import MAX_MATCHES, pack_matches
from overlay.ids import LinkClass
from overlay.queues.outlet import Outlet

MAX_CACHE_BYTES = 32 * 1024 * 1024  #: for the events of each class
ROW_BYTES = 192  #: memory for an entry at most, beside the numbers of its subscriptions
NUMBER_BYTES = 4


class Recipient:
    """A client as deliveries see it."""

    __slots__ = ("client", "holdings", "outlet")

    def __init__(self, client: Subscriber) -> None:
        self.client: Subscriber | None = client  #: None: it has gone
        #: Where events go that are not express; None: nowhere now, as it is behind or has gone.
        self.outlet: Outlet | None = client.connection
        self.holdings: dict[str, Holding] = {}  #: by filter


class Row(NamedTuple):
    """One client that wants a topic."""

    recipient: Recipient
    matches: bytes  #: the numbers of its subscriptions, as they stand before the events
    more: bytes  #: those that are too many to stand there
    size: int  #: bytes of memory; 0: it belongs to a holding, where it is counted


Targets = tuple[Row, ...]  #: who wants a topic


class Holding:
    """One filter of one client, and its subscriptions that have this filter."""

    __slots__ = ("_rows", "numbers", "recipient")

    def __init__(self, recipient: Recipient) -> None:
        self.recipient = recipient
        self.numbers: dict[int, LinkClass | None] = {}  #: each with the only class it is for
        self._rows: dict[LinkClass, Row | None] = {}

    def add(self, number: int, only: LinkClass | None) -> None:
        """Let one more subscription have the filter."""
        self.numbers[number] = only
        self._rows.clear()

    def remove(self, number: int) -> None:
        """Take the filter from a subscription."""
        del self.numbers[number]
        self._rows.clear()

    def row(self, link_class: LinkClass) -> Row | None:
        """Return the client with these subscriptions, as far as they take events of that class."""
        if link_class not in self._rows:
            found = sorted(n for n, only in self.numbers.items() if only in (None, link_class))
            may = link_class is not LinkClass.SECURE or _is_secure(self.recipient)
            row = _row(self.recipient, found) if found and may else None
            self._rows[link_class] = row._replace(size=0) if row is not None else None
        return self._rows[link_class]


class Audience:
    """All subscriptions of the clients here."""

    def __init__(self) -> None:
        self.size = 0  #: how many subscriptions there are
        self._recipients: dict[Subscriber, Recipient] = {}
        self._engine: Engine[Holding] = TopicFilters()
        self._changes: Changes[_Change] = Changes()
        self._caches: dict[LinkClass, TopicCache[Targets, _Change]] = {
            each: TopicCache(
                self._changes,
                partial(self._match, each),
                partial(self._mend, each),
                _weigh,
                nothing=(),
                limit_bytes=MAX_CACHE_BYTES,
            )
            for each in LinkClass
        }

    def add(self, client: Subscriber, number: int, text: str, only: LinkClass | None) -> None:
        """Let a subscription that is not in use have a checked filter."""
        recipient = self._recipient(client)
        holding = recipient.holdings.get(text)
        if holding is None:
            holding = recipient.holdings[text] = Holding(recipient)
            self._engine.add(text, holding)
        holding.add(number, only)
        self.size += 1
        self._changes.note(text, _Change(holding, number, only, is_new=True))

    def remove(self, client: Subscriber, number: int, text: str) -> None:
        """Take its filter from a subscription."""
        holding = self._recipients[client].holdings[text]
        holding.remove(number)
        self.size -= 1
        if not holding.numbers:
            del holding.recipient.holdings[text]
            self._engine.remove(text, holding)
        self._changes.note(text, _Change(holding, number, None, is_new=False))

    def forget(self, client: Subscriber) -> None:
        """The client is gone, or is to get nothing more of what it has subscribed to so far."""
        recipient = self._recipients.pop(client, None)
        if recipient is None:
            return
        for text, holding in recipient.holdings.items():
            self._engine.remove(text, holding)
            self.size -= len(holding.numbers)
        recipient.holdings.clear()
        recipient.client = recipient.outlet = None

    def hold(self, client: Subscriber) -> None:
        """Let only express events go to a client from now on."""
        self._recipient(client).outlet = None

    def release(self, client: Subscriber) -> None:
        """Let all events that a client wants go to it again."""
        self._recipient(client).outlet = client.connection

    def of(self, link_class: LinkClass, topic: bytes) -> Targets:
        """Return who wants events of a class and topic; some may have gone."""
        return self._caches[link_class].value(topic)

    @property
    def cached_bytes(self) -> int:
        """Memory that takes what is remembered of topics, by estimate."""
        return sum(cache.cached_bytes for cache in self._caches.values())

    def drop_cache(self) -> None:
        """Forget what is remembered of topics."""
        for cache in self._caches.values():
            cache.drop()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _recipient(self, client: Subscriber) -> Recipient:
        recipient = self._recipients.get(client)
        if recipient is None:
            recipient = self._recipients[client] = Recipient(client)
        return recipient

    def _match(self, link_class: LinkClass, topic: str) -> Targets:
        rows: dict[Recipient, Row] = {}
        several: dict[Recipient, list[Row]] = {}
        for holding in self._engine.matches(topic):
            row = holding.row(link_class)
            if row is None:
                continue
            known = rows.setdefault(holding.recipient, row)
            if known is not row:
                several.setdefault(holding.recipient, [known]).append(row)
        for recipient, parts in several.items():
            rows[recipient] = _row(recipient, sorted(n for row in parts for n in _numbers(row)))
        return tuple(rows.values())

    def _mend(
        self, link_class: LinkClass, topic: str, targets: Targets, changes: list[_Change]
    ) -> Targets:
        rows = {row.recipient: row for row in targets if row.recipient.client is not None}
        touched: dict[Recipient, set[int]] = {}
        last: dict[Recipient, Holding] = {}
        for holding, number, only, is_new in changes:
            recipient = holding.recipient
            if recipient not in touched:
                row = rows.get(recipient)
                touched[recipient] = set(_numbers(row)) if row is not None else set()
            last[recipient] = holding
            if not is_new:
                touched[recipient].discard(number)
            elif only in (None, link_class):
                touched[recipient].add(number)
        for recipient, numbers in touched.items():
            may = link_class is not LinkClass.SECURE or _is_secure(recipient)
            if numbers and may and recipient.client is not None:
                row, own = _row(recipient, sorted(numbers)), last[recipient].row(link_class)
                is_own = own is not None and own.matches == row.matches and own.more == row.more
                rows[recipient] = own if own is not None and is_own else row
            else:
                rows.pop(recipient, None)
        return tuple(rows.values())


class _Change(NamedTuple):
    """A subscription has got a filter, or has it no more."""

    holding: Holding
    number: int
    only: LinkClass | None
    is_new: bool


def _is_secure(recipient: Recipient) -> bool:
    return recipient.client is not None and recipient.client.secure


def _row(recipient: Recipient, numbers: list[int]) -> Row:
    most, rest = tuple(numbers[:MAX_MATCHES]), numbers[MAX_MATCHES:]
    more = struct.pack(f"!{len(rest)}I", *rest)
    return Row(recipient, pack_matches(most), more, ROW_BYTES + NUMBER_BYTES * len(numbers))


def _numbers(row: Row) -> tuple[int, ...]:
    packed = row.matches[2:] + row.more
    return struct.unpack(f"!{len(packed) // NUMBER_BYTES}I", packed)


def _weigh(targets: Targets) -> int:
    return 8 * len(targets) + sum(row.size for row in targets)
