"""How far an event goes, and from how far away a subscription gets events.

For example, an event of realm ``cluster`` is for the cluster where it is published, and a
subscription of realm ``super-cluster`` gets what is published in its own super-cluster alone. The
number of a realm is the level of its units; ``all`` is one above the highest.

An event carries it in a byte of its header.
"""

from __future__ import annotations

from enum import IntEnum

from ges.wire.levels import LEVEL_BITS
from overlay.errors import ConfigError


class Realm(IntEnum):
    """The units to which an event, or a subscription, is kept."""

    CLUSTER = 1
    SUPER_CLUSTER = 2
    SUPER_SUPER_CLUSTER = 3
    ALL = 4


REALMS = {
    "cluster": Realm.CLUSTER,
    "super-cluster": Realm.SUPER_CLUSTER,
    "super-super-cluster": Realm.SUPER_SUPER_CLUSTER,
    "all": Realm.ALL,
}


def realm_named(name: str | Realm) -> Realm:
    """Return the realm of that name.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(name, Realm):
        return name
    found = REALMS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ConfigError(f"realm {name!r}: write one of {', '.join(REALMS)}")
    return found


def name_of(realm: int) -> str:
    """Return what a realm is called."""
    return next(name for name, each in REALMS.items() if each == realm)


def within(mask: int, realm: int) -> int:
    """Return those of some destinations that are in the realm of an event published here."""
    return mask & (1 << LEVEL_BITS * realm) - 1
