"""What a broker says of its own place in the units."""

from __future__ import annotations

from dataclasses import dataclass

from ges.units.address import Address
from overlay.machine import Fact


@dataclass(frozen=True, slots=True)
class Addressed(Fact):
    """This broker has another address now; ``before`` is the one it had, if any."""

    address: Address
    before: Address | None


@dataclass(frozen=True, slots=True)
class Unaddressed(Fact):
    """The cluster has no slot for this broker, which waits for one; events come to it all the same.

    ``before`` is the address it had, if any.
    """

    members: int  #: of the cluster
    before: Address | None


@dataclass(frozen=True, slots=True)
class TookOffice(Fact):
    """This broker grants the slots of its cluster now."""

    before: str  #: uid of the steward before
    is_handover: bool  #: which has handed the table over; else it was gone, or silent


@dataclass(frozen=True, slots=True)
class RelocationBegun(Fact):
    """The whole unit in which this broker stands moves on the ring, to join another context."""

    names: str  #: of the unit then, and those around it; empty: it has none
    place: int  #: where its arc begins then


@dataclass(frozen=True, slots=True)
class RelocationEnded(Fact):
    """This broker takes part in the move of its unit no more."""

    names: str  #: of the units in which it wishes to stand from now on
    is_there: bool  #: it is in the new place; else it has stayed, or stands elsewhere


@dataclass(frozen=True, slots=True)
class UnitsChanged(Fact):
    """There is another table of the units of a level in this broker's context."""

    level: int


@dataclass(frozen=True, slots=True)
class LimitDiffers(Fact):
    """The overlay has another limit of sub-units than this broker was given; that of it counts."""

    limit: int
    given: int
