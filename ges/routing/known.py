"""What the control machine of a broker knows, as routing reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ges.profiles.group_index import GroupIndex
from ges.routing.mask_plan import Cluster
from ges.topology.secure_graph import SecureGraph
from overlay.ids import LinkClass

#: Says which brokers want an event of a class and topic, by slot, as a mask.
MaskOf = Callable[[LinkClass, bytes], int]


@dataclass(frozen=True, slots=True)
class Known:
    """The members, what they want, and who of them secure events reach."""

    cluster: Cluster
    mask_of: MaskOf
    graph: SecureGraph  #: of the secure links between brokers
    groups: GroupIndex  #: queue groups, and which members have clients in them
