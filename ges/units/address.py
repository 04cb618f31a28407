"""Addresses of brokers, and sets of slots (Grid Event Service protocols, section 2.1).

For example, ``0.0.0.5`` is the broker with slot 5 of cluster 0, which is in super-cluster 0 of
super-super-cluster 0. An address reads from the top, and each of its four numbers is from 0 to 63.
Level 0 is the broker, level 1 the cluster, and so on.

A set of slots is an integer with 64 bits, its *mask*: bit 5 is set if slot 5 is in the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from overlay.errors import ConfigError

LEVELS = 4
UNIT_LIMIT = 64  #: sub-units of a unit, and members of a cluster
ALL_SLOTS = 2**UNIT_LIMIT - 1

_BITS = 6  #: of each number, in an address that is one integer


@dataclass(frozen=True, order=True, slots=True)
class Address:
    """Where a broker is; addresses order as they read.

    ``numbers`` stand from the top: super-super-cluster, super-cluster, cluster, broker.
    """

    numbers: tuple[int, int, int, int]

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ConfigError: there are not four numbers, or one is not from 0 to 63.
        """
        if len(self.numbers) != LEVELS or not all(0 <= n < UNIT_LIMIT for n in self.numbers):
            raise ConfigError(f"{self.numbers} is no address: {LEVELS} numbers from 0 to 63")

    def __str__(self) -> str:
        """Return it as it is printed: ``D.C.B.a``."""
        return ".".join(map(str, self.numbers))

    @property
    def slot(self) -> int:
        """The broker's number in its cluster."""
        return self.numbers[-1]

    @property
    def packed(self) -> int:
        """The same as one integer of 24 bits; these order as addresses do."""
        packed = 0
        for number in self.numbers:
            packed = packed << _BITS | number
        return packed

    def at(self, level: int) -> int:
        """Return the number at a level, 0 (broker) to 3."""
        return self.numbers[LEVELS - 1 - level]

    def common_level(self, other: Address) -> int:
        """Return the lowest level at which both are in one unit.

        0: the same broker; 1: the same cluster; 4: they have nothing in common but the overlay.
        """
        for level in range(LEVELS, 0, -1):
            if self.at(level - 1) != other.at(level - 1):
                return level
        return 0


def in_cluster(slot: int, cluster: tuple[int, int, int] = (0, 0, 0)) -> Address:
    """Return the address of a slot of a cluster, given the numbers of that from the top.

    Raises:
        ConfigError: it is not from 0 to 63.
    """
    return Address((*cluster, slot))


def parse_address(text: str) -> Address:
    """Return ``text``, such as ``0.0.0.5``, as an address.

    Raises:
        ConfigError: it is none.
    """
    parts = text.split(".")
    if len(parts) != LEVELS or not all(_is_number(part) for part in parts):
        raise ConfigError(f"{text!r} is no address: write four numbers from 0 to 63, as in 0.0.0.5")
    d, c, b, a = map(int, parts)
    return Address((d, c, b, a))


def unpack_address(packed: int) -> Address:
    """Return the address that :attr:`Address.packed` made.

    Raises:
        ConfigError: it has more than 24 bits, or is negative.
    """
    if not 0 <= packed < 2 ** (_BITS * LEVELS):
        raise ConfigError(f"{packed} is no packed address: it has more than 24 bits")
    d, c, b, a = (packed >> _BITS * level & UNIT_LIMIT - 1 for level in range(LEVELS - 1, -1, -1))
    return Address((d, c, b, a))


def mask_of(slots: Iterable[int]) -> int:
    """Return the mask of these slots."""
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


def slots_of(mask: int) -> Iterator[int]:
    """Yield the slots in a mask, smallest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 2 and int(text) < UNIT_LIMIT
