"""The tables of one broker, as others ask for them: all at once, from the top.

A table of units says which arc the next one is about. For example, a broker has missed a split of
its super-cluster. Its table of clusters is about another arc then, and so is its table of members.
It asks a neighbour once, says which tables it holds, and gets those that count, in this order.

Ring neighbours compare the digest of each table on its own, as two of them may share the upper ones
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ges.telling.shared import Asking, pack_rows
from ges.units.office import AnyTable, HeldTable
from ges.units.table import outranks, version_of
from ges.wire.telling_messages import HeldRow, Kind, Rows, RowsWanted
from ges.wire.unit_messages import UnitsTaken, UnitTable
from overlay.ids import Nanos
from overlay.machine import Effect, Send


class WholeTables:
    """The tables that one broker holds; a :class:`ges.telling.shared.Held`."""

    def __init__(
        self,
        tables: Callable[[], Iterable[AnyTable]],
        taken: Callable[[], Iterable[UnitsTaken]] = tuple,
    ) -> None:
        """``tables``: those that are held now, from the top; that of the members comes last.

        ``taken``: which tables of units all brokers of their contexts hold.
        """
        self._tables = tables
        self._taken = taken
        self._asked: tuple[RowsWanted, tuple[AnyTable, ...], tuple[UnitsTaken, ...]] | None = None
        self._answer: tuple[list[Rows], bool] = [], False

    @property
    def digest(self) -> int:
        """Of all of them."""
        return hash(tuple(version_of(table).count for table in self._tables()))

    @property
    def held(self) -> list[HeldRow]:
        """Which tables are held; the count of each is its digest."""
        return [HeldRow(_key(table), version_of(table)) for table in self._tables()]

    def answer(self, uid: str, wanted: RowsWanted, now: Nanos) -> tuple[list[Effect], bool]:
        """Send a broker the tables that it lacks, or that count against its own.

        The last answer is kept: a false broker may ask the same without end.
        """
        about = wanted, tuple(self._tables()), tuple(self._taken())
        if about != self._asked:
            self._asked, self._answer = about, self._answer_to(*about)
        rows, is_behind = self._answer
        return [Send(uid, each) for each in rows], is_behind

    def _answer_to(
        self, wanted: RowsWanted, tables: Iterable[AnyTable], takings: Iterable[UnitsTaken]
    ) -> tuple[list[Rows], bool]:
        theirs = {each.key: each.version for each in wanted.held}
        lacking: list[tuple[int, msgspec.Struct]] = []
        is_behind = False
        for table in tables:
            own, other = version_of(table), theirs.get(_key(table))
            if other is None or outranks(own, other):
                is_of_units = isinstance(table, UnitTable)
                lacking.append((Kind.UNIT_TABLE if is_of_units else Kind.MEMBER_TABLE, table))
            is_behind |= other is not None and outranks(other, own)
        lacking += [(Kind.UNITS_TAKEN, taken) for taken in takings]
        return [*pack_rows(lacking)], is_behind


class ComparedTable:
    """One table, as neighbours compare it; a :class:`ges.telling.comparison.Holding`."""

    def __init__(self, held: HeldTable, asking: Asking) -> None:
        self._held = held
        self.on_differs = asking.on_differs

    @property
    def digest(self) -> int:
        """Of the table."""
        return self._held.digest


def _key(table: AnyTable) -> str:
    level = table.level if isinstance(table, UnitTable) else 0
    return f"{level}.{table.lo}-{table.hi}"
