"""What the control machine of a broker knows, as routing reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ges.delivery.choosing import OuterGroups
from ges.gateways.cluster import Cluster
from ges.profiles.group_index import GroupIndex
from ges.routing.entering import Wanting
from ges.wire.directory_messages import Holder
from ges.wire.statement_messages import SecureHealth


class UnitHealths(Protocol):
    """The secure parts of other units; a :class:`ges.statements.held.Statements`."""

    @property
    def unknown(self) -> int:
        """Other units of which nothing is known, as a mask."""

    @property
    def health_changes(self) -> int:
        """A number that grows when one is in another state than before."""

    def in_health(self, health: SecureHealth) -> int:
        """Return the units whose secure part is in a state, as a mask."""


@dataclass(frozen=True, slots=True)
class Known:
    """The members, the other units, and what they want."""

    cluster: Cluster
    mask_of: Wanting
    groups: GroupIndex  #: queue groups, and which members have clients in them
    outer_groups: OuterGroups  #: and which other units
    healths: UnitHealths | None = None  #: None: there are no other units
    #: Which brokers have clients of a name; None: nobody has been asked.
    holders: Callable[[str], Sequence[Holder] | None] = lambda name: None
