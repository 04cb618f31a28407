"""The members of the cluster and their slots, as one broker knows them.

All members hold the same table. Only the steward changes it, and each change has a later epoch, so
of two tables all agree which one counts. For example, after a partition the table whose steward
took over (64 epochs later) counts for both parts; whoever is not in it asks for a slot again.

A broker that dies keeps its row, which is *resting*, until another broker needs the slot. So a
broker that is back has its old slot, and what was sent to the old one reaches nobody else.

Whoever loses its row because another table won *lingers*: it counts as a member for 5 s more, if
nobody else has its slot. For example, a broker that was cut off from all others has taken office
for itself, and its table has no others in it. When it is back, that table wins. The others keep
their slots, and events go to them as before, until the steward has put them into that table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ges.units.address import UNIT_LIMIT
from ges.wire.unit_messages import MemberChange, MemberRow, MemberTable
from overlay.circular import HIGHEST, is_after
from overlay.ids import Nanos, nanos
from ring.wire.messages import Member

REST_NS = nanos(60)  #: slots of the dead are nobody else's for so long
LINGER_NS = nanos(5)  #: who is not in a table that has won counts for so long
TAKEOVER_EPOCHS = 64  #: that a steward skips to which no table was handed over

_encode = msgspec.msgpack.Encoder().encode


class ClusterTable:
    """A table with what follows from it."""

    def __init__(self) -> None:
        """Begin without a table."""
        self.table: MemberTable | None = None
        self.digest = 0  #: 0: there is no table
        self.live: Mapping[str, MemberRow] = {}  #: rows of members, by uid
        self.changes = 0  #: grows when members change
        self._granted: dict[str, MemberRow] = {}  #: rows of the table that do not rest
        self._lingering: dict[str, tuple[MemberRow, Nanos]] = {}  #: by uid, and until when
        self._rows: dict[str, MemberRow] = {}  #: all rows by uid
        self._rests: dict[tuple[int, str], Nanos] = {}  #: slot and uid at rest, and since when

    @property
    def steward(self) -> str | None:
        """Uid of the steward whose table this is."""
        return self.table.steward if self.table is not None else None

    @property
    def is_full(self) -> bool:
        """Every slot has a member that lives."""
        return len(self._granted) >= UNIT_LIMIT

    @property
    def is_for_all(self) -> bool:
        """There is a table, and nobody waits for a slot."""
        return self.table is not None and not self.table.waiting

    def row(self, uid: str) -> MemberRow | None:
        """Return the row of a broker, resting or not."""
        return self._rows.get(uid)

    def granted(self, uid: str) -> MemberRow | None:
        """Return the row of a broker if the table has it as a member; lingering is not enough."""
        return self._granted.get(uid)

    def beats(self, table: MemberTable) -> bool:
        """Say whether this table counts where it meets another; not if they are the same."""
        return self.table is not None and _counts(self.table, table)

    def loses(self, table: MemberTable) -> bool:
        """Say whether another table counts where it meets this one; not if they are the same."""
        return self.table is None or _counts(table, self.table)

    def put(self, table: MemberTable, now: Nanos, *, follows: bool = False) -> None:
        """Hold this table from now on; it ``follows`` from the one before, or has won over it."""
        before = {} if follows else self._granted
        self.table = table
        self.digest = digest_of(table)
        self._rows = {row.uid: row for row in table.rows}
        self._granted = {row.uid: row for row in table.rows if not row.resting}
        self._linger(before.values(), now)
        resting = ((row.slot, row.uid) for row in table.rows if row.resting)
        self._rests = {key: self._rests.get(key, now) for key in resting}

    @property
    def lingering(self) -> list[MemberRow]:
        """Rows of those that linger."""
        return [row for row, _ in self._lingering.values()]

    def let_go(self, uid: str) -> None:
        """A broker was seen to die or leave: it does not linger."""
        if self._lingering.pop(uid, None) is not None:
            self._count()

    def end_lingering(self, now: Nanos) -> None:
        """Those whose time is over are members no more."""
        ended = [uid for uid, (_, end) in self._lingering.items() if end <= now]
        for uid in ended:
            self.let_go(uid)

    def lingers_until(self) -> Nanos | None:
        """Return when the first one ends to linger, or None."""
        return min((end for _, end in self._lingering.values()), default=None)

    def changed(
        self, rows: Iterable[MemberRow], steward: str, *, takes_over: bool, waiting: bool
    ) -> MemberTable:
        """Return the table that follows when ``steward`` puts these rows into this one.

        ``waiting``: there are brokers for which there is no slot.
        """
        assert self.table is not None
        epoch = advanced(self.table.epoch, TAKEOVER_EPOCHS if takes_over else 1)
        return MemberTable(epoch, steward, _merged(self.table.rows, rows), waiting)

    def after(self, change: MemberChange) -> MemberTable | None:
        """Return the table that follows by a change that was told; None: it is for another."""
        if self.table is None or change.base != self.digest:
            return None
        rows = _merged(self.table.rows, change.rows)
        table = MemberTable(change.epoch, change.steward, rows, change.waiting)
        return table if digest_of(table) == change.digest and is_sound(table) else None

    def free_slot(
        self, member: Member, wish: int | None, now: Nanos, but: Collection[int] = ()
    ) -> int | None:
        """Return the slot that a broker is to have, or None if all are taken; none of ``but``.

        That is its own from before, then what it wishes, then the lowest that was never granted,
        and then the one that has been at rest longest.
        """
        own = self._rows.get(member.uid)
        if own is not None and own.slot not in but:
            return own.slot
        lingering = {row.slot for uid, (row, _) in self._lingering.items() if uid != member.uid}
        taken = {row.slot for row in self._rows.values()} | lingering | {*but}
        if wish is not None and wish not in taken:
            return wish
        free = next((slot for slot in range(UNIT_LIMIT) if slot not in taken), None)
        if free is not None:
            return free
        rested = (
            (since, slot)
            for (slot, _), since in self._rests.items()
            if since + REST_NS <= now and slot not in but
        )
        return min(rested, default=(0, None))[1]

    def _linger(self, lost: Iterable[MemberRow], now: Nanos) -> None:
        taken = {row.slot for row in self._granted.values()}
        ends = self._lingering | {row.uid: (row, now + LINGER_NS) for row in lost}
        self._lingering = {
            uid: (row, end)
            for uid, (row, end) in ends.items()
            if uid not in self._granted and row.slot not in taken and now < end
        }
        self._count()

    def _count(self) -> None:
        self.changes += 1
        lingering = {uid: row for uid, (row, _) in self._lingering.items()}
        self.live = {**self._granted, **lingering}


def founded(row: MemberRow) -> MemberTable:
    """Return the table of a broker that is alone."""
    return MemberTable(1, row.uid, (row,))


def digest_of(table: MemberTable) -> int:
    """Return 63 bits by which tables are compared; never 0."""
    return int.from_bytes(hashlib.blake2b(_encode(table), digest_size=8).digest()) >> 1 or 1


def advanced(epoch: int, by: int) -> int:
    """Return an epoch so many changes later (:mod:`overlay.circular`)."""
    return (epoch + by - 1) % HIGHEST + 1


def is_sound(table: MemberTable) -> bool:
    """Say whether no slot and no broker is in a table twice, and its rows are in order."""
    slots = [row.slot for row in table.rows]
    return slots == sorted(set(slots)) and len({row.uid for row in table.rows}) == len(slots)


def _counts(one: MemberTable, other: MemberTable) -> bool:
    """Say whether ``one`` counts, and not ``other``; of the same epoch and steward by the rows."""
    if one.epoch != other.epoch:
        return is_after(one.epoch, other.epoch)
    if one.steward != other.steward:
        return one.steward < other.steward
    return digest_of(one) > digest_of(other)


def _merged(rows: Iterable[MemberRow], new: Iterable[MemberRow]) -> tuple[MemberRow, ...]:
    by_slot = {row.slot: row for row in rows}
    for row in new:
        for slot in [s for s, known in by_slot.items() if known.uid == row.uid]:
            del by_slot[slot]
        by_slot[row.slot] = row
    return tuple(by_slot[slot] for slot in sorted(by_slot))
