"""Names that operators give to units.

For example, ``eu/fra/a`` is cluster ``a`` of super-cluster ``fra`` of super-super-cluster ``eu``.
A name reads from the top, and what it leaves out has no name: ``eu`` is any unnamed cluster of an
unnamed super-cluster in there. Inside the program it is a tuple of one to three texts, and the
empty tuple is that of a broker to which no name was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ges.wire.unit_messages import MAX_UNIT_NAME, TOP_LEVEL, UNIT_NAME_PATTERN
from overlay.errors import ConfigError
from overlay.wording import printable

#: What the units of each level are called; 0 is a broker.
LEVEL_NAMES = ("broker", "cluster", "super-cluster", "super-super-cluster")
NAMES_SHOWN = 10  #: in a message for people

_NAME = re.compile(UNIT_NAME_PATTERN)

UnitNames = tuple[str, ...]


def parse_unit(text: str) -> UnitNames:
    """Return the names of a unit that is written with slashes; nothing for an empty text.

    Raises:
        ConfigError: it is no name of a unit.
    """
    if not text:
        return ()
    names = tuple(text.split("/"))
    shown = printable(repr(text[:200]))
    if len(names) > TOP_LEVEL:
        raise ConfigError(
            f"{shown} has {len(names)} names; give one to {TOP_LEVEL}, from the top, such as "
            "eu/fra/a"
        )
    for name in names:
        if not is_name(name):
            raise ConfigError(
                f"{shown} cannot name a unit: each name has 1 to {MAX_UNIT_NAME} letters, digits, "
                "'.', '_' and '-', and begins with a letter or digit, such as eu/fra/a"
            )
    return names


def is_name(text: str) -> bool:
    """Say whether a unit can be called so."""
    return _NAME.fullmatch(text) is not None


def at_level(names: UnitNames, level: int) -> str:
    """Return the name of the unit of a level, 3 to 1; empty: it has none."""
    index = TOP_LEVEL - level
    return names[index] if index < len(names) else ""


def without_end(names: Iterable[str]) -> UnitNames:
    """Return names from the top, without the empty ones at the end."""
    found = [*names]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def written(names: Iterable[str]) -> str:
    """Return names as they are written; empty for none."""
    return "/".join(without_end(names))


def listed(names: Iterable[str]) -> str:
    """Return some names for people, the first ones of many."""
    found = sorted(names)
    rest = len(found) - NAMES_SHOWN
    shown = ", ".join(found[:NAMES_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown
