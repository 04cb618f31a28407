"""The parts of the way of events through one broker, and which of them each is built upon."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ges.delivery.choosing import Choosing
from ges.delivery.delivery import Deliveries
from ges.delivery.interests import Interests
from ges.delivery.past import Past
from ges.delivery.realms import Realms
from ges.delivery.sharing import Sharing
from ges.order.flow_order import FlowOrdering
from ges.order.flow_tables import FlowTables
from ges.order.recall import RecallLog
from ges.order.recalls import Recalls
from ges.order.via import Tokens
from ges.retained.values import RetainedValues
from ges.routing.answers import Answers
from ges.routing.arrivals import Arrivals
from ges.routing.express import Express
from ges.routing.forwarding import Forwarding
from ges.routing.handing_on import HandingOn
from ges.routing.holding import Holding
from ges.routing.known import Known
from ges.routing.outlets import EventLines
from ges.routing.passing import Passing
from ges.routing.plans import Plans
from ges.routing.reach import Reach
from ges.routing.rerouting import Rerouting
from ges.routing.router import Router
from ges.routing.stuck import Stuck
from ges.wire.events import DEFAULT_BUDGET_US
from ges.wire.matter import Matter
from overlay.ids import LinkClass, Nanos
from overlay.multigraph.weights import LinkKey


@dataclass(frozen=True, slots=True)
class ExpressRules:
    """What express events go by."""

    budget_us: int = DEFAULT_BUDGET_US  #: microseconds for those whose publisher does not say
    #: Whether the link to the broker of that uid is not demoted.
    is_express: Callable[[str], bool] = lambda uid: True
    #: Microseconds that a link takes that an event has come over, when told the least that the
    #: kernel has seen; 0: not known.
    one_way_us: Callable[[LinkKey, int], int] = lambda key, kernel_us: kernel_us


@dataclass(frozen=True, slots=True)
class RoutingParts:
    """The parts that others use."""

    router: Router
    passing: Passing
    deliveries: Deliveries
    express: Express
    recalls: Recalls
    answers: Answers
    past: Past
    reach: Reach
    flow_tables: FlowTables

    @classmethod
    def build(
        cls,
        lines: EventLines,
        holding: Holding,
        known: Known,
        interests: Interests,
        counters: Counter[str],
        rules: ExpressRules,
        *,
        rng: random.Random,
        now: Callable[[], Nanos],
        values: RetainedValues | None = None,
        wall_ns: Callable[[], int] | None = None,
    ) -> RoutingParts:
        """Return new parts; ``rng`` draws the tokens of streams, and who serves queue groups.

        ``values`` are the retained ones; ``wall_ns`` returns unix time.
        """
        cluster = known.cluster
        plans = Plans(lines, holding, cluster)
        tokens: Tokens[LinkKey] = Tokens(rng)
        choosing = Choosing(cluster, known.groups, known.outer_groups, rng)
        sharing = Sharing(choosing, counters)
        realms = Realms(cluster)
        deliveries = Deliveries(counters, now, interests, sharing, realms, values, wall_ns)
        ordering = FlowOrdering(lambda topic: deliveries.serves(Matter(LinkClass.NORMAL, topic)))
        recalls = Recalls(ordering, RecallLog(known.mask_of), cluster)
        forwarding = Forwarding(lines, holding, tokens, counters)
        stuck = Stuck()
        rerouting = Rerouting(lines, plans, holding, forwarding, stuck, counters)
        passing = Passing(plans, holding, forwarding, rerouting, stuck, counters)
        express = Express(
            lines,
            deliveries.audience,
            sharing,
            realms,
            counters,
            is_express=rules.is_express,
            one_way_us=rules.one_way_us,
            budget_us=rules.budget_us,
        )
        replays = deliveries.replays
        past = Past(cluster, recalls, interests, replays.fetched, counters)
        replays.fetch = past.begin
        replays.forgotten = past.forget
        handing_on = HandingOn(sharing, passing, express, tokens, counters)
        arrivals = Arrivals(recalls, past, deliveries, handing_on, counters)
        past.regain = arrivals.regain
        answers = Answers(passing, arrivals, tokens, counters)
        router = Router(
            known,
            tokens,
            recalls,
            passing,
            deliveries,
            express,
            arrivals,
            handing_on,
            counters,
        )
        reach = Reach(plans, known, deliveries)
        tables = FlowTables((ordering, arrivals.recent, express.recent))
        return cls(router, passing, deliveries, express, recalls, answers, past, reach, tables)
