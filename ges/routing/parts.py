"""The parts of the way of events through one broker, and which of them each is built upon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ges.routing.catch_up import CatchUp
from ges.routing.delivery import Deliveries
from ges.routing.express import Express, ExpressHops
from ges.routing.forwarding import Forwarding
from ges.routing.holding import Holding
from ges.routing.losses import Losses
from ges.routing.ordering import DenseOrdering, Ordering
from ges.routing.outlets import Lines
from ges.routing.passing import Passing
from ges.routing.paths import Paths
from ges.routing.plans import Plans
from ges.routing.reach import Reach
from ges.routing.rerouting import Rerouting
from ges.routing.router import Router
from ges.topology.secure_graph import SecureGraph
from ges.wire.events import DEFAULT_BUDGET_US
from overlay.ids import Nanos
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
    ordering: Ordering
    losses: Losses
    reach: Reach

    @classmethod
    def build(
        cls,
        lines: Lines,
        paths: Paths,
        holding: Holding,
        graph: SecureGraph,
        counters: Counter[str],
        rules: ExpressRules,
        *,
        now: Callable[[], Nanos],
    ) -> RoutingParts:
        """Return new parts; ``graph`` is that of the secure links between brokers."""
        plans = Plans(lines, holding)
        ordering = DenseOrdering()
        losses = Losses(ordering)
        forwarding = Forwarding(lines, paths, holding, losses, counters)
        catch_up = CatchUp(plans)
        rerouting = Rerouting(lines, paths, plans, holding, forwarding, catch_up, losses, counters)
        passing = Passing(plans, holding, forwarding, catch_up, rerouting, counters)
        deliveries = Deliveries(counters, now)
        hops = ExpressHops(lines, paths, rules.is_express)
        express = Express(
            hops,
            deliveries.audience,
            counters,
            one_way_us=rules.one_way_us,
            budget_us=rules.budget_us,
        )
        router = Router(ordering, losses, passing, deliveries, express, counters)
        reach = Reach(plans, graph, deliveries)
        return cls(router, passing, deliveries, express, ordering, losses, reach)
