"""The table of the units of one level, as one broker holds it."""

from __future__ import annotations

from collections.abc import Callable

from ges.telling.arcs import WHOLE, Arc
from ges.telling.changes import Change, Changes
from ges.units.table import arc_of, counts, digest_of
from ges.wire.unit_messages import TOP_LEVEL, UnitTable


class UnitsHeld:
    """The table of the units of one level in the context of this broker."""

    def __init__(self, level: int, changes: Changes) -> None:
        """Begin without a table."""
        self._changes = changes
        self.level = level
        self.table: UnitTable | None = None
        self.digest = 0  #: 0: there is no table
        self.taken = 0  #: digest of the last table that all brokers of the context hold; 0: none
        self.arc: Arc = WHOLE  #: of the context
        self.is_placed = level == TOP_LEVEL  #: the arc is known

    @property
    def steward(self) -> str | None:
        """Uid of who made the table."""
        return self.table.steward if self.table is not None else None

    @property
    def fits(self) -> bool:
        """There is a table, and it is about the arc of the context."""
        return self.table is not None and arc_of(self.table) == self.arc

    @property
    def covers(self) -> bool:
        """There is a table, and it says whose every place of the context is."""
        return self.table is not None and arc_of(self.table).covers(self.arc)

    @property
    def is_taken(self) -> bool:
        """All brokers of the context hold this table."""
        return bool(self.digest) and self.taken == self.digest

    def loses(self, table: UnitTable) -> bool:
        """Say whether another table counts here; not if they are the same."""
        if not self.is_placed or arc_of(table) != self.arc:
            return False
        return self.table is None or not self.fits or counts(table, self.table)

    def beats(self, table: UnitTable) -> bool:
        """Say whether this one counts where it meets another of the same context."""
        if self.table is None or not self.fits or arc_of(table) != self.arc:
            return False
        return counts(self.table, table)

    def put(self, table: UnitTable) -> None:
        """Hold this table from now on."""
        self.table = table
        self.digest = digest_of(table)
        self._changes.mark(Change.UNITS)

    def set_arc(self, arc: Arc) -> None:
        """Be about this arc from now on."""
        self.arc, self.is_placed = arc, True
        self._changes.mark(Change.UNITS)

    def note_taken(self, digest: int) -> None:
        """Take note which table all brokers of the context hold."""
        self.taken = digest
        self._changes.mark(Change.TAKEN)


def arc_held(held: UnitsHeld) -> Callable[[], Arc]:
    """Return what says which arc a table is to be about, as it is then."""
    return lambda: held.arc
