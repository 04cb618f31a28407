"""Units in a scenario: which names brokers are given, and what makes no sense together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from ges.units.unit_names import UnitNames, parse_unit, written
from ges.wire.unit_messages import TOP_LEVEL
from overlay.errors import ConfigError
from sims.scenarios.schema import Forming, Mode, Scenario, Units
from sims.world.warm_units import sizes_of


def names_of(units: Units) -> tuple[UnitNames, ...]:
    """Return the names of units that brokers are dealt out over.

    Raises:
        ConfigError: one is no name of a unit.
    """
    return tuple(parse_unit(text) for text in units.named)


def mistakes(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the keys of units and records that make no sense here, and why."""
    promised = scenario.promises.records_lost
    if promised is not None and scenario.records is None:
        yield "promises.records_lost", "nobody owns a record; add a table [records]"
    units = scenario.units
    if units is None:
        return
    if scenario.mode is not Mode.WHOLE:
        yield "units", 'a ring alone has none; add mode = "whole"'
    if units.levels is not None:
        yield from _of_levels(scenario, units, units.levels)
    yield from _of_names(scenario.nodes, units)


def _of_levels(scenario: Scenario, units: Units, levels: int) -> Iterator[tuple[str, str]]:
    if units.named:
        yield "units.levels", "names say how many levels there are; leave out levels or named"
    if scenario.ring.forming is Forming.JOINS:
        yield (
            "units.levels",
            "where a ring forms by joins, units come of the limit and of names; leave it out, or "
            'set ring.forming = "warm"',
        )
    least, most = sizes_of(units.limit, levels)
    if not least <= scenario.nodes <= most:
        yield (
            "units.levels",
            f"{scenario.nodes:,} brokers are not enough or too many for {levels} with a limit of "
            f"{units.limit}: from {least:,} to {most:,} can be; change nodes or units.limit",
        )


def _of_names(nodes: int, units: Units) -> Iterator[tuple[str, str]]:
    try:
        named = set(names_of(units))
    except ConfigError as error:
        yield "units.named", str(error)
        return
    if () in named:
        yield "units.named", "a name is empty; give one such as eu/fra/a"
        return
    inside: defaultdict[UnitNames, set[str]] = defaultdict(set)
    for names in named:
        for at, name in enumerate(names):
            inside[names[:at]].add(name)
    for context, found in inside.items():
        if len(found) > units.limit:
            where = f" in {written(context)}" if context else ""
            yield (
                "units.named",
                f"{len(found)} units{where}, and the limit is {units.limit}; raise units.limit",
            )
    if nodes < len(named):
        yield "units.named", f"{len(named)} units for {nodes} brokers; give fewer, or more nodes"
    for names in named:
        held = units.limit ** (TOP_LEVEL + 1 - len(names))
        if math.ceil(nodes / len(named)) > held:
            yield (
                "units.named",
                f"{written(names)} has room for {held:,} of {nodes:,} brokers in {len(named)} "
                "units; give more names, or raise units.limit",
            )
