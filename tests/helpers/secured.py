"""Secure links, as a whole broker knows them."""

from __future__ import annotations

from collections.abc import Collection

from ges.broker import Broker
from overlay.ids import LinkClass


def unreached(broker: Broker) -> int:
    """Return the members and units that secure events from a broker do not reach, as a mask."""
    gateways = broker.node.gateways
    table = gateways.tables.get(LinkClass.SECURE)
    return gateways.known & ~gateways.own & ~(table.reached if table is not None else 0)


def is_beside_secure(broker: Broker) -> bool:
    """Say whether a broker has secure links to all its ring neighbours."""
    ring = broker.node.ring
    return {each.uid for each in (*ring.left, *ring.right)} <= {*broker.node.secure_links}


def is_meshed(ring: Collection[Broker]) -> bool:
    """Say whether these brokers know each other, and secure events go from each to all."""
    return all(
        is_beside_secure(broker)
        and len(broker.node.gateways.slots) == len(ring)
        and not unreached(broker)
        for broker in ring
    )
