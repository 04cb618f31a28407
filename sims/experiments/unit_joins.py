"""A whole unit of simulated brokers that is to join another context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ges.node import BrokerNode
from ges.units.address import LEVELS
from ges.units.room import JoinContext
from ges.units.table import arc_of


def joining(
    brokers: Mapping[str, BrokerNode], moving: Iterable[str], beside: Iterable[str], level: int
) -> tuple[str, JoinContext]:
    """Return the steward of a unit, and the command that it is given to join another context.

    ``moving``: uids of the unit's brokers; ``beside``: those of the context that it is to join;
    ``level``: of the unit.
    """
    uids = list(moving)
    first = next(uid for uid in uids if brokers[uid].units.is_steward_of(level))
    host = next(uid for uid in beside if brokers[uid].units.is_steward_of(level + 1))
    cluster, steward = brokers[first].units.cluster, brokers[host].ring.member
    assert cluster is not None, "it has a place"
    assert steward is not None, "it has a place"
    context = arc_of(brokers[host].units.tables[level])
    path = cluster[: LEVELS - level]
    return first, JoinContext(path, context, steward, "the other unit", len(uids))
