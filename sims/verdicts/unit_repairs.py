"""When the units that a death concerns are in order again, seen from outside.

A death concerns the cluster of the dead broker, whose table of members it is to leave. Where the
broker was the steward of a unit, it concerns that unit, too: another broker is to make its table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ges.units.units_part import UnitsPart
from ges.wire.client_messages import Level
from ring.wire.messages import Member


class Concerned(NamedTuple):
    """A death, and the highest of the units that it concerns."""

    member: Member
    level: Level


def level_of(units: UnitsPart) -> Level | None:
    """Return the level of the highest unit that the death of a broker concerns now.

    None: it has no address yet, so no unit misses it.
    """
    if units.address is None:
        return None
    return max((level for level in Level if units.is_steward_of(level)), default=Level.CLUSTER)


class UnitRepairs:
    """The deaths after which units are not in order yet."""

    def __init__(self) -> None:
        self._open: list[Concerned] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._open)

    def on_death(self, concerned: Concerned) -> None:
        """A broker has died."""
        self._open.append(concerned)

    def ended(self, living: Mapping[str, UnitsPart]) -> list[Concerned]:
        """Return those after which all is in order now, and forget them.

        ``living``: what the brokers that live know of units, by uid.
        """
        over = [each for each in self._open if _is_over(each, living)]
        self._open = [each for each in self._open if each not in over]
        return over


def _is_over(death: Concerned, living: Mapping[str, UnitsPart]) -> bool:
    uid = death.member.uid
    if any(_counts(units, death.member) for units in living.values()):
        return False
    back = living.get(uid)
    return all(
        (back is not None and back.is_steward_of(level)) or uid not in _stewards(level, living)
        for level in Level
        if level <= death.level
    )


def _counts(units: UnitsPart, member: Member) -> bool:
    """Say whether a broker still counts that life of another one among the members."""
    row = units.members.get(member.uid)
    return row is not None and row.member.incarnation == member.incarnation


def _stewards(level: Level, living: Mapping[str, UnitsPart]) -> set[str | None]:
    """Return who has made the tables of units of a level that brokers hold."""
    parts: Iterable[UnitsPart] = living.values()
    if level is Level.CLUSTER:
        return {units.steward for units in parts}
    return {table.steward for units in parts if (table := units.tables.get(level - 1)) is not None}
