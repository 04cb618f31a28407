"""The tree of units as the brokers of an overlay tell of it, and what is wrong with it.

The tree that should be is reckoned from where the brokers stand: of a table there is one in each
context, it is about the arc which the table above has for that context, and its steward is the
broker that stands first in there. So each place lies in one unit of each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ges.telling.arcs import WHOLE, Arc
from ges.units.unit_names import LEVEL_NAMES, written
from ges.wire.status import ContextStatus, Status
from ges.wire.unit_messages import TOP_LEVEL
from overlay.ids import short
from overlay.wording import counted


@dataclass(slots=True)
class Unit:
    """One unit, with the brokers that stand in its arc."""

    path: tuple[int, ...]  #: numbers from the top
    level: int
    arc: Arc
    steward: Status
    brokers: list[Status]
    units: list[Unit] = field(default_factory=list)  #: in it; none in a cluster
    #: Brokers in it with links to other units of its context.
    gatekeepers: list[Status] = field(default_factory=list)
    given: tuple[str, ...] = ()  #: names from the top, empty where it has none

    @property
    def given_name(self) -> str:
        """The names that operators have given it and the units around it, with slashes."""
        return written(self.given) if self.given and self.given[-1] else ""

    @property
    def name(self) -> str:
        """The path as it is printed."""
        return ".".join(map(str, self.path))

    @property
    def secure(self) -> str:
        """How its secure part is, as its steward says; empty: that is of an earlier version."""
        found = (at.secure for at in self.steward.levels if at.level == self.level)
        return next(found, "")

    def walk(self) -> Iterator[Unit]:
        """Yield it and all in it, from the left."""
        yield self
        for unit in self.units:
            yield from unit.walk()


def unit_tree(brokers: Sequence[Status]) -> tuple[list[Unit], list[str]]:
    """Return the units of the highest level, and all that is wrong with units and addresses."""
    standing = [status for status in brokers if status.member is not None]
    found: list[str] = []
    silent = [status for status in standing if not status.contexts]
    if silent:
        found.append(f"{counted(len(silent), 'broker')} of an earlier version tell of no units")
    known = [status for status in standing if status.contexts]
    limits = {status.unit_limit for status in known}
    if len(limits) > 1:
        found.append(f"brokers go by different limits of units: {_listed(sorted(limits))}")
    limit = min(limits, default=0)
    units = _units(known, TOP_LEVEL, WHOLE, limit, (), (), found) if known else []
    addresses = Counter(status.address for status in known)
    without = addresses.pop(None, 0)
    if without:
        found.append(f"{counted(without, 'broker')} without an address: wait a minute, then see")
    found += [f"{n} brokers have the address {at}" for at, n in addresses.items() if n > 1]
    return units, found


def _units(
    standing: list[Status],
    level: int,
    arc: Arc,
    limit: int,
    path: tuple[int, ...],
    names: tuple[str, ...],
    found: list[str],
) -> list[Unit]:
    where = f"in {LEVEL_NAMES[level + 1]} {_path(path)}" if path else "in the overlay"
    table = _agreed(standing, level, arc, where, found)
    if table is None:
        return []
    first = min(standing, key=lambda status: arc.at(_place(status)))
    units: list[Unit] = []
    if len(table.units) > limit:
        found.append(f"{where} are {len(table.units)} units, and {limit} may be")
    ends = [*(unit.lo for unit in table.units), arc.hi][1:]
    for unit, hi in zip(table.units, ends, strict=True):
        inner = Arc(unit.lo, hi)
        inside = [status for status in standing if inner.holds(_place(status))]
        here = (*path, unit.number)
        if not inside:
            found.append(f"{LEVEL_NAMES[level]} {_path(here)} has no brokers: wait a minute")
            continue
        steward = min(inside, key=lambda status: inner.at(_place(status)))
        given = (*names, unit.name)
        made = Unit(here, level, inner, steward, inside, given=given)
        units.append(made)
        if level > 1:
            made.units = _units(inside, level - 1, inner, limit, here, given, found)
        else:
            _judge_cluster(made, limit, found)
    if table.steward != first.uid:
        found.append(f"{where} the table is of {short(table.steward)}, first is {short(first.uid)}")
    if any(arc.at(left.lo) >= arc.at(right.lo) for left, right in pairwise(table.units)):
        found.append(f"{where} units do not stand in order")
    _find_gatekeepers(units)
    return units


def _find_gatekeepers(units: list[Unit]) -> None:
    """Note who has links from one unit of a context to another one."""
    home = {status.uid: unit for unit in units for status in unit.brokers}
    for unit in units:
        unit.gatekeepers = [
            status
            for status in unit.brokers
            if any(home.get(link.uid, unit) is not unit for link in status.links)
        ]


def _agreed(
    standing: list[Status], level: int, arc: Arc, where: str, found: list[str]
) -> ContextStatus | None:
    """Return the table that most hold, and note if they hold several, or one of another arc."""
    tables = Counter(
        table for status in standing for table in status.contexts if table.level == level
    )
    if not tables:
        found.append(f"{where} nobody holds a table of level {level}")
        return None
    table, holders = tables.most_common(1)[0]
    if holders < len(standing):
        found.append(
            f"{where} {counted(len(standing) - holders, 'broker')} of {len(standing)} "
            f"hold another table than the rest, of level {level}"
        )
    if Arc(table.lo, table.hi) != arc:
        found.append(f"{where} the table of level {level} is about another arc than its own")
    return table


def _judge_cluster(cluster: Unit, limit: int, found: list[str]) -> None:
    where = f"in cluster {cluster.name}"
    table = _agreed(cluster.brokers, 0, cluster.arc, where, found)
    if len(cluster.brokers) > limit:
        found.append(f"{where} are {len(cluster.brokers)} brokers, and {limit} may be")
    if table is not None and table.steward != cluster.steward.uid:
        by, first = short(table.steward), short(cluster.steward.uid)
        found.append(f"{where} the steward is {by}, first is {first}")
    for status in cluster.brokers:
        if status.address is not None and not status.address.startswith(cluster.name + "."):
            found.append(f"{where} stands {short(status.uid)}, with the address {status.address}")
        if status.unit_wanted != written(cluster.given):
            stands = f"stands in {written(cluster.given) or 'units without names'}"
            wish = status.unit_wanted or "units without names"
            found.append(f"{where} {short(status.uid)} {stands}, and is to stand in {wish}")
        if status.members != len(cluster.brokers):
            known = f"knows {counted(status.members, 'member')}"
            found.append(f"{where} {short(status.uid)} {known}, {len(cluster.brokers)} stand there")


def _place(status: Status) -> int:
    assert status.member is not None, "only for who is on the ring"
    return status.member.ring_id


def _path(path: tuple[int, ...]) -> str:
    return ".".join(map(str, path))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
