"""The links of a broker, as it tells people and scripts of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ges.node import BrokerNode
from ges.wire.status import LinkStatus
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.links.link import Link
from overlay.multigraph.weights import LinkKey
from overlay.security.identity import PeerIdentity
from ring.node import RingNode


def link_statuses(
    links: Mapping[LinkKey, Link],
    node: BrokerNode,
    now: Nanos,
    late: Mapping[LinkKey, int] = MappingProxyType({}),
    expires_in_s: Callable[[PeerIdentity | None], float | None] = lambda peer: None,
) -> tuple[LinkStatus, ...]:
    """Describe the links that are up, by uid and class, as measured now.

    ``late``: how many express events that came over each were first found late here.
    ``expires_in_s``: for how long a certificate lasts.
    """
    roles, linked = _roles(node.ring), node.ring.linked
    return tuple(
        _status(
            key,
            link,
            node,
            now,
            late.get(key, 0),
            tuple(roles.get(key[0], ())),
            linked[key[0]].ring_id if key[0] in linked else None,
            expires_in_s(link.identity),
        )
        for key, link in sorted(links.items())
    )


def _status(
    key: LinkKey,
    link: Link,
    node: BrokerNode,
    now: Nanos,
    late: int,
    roles: tuple[str, ...],
    ring_id: int | None,
    expires_in_s: float | None,
) -> LinkStatus:
    uid, link_class = key
    weights, cost = node.survey.weights(key, now), node.survey.cost_ns(key)
    return LinkStatus(
        uid=uid,
        url=link.peer.url,
        ring_id=ring_id,
        link_class=link_class,
        roles=roles,
        queued_bytes=link.connection.queued_bytes,
        age_s=round((now - link.since_ns) / NANOS_PER_SECOND, 3),
        cipher=link.connection.cipher,
        expires_in_s=expires_in_s,
        late=late,
        dropped=link.connection.outbox.express.dropped,
        events=link.connection.events,
        name=link.name,
        rtt_ms=_ms(weights.rtt_ns) if weights is not None else None,
        jitter_ms=_ms(weights.jitter_ns) if weights is not None else None,
        capacity=weights.capacity if weights is not None else 0,
        traffic=weights.traffic if weights is not None else 0,
        resets=weights.resets if weights is not None else 0.0,
        cost_ms=_ms(cost) if cost is not None else None,
        carries=node.declared.carries(link.peer),
        declared=node.declared.is_named(uid),
        demoted=link_class.is_timed and not node.survey.is_express(uid),
    )


def _roles(ring: RingNode) -> dict[str, list[str]]:
    """Return what each link is for, by uid."""
    roles: dict[str, list[str]] = {}
    for names, members in (
        (("left", "left-left"), ring.left),
        (("right", "right-right"), ring.right),
    ):
        for name, member in zip(names, members, strict=False):
            roles.setdefault(member.uid, []).append(name)
    for level, member in enumerate(ring.chords[1:], start=1):
        roles.setdefault(member.uid, []).append(f"chord {level}")
    return roles


def _ms(nanoseconds: Nanos) -> float:
    return round(nanoseconds / 1e6, 3)
