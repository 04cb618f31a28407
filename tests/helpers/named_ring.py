"""A simulated ring of brokers that were given names of units."""

from __future__ import annotations

from collections import Counter

from ges.units.planner import UnitsConfig
from ges.units.unit_names import parse_unit, written
from tests.helpers.units_ring import UnitsRing


class NamedRing(UnitsRing):
    """A :class:`UnitsRing` whose brokers were given names of units."""

    def __init__(self, seed: int = 1, *, limit: int = 8) -> None:
        super().__init__(seed, units=UnitsConfig(limit))
        self.unit = ""  #: that brokers get which are started from now on
        self.wanted: dict[str, str] = {}  #: by uid

    def start_in(self, unit: str, contacts: list[str] | None = None) -> str:
        """Start a broker with that name, which joins through any of those that live."""
        before, self.unit = self.unit, unit
        uid = self.start(contacts or self.alive)
        self.unit = before
        return uid

    def unit_findings(self) -> list[str]:
        """Return what is wrong with the units: that brokers stand in others than they wish, too."""
        found = super().unit_findings()
        for uid in self.alive:
            units = self.brokers[uid].units
            if (names := written(units.names)) != self.wanted[uid]:
                found.append(f"{uid[:8]} stands in {names!r}, not in {self.wanted[uid]!r}")
            for table in units.tables.values():
                counts = Counter(row.name for row in table.rows if row.name)
                found += [f"{n} units are called {name}" for name, n in counts.items() if n > 1]
        return found

    def names(self) -> set[str]:
        """Return the names of the units that hold brokers."""
        return {written(self.brokers[uid].units.names) for uid in self.alive}

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _add(self, uid: str | None = None, incarnation: int = 1) -> str:
        unit = self.wanted.get(uid or "", self.unit)
        self.units = UnitsConfig(self.units.limit, self.units.pause_ns, parse_unit(unit))
        uid = super()._add(uid, incarnation)
        self.wanted[uid] = unit
        return uid
