"""How a picture of the ring follows from what the brokers say of themselves.

Nothing here asks anybody: what was heard comes in, and the picture goes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ges.gateways.costs import BUCKETS_NS
from ges.gateways.link_state import Edge
from ges.http.picture import BrokerPicture, LinkPicture, State
from ges.http.sightings import Sighting
from ges.operations.links import LinkKey, told_links
from ges.units.address import in_cluster
from ges.wire.status import LinkStatus, Status
from ges.wire.unit_messages import MemberRow
from overlay.ids import LinkClass
from overlay.multigraph.graph import ends
from overlay.trace_schema import Verdict
from ring.geometry import RING_SIZE
from ring.wire.messages import Member


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known, and from whom."""

    sightings: Mapping[str, Sighting]  #: of those that answer, the broker that draws among them
    members: Mapping[str, MemberRow]  #: of the cluster, by uid
    silent: frozenset[str]  #: uids of those that do not answer
    edges: Mapping[LinkClass, Sequence[Edge]]  #: of the cluster, as its members tell of them
    now: float
    cluster: tuple[int, int, int] = (0, 0, 0)  #: numbers of that of the broker that draws


def known_members(heard: Heard) -> dict[str, Member]:
    """Return who is on the ring, by uid: whom any broker names or is; of two lives the later."""
    found: dict[str, Member] = {}
    rows = (row.member for row in heard.members.values())
    for member in (*rows, *_named(heard.sightings.values())):
        known = found.get(member.uid)
        if known is None or member.incarnation > known.incarnation:
            found[member.uid] = member
    return found


def brokers_of(
    heard: Heard, dead: Mapping[str, int], degrees: Mapping[str, int]
) -> list[BrokerPicture]:
    """Return the brokers in ring order.

    ``dead``: the last life of each that was declared dead; ``degrees``: of those known.
    """
    statuses = (sighting.status for sighting in heard.sightings.values())
    suspected = {uid for status in statuses for uid in status.suspects}
    pictures = []
    for uid, member in known_members(heard).items():
        state = State.ALIVE
        if dead.get(uid, -1) >= member.incarnation:
            state = State.DEAD
        elif uid in suspected:
            state = State.SUSPECTED
        elif uid in heard.silent:
            state = State.SILENT
        sighting, row = heard.sightings.get(uid), heard.members.get(uid)
        pictures.append(
            _broker(member, state, sighting, row, degrees.get(uid, 0), heard.now, heard.cluster)
        )
    return sorted(pictures, key=lambda picture: (picture.place, picture.uid))


def declared_dead(status: Status) -> dict[str, int]:
    """Return whose death a broker holds for confirmed, and the last life of each that was."""
    found: dict[str, int] = {}
    for ruling in status.verdicts:
        if ruling.verdict is Verdict.BROKER_FAILED:
            found[ruling.uid] = max(found.get(ruling.uid, -1), ruling.incarnation)
    return found


def links_of(heard: Heard) -> list[LinkPicture]:
    """Return the links that either end tells of, and else those that members tell each other."""
    told = told_links(sighting.status for sighting in heard.sightings.values())
    failed: set[tuple[str, str]] = set()
    for uid, sighting in heard.sightings.items():
        for ruling in sighting.status.verdicts:
            if ruling.verdict is Verdict.LINK_FAILED and ruling.restored_s is None:
                failed.add(ends(uid, ruling.uid))
    pictures = [_link(heard, key, both, is_failed=key[:2] in failed) for key, both in told.items()]
    pictures += [
        LinkPicture(a=a, b=b, link_class=link_class, cost_ms=BUCKETS_NS[bucket] / 1e6)
        for link_class, edges in heard.edges.items()
        for a, b, bucket in edges
        if not _is_asked(heard, a, b)
    ]
    shown = {(link.a, link.b) for link in pictures}
    pictures += [
        LinkPicture(a=a, b=b, link_class=LinkClass.NORMAL, failed=True)
        for a, b in sorted(failed - shown)
    ]
    return pictures


def _named(sightings: Iterable[Sighting]) -> Iterable[Member]:
    for sighting in sightings:
        status = sighting.status
        if status.member is not None:
            yield status.member
        yield from (*status.left, *status.right, *status.chords)


def _is_asked(heard: Heard, a: str, b: str) -> bool:
    """Say whether an end of a link tells itself what links it has."""
    return a in heard.sightings or b in heard.sightings


def _broker(
    member: Member,
    state: State,
    sighting: Sighting | None,
    row: MemberRow | None,
    degree: int,
    now: float,
    cluster: tuple[int, int, int],
) -> BrokerPicture:
    status = sighting.status if sighting is not None else None
    address = str(in_cluster(row.slot, cluster)) if row is not None else None
    clients = None
    if sighting is not None:  # who asks is one of them, unless it asks itself
        clients = max(0, sighting.status.clients - sighting.is_asked)
    return BrokerPicture(
        uid=member.uid,
        incarnation=member.incarnation,
        url=member.peer.url,
        place=member.ring_id / RING_SIZE,
        state=state,
        address=status.address if status is not None and status.address else address,
        degree=degree,
        version=status.version if status is not None else None,
        uptime_s=status.uptime_s if status is not None else None,
        clients=clients,
        subscriptions=status.subscriptions if status is not None else None,
        published_per_s=_rounded(sighting.published) if sighting is not None else None,
        delivered_per_s=_rounded(sighting.delivered) if sighting is not None else None,
        told_s=round(now - sighting.at, 1) if sighting is not None else None,
    )


def _link(
    heard: Heard, key: LinkKey, both: Mapping[str, LinkStatus], *, is_failed: bool
) -> LinkPicture:
    links = both.values()
    sent = [heard.sightings[uid].sent for uid in both]
    known = [(each, link) for each, link in zip(sent, links, strict=True) if each is not None]
    rates = [each[at] for each, link in known if (at := (link.uid, link.link_class)) in each]
    return LinkPicture(
        a=key[0],
        b=key[1],
        link_class=key[2],
        rtt_ms=_worst(link.rtt_ms for link in links),
        jitter_ms=_worst(link.jitter_ms for link in links),
        cost_ms=_worst(link.cost_ms for link in links),
        traffic=sum(link.traffic for link in links),
        queued_bytes=sum(link.queued_bytes for link in links),
        resets=max(link.resets for link in links),
        events_per_s=_rounded(sum(rates)) if rates else None,
        failed=is_failed and key[2].is_base,
        demoted=any(link.demoted for link in links),
    )


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
