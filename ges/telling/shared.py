"""A table that many brokers hold: told, compared, asked for, and of each row the later one counts.

For example, all members of a cluster hold the links of each of them. A row has a *key* (the uid of
the member) and a *version* (its life, and how often it has told of its links). A member whose links
change tells all others its row. Another member may miss that row. Then its digest differs from that
of its ring neighbour, and it asks the neighbour: it says which versions it holds, the neighbour
sends the rows that are later, and asks back where it lacks rows itself.

A room says what its rows mean. It says which keys *belong* to somebody, such as a member or a unit:
rows of these are compared, and are dropped with their key. A row may also come before the table by
which its key belongs. A few of such rows are kept, and the oldest goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from ges.telling.arcs import Arc
from ges.telling.comparison import Comparison
from ges.telling.spread import Done, Spread, Surroundings
from ges.wire.telling_messages import (
    HeldRow,
    Row,
    Rows,
    RowsWanted,
    RowVersion,
)
from overlay.circular import is_after
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Message, Send

PULL_NS = nanos(0.3)  #: between two questions for rows of one kind
MAX_ASKED = 64  #: brokers that were asked, and of which that is known
ROW_BYTES = 8  #: that packing takes beside the content of a row
FULL_BYTES = 48 * 1024  #: of rows in one message, so that it fits into a letter as well

R = TypeVar("R", bound=msgspec.Struct)

#: Sends one broker a message, whether it is linked or not.
SendTo = Callable[[str, Message], list[Effect]]

_encode = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(tuple[Row, ...]).decode


def is_later(one: RowVersion, other: RowVersion) -> bool:
    """Say whether one of two rows of a key counts, and not the other."""
    if one.epoch != other.epoch:
        return is_after(one.epoch, other.epoch)
    if one.count != other.count:
        return is_after(one.count, other.count)
    return one.writer > other.writer


def mark_of(row: HeldRow) -> int:
    """Return 63 bits for a row; those of all rows make up a digest."""
    return int.from_bytes(hashlib.blake2b(_encode(row), digest_size=8).digest()) >> 1


def send_linked(uid: str, message: Message) -> list[Effect]:
    """Send a message to a broker that is linked."""
    return [Send(uid, message)]


class Table(Generic[R]):
    """Rows by key, as one broker holds them."""

    def __init__(
        self,
        key_of: Callable[[R], str],
        version_of: Callable[[R], RowVersion],
        early: int,
    ) -> None:
        """``early``: how many rows are kept that belong to nobody yet."""
        self.digest = 0  #: of the rows that belong to somebody: 63 bits
        self.key_of = key_of
        self.version_of = version_of
        self._early = early
        self._keys: Mapping[str, None] = {}
        self._rows: dict[str, R] = {}

    def __iter__(self) -> Iterator[R]:
        """Yield the rows that belong to somebody."""
        return (self._rows[key] for key in self._keys if key in self._rows)

    def __len__(self) -> int:
        """Return how many rows are kept, early ones among them."""
        return len(self._rows)

    def get(self, key: str) -> R | None:
        """Return the row of a key, or None."""
        return self._rows.get(key)

    def follow(self, keys: Iterable[str]) -> None:
        """These keys belong to somebody now; drop the rows of those that did, and do no more."""
        before, self._keys = self._keys, dict.fromkeys(keys)
        for key in before:
            if key not in self._keys:
                self._rows.pop(key, None)
        self.digest = sum(map(self._mark, self)) % 2**63

    def take_row(self, row: R) -> bool:
        """Hold a row if it is later than the one that is held; says whether it is."""
        key = self.key_of(row)
        held = self._rows.get(key)
        if held is not None and not is_later(self.version_of(row), self.version_of(held)):
            return False
        self._rows.pop(key, None)
        self._rows[key] = row
        if key in self._keys:
            gone = self._mark(held) if held is not None else 0
            self.digest = (self.digest + self._mark(row) - gone) % 2**63
        else:
            early = [each for each in self._rows if each not in self._keys]
            for each in early[: -self._early]:
                del self._rows[each]
        return True

    @property
    def held(self) -> list[HeldRow]:
        """Which rows that belong to somebody are held."""
        return [HeldRow(self.key_of(row), self.version_of(row)) for row in self]

    def later_than(self, held: Iterable[HeldRow]) -> tuple[list[R], bool]:
        """Return what a broker lacks that holds these rows, and whether it holds later ones."""
        theirs = {each.key: each.version for each in held}
        found: list[R] = []
        is_behind = False
        for row in self:
            own, other = self.version_of(row), theirs.pop(self.key_of(row), None)
            if other is None or is_later(own, other):
                found.append(row)
            is_behind |= other is not None and is_later(other, own)
        return found, is_behind or any(key in self._keys for key in theirs)

    def _mark(self, row: R) -> int:
        return mark_of(HeldRow(self.key_of(row), self.version_of(row)))


class Held(Protocol):
    """Rows that brokers compare, by a digest and then by versions."""

    @property
    def digest(self) -> int:
        """63 bits that differ, as good as surely, where what is held differs."""

    @property
    def held(self) -> Sequence[HeldRow]:
        """Which rows are held."""

    def answer(self, uid: str, wanted: RowsWanted, now: Nanos) -> tuple[list[Effect], bool]:
        """Send a broker what it lacks; says whether it holds what is not held here."""


class Sharing:
    """All tables that one broker shares with others."""

    def __init__(self, around: Surroundings, arc: Callable[[], Arc]) -> None:
        """``arc``: that of the cluster, as it is now."""
        self.spread = Spread(around, arc)
        self.comparison = Comparison(around.peer.uid, arc)
        self._asking: dict[int, Asking] = {}

    def answer(self, asking: Asking) -> None:
        """Answer questions for what is held of a kind."""
        self._asking[asking.kind] = asking

    def compare(self, asking: Asking, arc: Callable[[], Arc] | None = None) -> None:
        """Compare what is held of a kind as well, and ask where it differs.

        ``arc``: see :meth:`ges.telling.comparison.Comparison.register`.
        """
        self.answer(asking)
        self.comparison.register(asking.kind, asking, asking.concerns, arc)

    def on_wanted(self, uid: str, wanted: RowsWanted, now: Nanos) -> list[Effect]:
        """Another broker asks for rows."""
        asking = self._asking.get(wanted.kind)
        return asking.on_wanted(uid, wanted, now) if asking is not None else []

    def on_rows(self, uid: str, rows: Rows, now: Nanos) -> list[Effect]:
        """Another broker sends rows that were asked for."""
        try:
            found = _decode_rows(rows.packed)
        except msgspec.MsgspecError:
            self.spread.counters["tells_malformed"] += 1
            return []
        effects: list[Effect] = []
        for row in found:
            effects += self.spread.take_content(row.kind, row.content, uid, now)[1]
        return effects


@dataclass(frozen=True, slots=True)
class _Asked:
    digest: int  #: of what was held here then
    again_at: Nanos
    pause: Nanos


class Asking:
    """Asks others for what differs, and answers them; a :class:`ges.telling.comparison.Holding`."""

    def __init__(
        self,
        kind: int,
        held: Held,
        send: SendTo = send_linked,
        *,
        concerns: Callable[[str], bool] | None = None,
        pauses: tuple[Nanos, Nanos] = (PULL_NS, PULL_NS),
        stays: Nanos = 0,
    ) -> None:
        """``concerns``: who holds that kind at all.

        ``pauses``: from one question in vain to the next; doubled from the first to the last.
        ``stays``: a difference is asked for that is seen again within this; 0: that is seen once.
        """
        self.kind = kind
        self.concerns = concerns
        self._held = held
        self._send = send
        self._first, self._longest = pauses
        self._stays = stays
        self._differed: dict[str, Nanos] = {}  #: who held something else, and since when
        self._asked: dict[str, _Asked] = {}
        self._asked_at: Nanos | None = None  #: whoever it was

    @property
    def digest(self) -> int:
        """Of what is held."""
        return self._held.digest

    def on_differs(self, uid: str, now: Nanos) -> list[Effect]:
        """Another broker holds something else: ask it, but not for ever in vain."""
        if self._stays and not self._has_stayed(uid, now):
            return []
        if self._asked_at is not None and now < self._asked_at + PULL_NS:
            return []
        digest, last = self.digest, self._asked.pop(uid, None)
        pause = self._first
        if last is not None and last.digest == digest:
            if now < last.again_at:
                self._asked[uid] = last
                return []
            pause = min(2 * last.pause, self._longest)
        if len(self._asked) >= MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        self._asked[uid] = _Asked(digest, now + pause, pause)
        self._asked_at = now
        return self.ask(uid)

    def _has_stayed(self, uid: str, now: Nanos) -> bool:
        last = self._differed.pop(uid, None)
        if last is not None and now - last < self._stays:
            return True
        if len(self._differed) >= MAX_ASKED:
            del self._differed[next(iter(self._differed))]
        self._differed[uid] = now
        return False

    def ask(self, uid: str, *, is_answer: bool = False) -> list[Effect]:
        """Ask a broker now, whenever another was asked."""
        return self._send(uid, RowsWanted(self.kind, tuple(self._held.held), is_answer))

    def on_wanted(self, uid: str, wanted: RowsWanted, now: Nanos) -> list[Effect]:
        """Send what is wanted; ask back where the other broker holds something else."""
        if self.concerns is not None and not self.concerns(uid):
            return []
        effects, is_behind = self._held.answer(uid, wanted, now)
        if is_behind and not wanted.is_answer:
            effects += self.ask(uid, is_answer=True)
        return effects


class SharedTable(Generic[R]):
    """A table whose rows are told to all that hold it, and compared."""

    def __init__(
        self,
        sharing: Sharing,
        kind: int,
        row: type[R],
        table: Table[R],
        on_news: Callable[[R, R | None, Nanos], None],
        send: SendTo = send_linked,
        *,
        arc: Callable[[], Arc] | None = None,
    ) -> None:
        """``on_news`` hears of each row that counts from now on, and of the one before it."""
        self.table = table
        self._sharing = sharing
        self._kind = kind
        self._on_news = on_news
        self._send = send
        sharing.spread.register(kind, row, self._on_row)
        asking = Asking(kind, self, send)
        sharing.compare(asking, arc)
        self.ask = asking.ask

    @property
    def digest(self) -> int:
        """Of the rows that belong to somebody."""
        return self.table.digest

    @property
    def held(self) -> list[HeldRow]:
        """Which of these are held."""
        return self.table.held

    def tell(
        self,
        row: R,
        now: Nanos,
        on_done: Done | None = None,
        arc: Arc | None = None,
        *,
        whole: bool = False,
    ) -> list[Effect]:
        """Tell all a row of this broker; see :meth:`ges.telling.spread.Spread.tell`."""
        self._sharing.comparison.touch(now)
        return self._sharing.spread.tell(self._kind, row, now, on_done, arc, whole=whole)

    def answer(self, uid: str, wanted: RowsWanted, now: Nanos) -> tuple[list[Effect], bool]:
        """Send a broker the rows that are later than its own, or not among them."""
        rows, is_behind = self.table.later_than(wanted.held)
        packed = pack_rows((self._kind, row) for row in rows)
        return [effect for each in packed for effect in self._send(uid, each)], is_behind

    def _on_row(self, row: R, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        before = self.table.get(self.table.key_of(row))
        if self.table.take_row(row):
            self._sharing.comparison.touch(now)
            self._on_news(row, before, now)
        return True, []


def pack_rows(rows: Iterable[tuple[int, msgspec.Struct]]) -> list[Rows]:
    """Return rows, each with its kind, in as few messages as they fit into."""
    parts: list[list[Row]] = []
    room = 0
    for kind, row in rows:
        content = _encode(row)
        size = len(content) + ROW_BYTES
        if size > room:
            parts.append([])
            room = FULL_BYTES
        parts[-1].append(Row(kind, content))
        room -= size
    return [Rows(_encode(part)) for part in parts]
