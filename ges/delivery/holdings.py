"""What a client is interested in, and the entry that it gets for a topic.

Equal filters of one client are one *holding*, however many of its subscriptions share them. The
entry, or *row*, of a client for a topic has the numbers of all its subscriptions that match. A row
does not change. Where only one holding matches, which is the rule, the row belongs to the holding,
and all topics share it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from ges.delivery.subscriber import Subscriber
from ges.matching.asks import everything
from ges.wire.asked import Ask
from ges.wire.delivered import MAX_MATCHES, pack_matches
from overlay.ids import LinkClass
from overlay.queues.outlet import Outlet

ROW_BYTES = 192  #: memory for a row at most, beside the numbers in it
HOLDING_BYTES = 512  #: memory for a holding with one subscription and its row, at most
NUMBER_BYTES = 4


class Recipient:
    """A client as deliveries see it."""

    __slots__ = ("client", "holdings", "near", "outlet")

    def __init__(self, client: Subscriber) -> None:
        self.client: Subscriber | None = client  #: None: it has gone
        #: Where events go that are not express; None: nowhere now, as it is behind or has gone.
        self.outlet: Outlet | None = client.connection
        self.holdings: dict[Ask, Holding] = {}
        self.near = 0  #: subscriptions for events of some units alone


class Row(NamedTuple):
    """One client that wants a topic."""

    recipient: Recipient
    matches: bytes  #: the numbers of its subscriptions, as they stand before the events
    more: bytes  #: those that are too many to stand there
    owner: Holding | None = None  #: the only filter that they have; the row is part of it


Targets = tuple[Row, ...]  #: who wants a topic


class Holding:
    """What one client asks for, and its subscriptions that do."""

    __slots__ = ("_row", "ask", "numbers", "recipient")

    def __init__(self, recipient: Recipient, ask: Ask) -> None:
        self.recipient = recipient
        self.ask = ask
        self.numbers: list[int] = []  #: of its subscriptions, in order
        self._row: Row | None = None

    def add(self, number: int) -> None:
        """Let one more subscription have the filter."""
        insort(self.numbers, number)

    def remove(self, number: int) -> None:
        """Take the filter from a subscription that has it."""
        del self.numbers[bisect_left(self.numbers, number)]

    def drop_row(self) -> int:
        """Make a new row from now on; returns the bytes that the old one takes where it is used."""
        row, self._row = self._row, None
        return HOLDING_BYTES + len(row.matches) + len(row.more) if row is not None else 0

    def row(self, link_class: LinkClass) -> Row | None:
        """Return the client with these subscriptions, if they take events of that class."""
        if not self.ask.takes(link_class):
            return None
        if self._row is None:
            self._row = _row_of(self.recipient, self.numbers, self)
        return self._row


class Change(NamedTuple):
    """A subscription has got a filter, or has it no more."""

    holding: Holding
    number: int
    is_new: bool


_SEVERAL = everything()  #: nobody asks so


def merged(recipient: Recipient, rows: Iterable[Row]) -> Row:
    """Return the row of a client of which several filters match."""
    return _row_of(recipient, sorted(n for row in rows for n in _numbers_of(row)))


def from_afar(targets: Targets, common: int) -> Targets:
    """Return who of these wants events that come from afar.

    ``common``: the level of the smallest unit that has both their source and this broker in it.
    """
    found = []
    for row in targets:
        client = row.recipient.client
        if row.recipient.near and client is not None:
            numbers = [n for n in _numbers_of(row) if client.asks[n].realm >= common]
            if numbers:
                found.append(_row_of(row.recipient, numbers))
        else:
            found.append(row)
    return tuple(found)


def mended(
    recipient: Recipient, row: Row | None, changes: list[Change], link_class: LinkClass
) -> Row | None:
    """Return the row of a client after changes of what it asks for that all match one topic."""
    if recipient.client is None:
        return None
    asks = {change.holding.ask for change in changes}
    if row is not None:
        asks.add(row.owner.ask if row.owner is not None else _SEVERAL)
    if len(asks) == 1 and _SEVERAL not in asks:  # nothing else that it asks for matches
        holding = recipient.holdings.get(asks.pop())
        return holding.row(link_class) if holding is not None else None
    numbers = list(_numbers_of(row)) if row is not None else []
    for _, number, is_new in changes:
        at = bisect_left(numbers, number)
        is_known = at < len(numbers) and numbers[at] == number
        if is_new and not is_known:
            numbers.insert(at, number)
        elif is_known and not is_new:
            del numbers[at]
    return _row_of(recipient, numbers) if numbers else None


def _row_of(recipient: Recipient, numbers: list[int], owner: Holding | None = None) -> Row:
    most, rest = tuple(numbers[:MAX_MATCHES]), numbers[MAX_MATCHES:]
    return Row(recipient, pack_matches(most), struct.pack(f"!{len(rest)}I", *rest), owner)


def _numbers_of(row: Row) -> tuple[int, ...]:
    packed = row.matches[2:] + row.more
    return struct.unpack(f"!{len(packed) // NUMBER_BYTES}I", packed)


def weigh(targets: Targets) -> int:
    """Return how many bytes of memory it takes to remember these, beside what holdings have."""
    own = (row for row in targets if row.owner is None)
    return 8 * len(targets) + sum(ROW_BYTES + len(row.matches) + len(row.more) for row in own)
