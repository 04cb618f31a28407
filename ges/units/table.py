"""The members of the cluster and their slots, as one broker knows them.

All members hold the same table. Only the steward changes it, and each change has a later epoch, so
of two tables all agree which one counts. For example, after a partition the table whose steward
took over (64 epochs later) counts for both parts; a member that is not in it asks for a slot again.

A broker that dies keeps its row, which is *resting*, until another broker needs the slot. So a
broker that is back has its old slot, and what was sent to the old one reaches nobody else.

A member that loses its row because another table won *lingers*: it counts as a member for 5 s more,
if nobody else has its slot. For example, a broker that was cut off from all others has taken office
for itself, and its table has no others in it. When it is back, that table wins. The others keep
their slots, and events go to them as before, until the steward has put them into that table.

A table is about an *arc* of the ring, that of its cluster. It counts only where that is the arc
which the table of clusters has for the place of this broker (:mod:`ges.units.contexts`). After a
split the table of before is about too large an arc: members in the new one are members still, the
others are members of another cluster, until the steward has made the table of the new arc.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ges.telling.arcs import WHOLE, Arc
from ges.telling.changes import Change, Changes
from ges.units.address import UNIT_LIMIT
from ges.wire.telling_messages import RowVersion
from ges.wire.unit_messages import MemberChange, MemberRow, MemberTable, UnitTable, Waiting
from overlay.circular import HIGHEST, is_after
from overlay.ids import Nanos, nanos
from ring.wire.messages import Member

REST_NS = nanos(60)  #: slots of the dead are nobody else's for so long
LINGER_NS = nanos(5)  #: who is not in a table that has won counts for so long
TAKEOVER_EPOCHS = 64  #: that a steward skips to which no table was handed over

_encode = msgspec.msgpack.Encoder().encode


class ClusterTable:
    """A table with what follows from it."""

    def __init__(self, changes: Changes) -> None:
        """Begin without a table."""
        self._changes = changes
        self.table: MemberTable | None = None
        self.digest = 0  #: 0: there is no table
        self.live: Mapping[str, MemberRow] = {}  #: rows of members, by uid
        self.limit = UNIT_LIMIT  #: of members
        self.arc = WHOLE  #: that the table is to be about
        self.is_placed = False  #: the table of clusters is known, and so is the arc
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
        return len(self._granted) >= self.limit

    @property
    def is_for_all(self) -> bool:
        """There is a table for this arc, and nobody waits for a slot."""
        return not self.waiting

    @property
    def waiting(self) -> Waiting:
        """Why events cannot name all members; where nobody knows, brokers may wait."""
        return self.table.waiting if self.table is not None and self.fits else Waiting.BROKERS

    @property
    def fits(self) -> bool:
        """There is a table, and it is about the arc that it is to be about."""
        return self.table is not None and arc_of(self.table) == self.arc

    @property
    def covers(self) -> bool:
        """There is a table, and it says whose every slot of the arc is."""
        return self.table is not None and arc_of(self.table).covers(self.arc)

    @property
    def members(self) -> list[MemberRow]:
        """Rows of those that have a slot, lingering not being enough."""
        return [*self._granted.values()]

    def row(self, uid: str) -> MemberRow | None:
        """Return the row of a broker, resting or not."""
        return self._rows.get(uid)

    def granted(self, uid: str) -> MemberRow | None:
        """Return the row of a broker if the table has it as a member; lingering is not enough."""
        return self._granted.get(uid)

    def beats(self, table: MemberTable) -> bool:
        """Say whether this table counts where it meets another; not if they are the same."""
        if self.table is None or not self.fits:
            return False
        return arc_of(table) == self.arc and counts(self.table, table)

    def loses(self, table: MemberTable) -> bool:
        """Say whether another table counts where it meets this one; not if they are the same."""
        if arc_of(table) != self.arc:
            return False
        return self.table is None or not self.fits or counts(table, self.table)

    def set_arc(self, arc: Arc) -> set[str]:
        """Be about this arc from now on; returns who is no member any more, as it stands outside.

        Those do not linger: they have slots of another cluster.
        """
        self.is_placed = True
        if arc == self.arc:
            return set()
        self.arc = arc
        before = set(self.live)
        self._take_rows()
        self._lingering = {
            uid: (row, end)
            for uid, (row, end) in self._lingering.items()
            if arc.holds(row.member.ring_id)
        }
        self._count()
        return before - set(self.live)

    def put(self, table: MemberTable, now: Nanos, *, follows: bool = False) -> None:
        """Hold this table from now on; it ``follows`` from the one before, or has won over it."""
        before = {} if follows else self._granted
        self.table = table
        self.digest = digest_of(table)
        self._take_rows()
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

    def end_lingering(self, now: Nanos) -> list[str]:
        """Those whose time is over are members no more; returns their uids."""
        ended = [uid for uid, (_, end) in self._lingering.items() if end <= now]
        for uid in ended:
            self.let_go(uid)
        return ended

    def lingers_until(self) -> Nanos | None:
        """Return when the first one ends to linger, or None."""
        return min((end for _, end in self._lingering.values()), default=None)

    def changed(
        self, rows: Iterable[MemberRow], steward: str, *, takes_over: bool, waiting: Waiting
    ) -> MemberTable:
        """Return the table that follows when ``steward`` puts these rows into this one."""
        assert self.table is not None
        epoch = advanced(self.table.epoch, TAKEOVER_EPOCHS if takes_over else 1)
        merged = _merged(self.table.rows, rows, self.arc)
        return MemberTable(epoch, steward, merged, waiting, self.arc.lo, self.arc.hi)

    def after(self, change: MemberChange) -> MemberTable | None:
        """Return the table that follows by a change that was told; None: it is for another."""
        if self.table is None or change.base != self.digest:
            return None
        arc = Arc(change.lo, change.hi)
        rows = _merged(self.table.rows, change.rows, arc)
        table = MemberTable(
            change.epoch, change.steward, rows, change.waiting, change.lo, change.hi
        )
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
        if self.is_full or len(self._granted) + len(but) >= self.limit:
            return None  # slots above the limit may have been granted under another one
        lingering = {row.slot for uid, (row, _) in self._lingering.items() if uid != member.uid}
        taken = {row.slot for row in self._rows.values()} | lingering | {*but}
        if wish is not None and wish not in taken:
            return wish
        # With a small limit on members there are slots enough beside those at rest.
        free = next((slot for slot in range(UNIT_LIMIT) if slot not in taken), None)
        if free is not None:
            return free
        rested = (
            (since, slot)
            for (slot, _), since in self._rests.items()
            if since + REST_NS <= now and slot not in but and slot < self.limit
        )
        return min(rested, default=(0, None))[1]

    def _take_rows(self) -> None:
        rows = self.table.rows if self.table is not None else ()
        self._rows = {row.uid: row for row in rows if self.arc.holds(row.member.ring_id)}
        self._granted = {uid: row for uid, row in self._rows.items() if not row.resting}

    def _linger(self, lost: Iterable[MemberRow], now: Nanos) -> None:
        taken = {row.slot for row in self._granted.values()}
        ends = self._lingering | {row.uid: (row, now + LINGER_NS) for row in lost}
        self._lingering = {
            uid: (row, end)
            for uid, (row, end) in ends.items()
            if uid not in self._granted
            and row.slot not in taken
            and now < end
            and self.arc.holds(row.member.ring_id)
        }
        self._count()

    def _count(self) -> None:
        self._changes.mark(Change.MEMBERS)
        lingering = {uid: row for uid, (row, _) in self._lingering.items()}
        self.live = {**self._granted, **lingering}


def founded(row: MemberRow, arc: Arc = WHOLE) -> MemberTable:
    """Return the table of a broker that is alone."""
    return MemberTable(1, row.uid, (row,), lo=arc.lo, hi=arc.hi)


def arc_of(table: MemberTable | UnitTable) -> Arc:
    """Return the arc that a table is about."""
    return Arc(table.lo, table.hi)


def digest_of(table: MemberTable | UnitTable) -> int:
    """Return 63 bits by which tables are compared; never 0.

    That of a cluster which is all there is does not hang on its arc, as brokers of before there
    were several know of none.
    """
    body: object = table
    if isinstance(table, MemberTable) and arc_of(table) == WHOLE:
        body = table.epoch, table.steward, table.rows, table.waiting
    return int.from_bytes(hashlib.blake2b(_encode(body), digest_size=8).digest()) >> 1 or 1


def advanced(epoch: int, by: int) -> int:
    """Return an epoch so many changes later (:mod:`overlay.circular`)."""
    return (epoch + by - 1) % HIGHEST + 1


def is_sound(table: MemberTable) -> bool:
    """Say whether no slot and no broker is in a table twice, and its rows are in order."""
    slots = [row.slot for row in table.rows]
    return slots == sorted(set(slots)) and len({row.uid for row in table.rows}) == len(slots)


def counts(one: MemberTable | UnitTable, other: MemberTable | UnitTable) -> bool:
    """Say whether ``one`` counts, and not ``other``; of the same epoch and steward by the rows."""
    return outranks(version_of(one), version_of(other))


def version_of(table: MemberTable | UnitTable) -> RowVersion:
    """Return what tells which of two tables counts; its count is the digest."""
    return RowVersion(table.epoch, digest_of(table), table.steward)


def outranks(one: RowVersion, other: RowVersion) -> bool:
    """Say whether the table of one version counts, and not that of another."""
    if one.epoch != other.epoch:
        return is_after(one.epoch, other.epoch)
    if one.writer != other.writer:
        return one.writer < other.writer
    return one.count > other.count


def _merged(rows: Iterable[MemberRow], new: Iterable[MemberRow], arc: Arc) -> tuple[MemberRow, ...]:
    by_slot = {row.slot: row for row in rows if arc.holds(row.member.ring_id)}
    for row in new:
        for slot in [s for s, known in by_slot.items() if known.uid == row.uid]:
            del by_slot[slot]
        by_slot[row.slot] = row
    return tuple(by_slot[slot] for slot in sorted(by_slot))
