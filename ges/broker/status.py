"""What a broker says of itself: the answer to ``chordal status``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ges.broker.link_status import link_statuses, way_statuses
from ges.wire.status import Status, VerdictStatus
from overlay.ids import NANOS_PER_SECOND
from overlay.release import software_version

if TYPE_CHECKING:
    from ges.broker.broker import Broker


def describe(broker: Broker) -> Status:
    """Describe a broker as it is now."""
    ring, router = broker.node.ring, broker.router
    counters = Counter(broker.driver.counters)
    counters["events_lost"] = router.sequencer.lost
    counters += broker.attendance.dropped
    survey, paths = broker.node.survey, broker.node.relay_paths
    counters["path_changes"] = paths.choice.changes
    counters["express_demotions"] = survey.express_range.demotions
    counters["express_promotions"] = survey.express_range.promotions
    counters["weights_told"] = survey.told
    counters["readers_gave_way"] = broker.driver.precedence.given_way
    return Status(
        uid=broker.node.peer.uid,
        incarnation=broker.node.peer.incarnation,
        url=broker.url,
        overlay=broker.config.overlay,
        version=software_version(),
        secure=broker.identity is not None,
        member=ring.member,
        left=ring.left,
        right=ring.right,
        chords=ring.chords,
        suspects=ring.suspects,
        links=link_statuses(
            broker.driver.links,
            broker.node,
            broker.driver.now(),
            router.express.misses,
            broker.warden.expires_in_s if broker.warden is not None else lambda peer: None,
        ),
        clients=broker.attendance.size,
        subscriptions=router.subscriptions,
        counters=dict(sorted(counters.items())),
        uptime_s=round(broker.driver.now() / NANOS_PER_SECOND, 3),
        verdicts=_verdicts(broker),
        backups=ring.backups,
        records=len(ring.records),
        backups_wanted=broker.ring_config.backups,
        parked=broker.attendance.intake.parked.size,
        identity=broker.warden.status() if broker.warden is not None else None,
        ways=way_statuses(broker.node),
        express_range_ms=survey.express_range.range_ns / 1e6,
        kept_bytes=broker.driver.streams.waiting_bytes,
    )


def _verdicts(broker: Broker) -> tuple[VerdictStatus, ...]:
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
        for ruling in broker.node.ring.verdicts
    )
