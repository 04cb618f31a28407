"""Whether secure events that are let into a unit reach all in it that want them.

For example, three brokers of a cluster hold identities, and two of them lost their secure links to
the third. That one has clients that want secure events. A broker that lets a secure event into the
cluster over a gate to one of the two cannot pass it on to the third: the secure part of the cluster
is *broken*. So its statement says so, and sources do not send it what it wants, but say why.

The secure part is whole if all members that want secure events, and all that have secure gates to
other units, reach each other over secure links inside. For a larger unit the same is reckoned from
the statements of the units in it: those that want secure events are whole themselves, and they and
those with gates reach each other through units that are whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from itertools import chain
from typing import TypeVar

from ges.gateways.graph import level_of
from ges.gateways.link_state import LinkStates
from ges.wire.asked import CLASS_BITS, Ask
from ges.wire.statement_messages import SecureHealth, UnitStatement
from overlay.ids import LinkClass

NONE, WHOLE, BROKEN = SecureHealth.NONE, SecureHealth.WHOLE, SecureHealth.BROKEN
SECURE = LinkClass.SECURE

N = TypeVar("N", int, str)


def wants_secure(asks: Iterable[Ask]) -> bool:
    """Say whether secure events are among what is wanted."""
    return any(ask.classes & CLASS_BITS[SECURE] for ask in asks)


def cluster_health(
    states: LinkStates,
    members: Mapping[str, int],
    holders: Set[str],
    wanting: Set[str],
    *,
    has_others: bool,
) -> SecureHealth:
    """Return how the secure part of a cluster is.

    Args:
        states: what members have told of their links.
        members: their slots, by uid.
        holders: those that hold identities; nobody else counts.
        wanting: those that want secure events, or may.
        has_others: there are other units; then a secure gate must lead out.
    """
    if not holders:
        return NONE
    gates = {
        uid
        for uid in holders
        if (state := states.get(uid)) is not None
        and any(gate.link_class.is_secret for gate in state.gates)
    }
    links = ((edge.a, edge.b) for edge in states.edges(SECURE, members))
    inside = [(a, b) for a, b in links if a in holders and b in holders]
    return _health(wanting & holders, gates, inside, has_others=has_others)


def unit_health(
    parts: Mapping[int, UnitStatement], level: int, *, has_others: bool
) -> SecureHealth:
    """Return how the secure part of a unit above the cluster is.

    Args:
        parts: statements of the units in it, by node.
        level: of the unit.
        has_others: there are other units of its level, or above.
    """
    secured = {node: part for node, part in parts.items() if part.secure != NONE}
    if not secured:
        return NONE
    wanting = {node for node, part in secured.items() if wants_secure(part.asks)}
    sound = {node for node, part in secured.items() if part.secure == WHOLE}
    gates: set[int] = set()
    inside = []
    for node, part in secured.items():
        for edge in part.edges:
            if not edge.link_class.is_secret:
                continue
            if level_of(edge.node) >= level:
                gates.add(node)
            elif node in sound and edge.node in sound:
                inside.append((node, edge.node))
    if not wanting <= sound:
        return BROKEN
    return _health(wanting, gates, inside, has_others=has_others)


def _health(
    wanting: Set[N], gates: Set[N], links: Collection[tuple[N, N]], *, has_others: bool
) -> SecureHealth:
    if has_others and wanting and not gates:
        return BROKEN
    must = wanting | gates
    near: dict[N, set[N]] = {}
    for a, b in chain(links, ((b, a) for a, b in links)):
        near.setdefault(a, set()).add(b)
    first = next(iter(must), None)
    if first is None:
        return WHOLE
    reached, queue = {first}, [first]
    while queue:
        new = near.get(queue.pop(), set()) - reached
        reached |= new
        queue += new
    return WHOLE if must <= reached else BROKEN
