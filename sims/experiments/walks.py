"""The way of an event, by the tables that brokers hold at the moment.

For example, broker 5 publishes, and its tables say that the event is for member 9 and cluster 3, by
members 7 and 2. Each of these decides by its own tables, and so on. So it is seen who would get the
event and how often, without streams between brokers (:mod:`sims.experiments.machines`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ges.node import BrokerNode
from ges.routing.entering import Entering
from ges.routing.mask_plan import MaskPlan
from ges.wire.events import Duty, Head
from ges.wire.matter import Matter
from overlay.ids import LinkClass

NORMAL = LinkClass.NORMAL
MOST_COPIES = 1_000_000


@dataclass(slots=True)
class Walked:
    """What has become of an event."""

    received: Counter[str] = field(default_factory=Counter)  #: by whom, and how often
    delivered: Counter[str] = field(default_factory=Counter)  #: at whose clients
    stuck: int = 0  #: destinations to which there was no way


class NotByName(Exception):
    """An event would go to all brokers, as units change or brokers wait for slots."""


def walk(brokers: Mapping[str, BrokerNode], source: str, topic: bytes) -> Walked:
    """Return what becomes of a normal event on a topic that is published at a broker.

    Raises:
        NotByName: it would go to all.
    """
    node = brokers[source]
    gateways, member = node.gateways, node.ring.member
    if not gateways.is_for_all or member is None or gateways.slot is None:
        raise NotByName(source)
    walked = Walked()
    own = 1 << gateways.slot
    wanted = node.mask_of(Matter(NORMAL, topic))
    if wanted & own:
        walked.delivered[source] += 1
    ways = [(source, Duty(1, 0, wanted & ~gateways.own, own))]
    while ways:
        uid, duty = ways.pop()
        here = brokers[uid]
        lines = {(each, NORMAL) for each in here.ring.linked}
        split = MaskPlan(here.gateways, NORMAL, lines).split(duty)
        walked.stuck += split.stuck.bit_count()
        for other, copy in split.onward:
            walked.received[other] += 1
            there = brokers[other]
            if copy.entering:
                head = Head(NORMAL, 0, 1, 0, member.ring_id, copy, bytes(16), 1, 1, 0, topic)
                copy = Entering(there.gateways, there.mask_of).duty(head)
            slot = there.gateways.slot
            if slot is not None and copy.destinations >> slot & 1:
                walked.delivered[other] += 1
            ways.append((other, copy))
        assert walked.received.total() < MOST_COPIES, "copies come again and again"
    return walked
