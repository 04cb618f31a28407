"""A simulated overlay with a unit that is to join another context."""

from __future__ import annotations

from collections.abc import Callable

from ges.units.unit_names import written
from ges.wire.relocation_messages import RELOCATION_MESSAGES
from ges.wire.telling_messages import Kind, Told
from ges.wire.unit_messages import UnitTable
from overlay.machine import OpenLink, Send
from sims.errors import InvariantViolated
from sims.experiments.unit_joins import joining
from sims.verdicts.units import empty
from sims.world.world import CrashMode
from tests.helpers.named_ring import NamedRing

#: Units whose tables are told to a context.
TABLES = (Kind.CLUSTERS, Kind.SUPER_CLUSTERS, Kind.SUPER_SUPER_CLUSTERS)


class MovingUnits(NamedRing):
    """Nine brokers in ``eu/fra``, in three clusters, one in ``eu/par`` and three in ``us``."""

    def __init__(self, seed: int = 1, *, limit: int = 8, each: int = 3) -> None:
        super().__init__(seed, limit=limit)
        self.follow_wishes = False  #: brokers wish what the moves of their units have told them
        wishes = [f"eu/fra/{name}" for name in "abc" for _ in range(each)]
        self.unit = wishes[0]
        first = self.found()
        for unit in (*wishes[1:], "eu/par/x", "us/nyc/x", "us/nyc/x", "us/nyc/y"):
            self.start_in(unit, [first])
            self.run(2)
        self.rest()
        self.agree(60)
        self.run(20)  # the sizes of units, and where they end, are known to their stewards
        self.agree(1)

    def unit_findings(self) -> list[str]:
        """Return what is wrong with the units."""
        if self.follow_wishes:
            alive = ((uid, self.brokers[uid].units.placement.wish) for uid in self.alive)
            self.wanted |= {uid: written(wish) for uid, wish in alive}
        return super().unit_findings()

    def standing_in(self, unit: str) -> list[str]:
        """Return the brokers that live and stand in a unit, in ring order."""
        own = (uid for uid in self.in_order if uid in self.alive)
        units = {uid: "/".join(self.brokers[uid].units.names) + "/" for uid in own}
        return [uid for uid, name in units.items() if name.startswith(unit + "/")]

    def begin(self, unit: str = "eu/fra", context: str = "us") -> str:
        """Give the command; returns the uid of the unit's steward."""
        level = 3 - unit.count("/")
        moving, beside = self.standing_in(unit), self.standing_in(context)
        first, command = joining(self.brokers, moving, beside, level)
        self.world.give(first, command)
        return first

    def settle(self, unit: str = "eu/fra", after: str = "us/fra", limit_s: float = 120.0) -> str:
        """Run until all is in order, and the unit is whole in one of two places; returns which.

        Raises:
            InvariantViolated: that is not so in time.
        """
        members = [uid for uid in self.alive if f"{self.wanted[uid]}/".startswith(unit + "/")]
        for _ in range(int(limit_s * 2)):
            homes = {name for name in (unit, after) if set(members) & set(self.standing_in(name))}
            if len(homes) == 1:
                [home] = homes
                for uid in members:
                    self.wanted[uid] = self.wanted[uid].replace(unit, home, 1)
                if not self.unit_findings() and not self._has_empty_units():
                    return home
                for uid in members:
                    self.wanted[uid] = self.wanted[uid].replace(home, unit, 1)
            self.run(0.5)
        found = self.unit_findings()
        where = {name: len(self.standing_in(name)) for name in (unit, after)}
        raise InvariantViolated(f"{where}: {'; '.join(found)}")

    def kill_at(self, victim: Callable[[], str], count: int, context: str = "us") -> str | None:
        """Begin, and kill a broker at its message of that number; returns its uid, if it sends it.

        Messages about the move and tables of units are counted.
        """
        uid, sent, told = victim(), [0], self.world.on_sent

        def on_sent(sender: str, effect: Send | OpenLink) -> None:
            told(sender, effect)
            message = effect.message if isinstance(effect, Send) else None
            is_table = isinstance(message, Told) and message.kind in TABLES
            if sender == uid and (is_table or isinstance(message, (*RELOCATION_MESSAGES,))):
                sent[0] += 1
                if sent[0] == count and uid in self.alive:
                    self.crash(uid, CrashMode.KILL)

        self.world.on_sent = on_sent
        self.begin(context=context)
        self.run(12)
        self.world.on_sent = told
        return uid if uid not in self.alive else None

    def _has_empty_units(self) -> bool:
        """Say whether a table has a row of a unit in which nobody stands."""
        places = [m.ring_id for uid in self.alive if (m := self.nodes[uid].member) is not None]
        tables: set[UnitTable] = set()
        for uid in self.alive:
            tables.update(self.brokers[uid].units.tables.values())
        return any(empty(table, places) for table in tables)
