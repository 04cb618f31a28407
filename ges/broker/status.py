"""What a broker says of itself: the answer to ``chordal status``."""

from __future__ import annotations

from collections import Counter

from ges.broker.link_status import link_statuses
from ges.broker.parts import Parts
from ges.gateways.losses import Severity
from ges.node import BrokerNode
from ges.units.unit_names import written
from ges.wire.status import (
    IncidentStatus,
    LevelStatus,
    LossStatus,
    MemoryStatus,
    NamedLinkStatus,
    Status,
    VerdictStatus,
)
from overlay.ids import NANOS_PER_SECOND, Nanos
from overlay.release import software_version
from overlay.trace_schema import Incident, Verdict
from ring.node import RingNode

MOST_WITHOUT_WAY = 16  #: that are told


def describe(parts: Parts) -> Status:
    """Describe a broker as it is now."""
    node, driver, stack = parts.node, parts.driver, parts.stack
    ring = node.ring
    identity_watch = parts.secured.identity_watch if parts.secured is not None else None
    counters = Counter(driver.counters)
    counters["events_lost"] = stack.ordering.lost
    counters += parts.clients.dropped
    survey, units = node.survey, node.units
    counters += units.counters + node.gateways.counters + node.profiles.counters
    counters += node.losses.counters
    counters["express_demotions"] = survey.express_range.demotions
    counters["express_promotions"] = survey.express_range.promotions
    counters["readers_gave_way"] = driver.precedence.given_way
    return Status(
        uid=node.peer.uid,
        incarnation=node.peer.incarnation,
        url=node.peer.url,
        overlay=parts.config.overlay,
        version=software_version(),
        secure=node.peer.secure,
        member=ring.member,
        left=ring.left,
        right=ring.right,
        chords=ring.chords,
        suspects=ring.suspects,
        links=link_statuses(
            driver.links,
            node,
            driver.now(),
            stack.express.misses,
            identity_watch.expires_in_s if identity_watch is not None else lambda peer: None,
        ),
        clients=parts.clients.size,
        subscriptions=stack.deliveries.subscriptions,
        counters=dict(sorted(counters.items())),
        uptime_s=round(driver.now() / NANOS_PER_SECOND, 3),
        verdicts=_verdicts(ring),
        backups=ring.backups,
        records=len(ring.records),
        backups_wanted=parts.config.backups,
        parked=parts.parked.size,
        identity=identity_watch.status() if identity_watch is not None else None,
        express_range_ms=survey.express_range.range_ns / 1e6,
        kept_bytes=driver.streams.waiting_bytes + stack.passing.stuck_bytes,
        replay_bytes=stack.replays.kept.bytes,
        address=str(units.address) if units.address is not None else None,
        members=len(units.members),
        steward=units.steward,
        name=parts.config.name,
        warnings=parts.config.warnings,
        memory=MemoryStatus(parts.budget.size, parts.budget.limit, parts.budget.held),
        incidents=tuple(_incident(*decided) for decided in parts.recorder.recent),
        unit_limit=units.limit,
        contexts=units.contexts,
        losses=tuple(
            LossStatus(
                lost.level,
                lost.units,
                lost.severity.value,
                lost.left,
                round(at_ns / NANOS_PER_SECOND, 3),
            )
            for at_ns, lost in node.losses.recent
        ),
        levels=_levels(node),
        unit=written(units.names),
        unit_wanted=written(units.placement.wish),
        declared=node.peer.declared,
        without_way=node.gateways.without_way[:MOST_WITHOUT_WAY],
        names_destinations=node.gateways.is_for_all,
        unsure_share=round(node.gateways.doubt.share(driver.now()), 6),
        event_links=tuple(NamedLinkStatus(*link) for link in node.declared.links),
    )


def _levels(node: BrokerNode) -> tuple[LevelStatus, ...]:
    found = node.losses
    return tuple(
        LevelStatus(
            level,
            missing,
            {each.value: found.counts[level, each] for each in Severity},
            node.statements_part.health(level).value if level else "",
        )
        for level, missing in found.cut_off.items()
    )


def _incident(decided_ns: Nanos, incident: Incident) -> IncidentStatus:
    """Return what an observer tells of an incident: when it began, and how long it took."""
    is_death = incident.verdict is Verdict.BROKER_FAILED
    verdict_ns = (incident.confirmed_ns if is_death else None) or decided_ns
    began_ns = incident.suspected_ns or verdict_ns
    repaired_ns = incident.repaired_ns

    def since(end: Nanos) -> float:
        return round((end - began_ns) / NANOS_PER_SECOND, 4)

    return IncidentStatus(
        uid=incident.subject,
        verdict=incident.verdict,
        at_s=round(began_ns / NANOS_PER_SECOND, 3),
        detected_s=since(verdict_ns) if incident.suspected_ns else None,
        repaired_s=since(repaired_ns) if repaired_ns is not None else None,
    )


def _verdicts(ring: RingNode) -> tuple[VerdictStatus, ...]:
    return tuple(
        VerdictStatus(
            uid=ruling.uid,
            incarnation=ruling.incarnation,
            verdict=ruling.verdict,
            witnesses=ruling.witnesses,
            at_s=round(ruling.at_ns / NANOS_PER_SECOND, 3),
            path=ruling.path,
            restored_s=(
                None
                if ruling.restored_ns is None
                else round(ruling.restored_ns / NANOS_PER_SECOND, 3)
            ),
        )
        for ruling in ring.verdicts
    )
