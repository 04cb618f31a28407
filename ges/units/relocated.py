"""Where the places of a unit come to lie when the whole unit moves to another arc.

For example, a unit has the arc from 1000 to 2000, and gets the one from 9000 to 9500. Then a broker
at 1200 comes to stand at 9100, and a cluster that begins at 1600 begins at 9300. So the order of
all that is in the unit stays as it is, and so do the numbers of its parts and all slots.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from ges.telling.arcs import Arc
from ges.units.table import arc_of
from ges.wire.relocation_messages import Relocation
from ges.wire.unit_messages import MemberTable, UnitTable, Waiting
from ring.geometry import RING_SIZE, gap


@dataclass(frozen=True, slots=True)
class Shift:
    """From one arc to another."""

    before: Arc
    after: Arc

    @classmethod
    def of(cls, relocation: Relocation) -> Shift:
        """Return that of a relocation."""
        before = Arc(relocation.lo, relocation.hi)
        return cls(before, Arc(relocation.to_lo, relocation.to_hi))

    def place(self, place: int) -> int:
        """Return where what lay at a place of the arc comes to lie."""
        wide, narrow = gap(self.before.lo, self.before.hi), gap(self.after.lo, self.after.hi)
        return (self.after.lo + self.before.at(place) * narrow // wide) % RING_SIZE

    def arc(self, arc: Arc) -> Arc:
        """Return where a part of the arc comes to lie."""
        hi = self.after.hi if arc.hi == self.before.hi else self.place(arc.hi)
        return Arc(self.place(arc.lo), hi)

    def units(self, table: UnitTable) -> UnitTable:
        """Return the same units, with the same numbers, in the new arc."""
        arc = self.arc(arc_of(table))
        rows = tuple(replace(row, lo=self.place(row.lo)) for row in table.rows)
        return replace(table, rows=rows, lo=arc.lo, hi=arc.hi)

    def members(self, table: MemberTable) -> MemberTable:
        """Return the same slots of the same brokers, which all rest: none of them is there yet.

        Events go to all meanwhile, as if somebody waited for a slot.
        """
        arc, before = self.arc(arc_of(table)), arc_of(table)
        rows = tuple(
            replace(
                row,
                member=replace(row.member, ring_id=self.place(row.member.ring_id)),
                resting=True,
            )
            for row in table.rows
            if before.holds(row.member.ring_id)
        )
        return replace(table, rows=rows, waiting=Waiting.BROKERS, lo=arc.lo, hi=arc.hi)
