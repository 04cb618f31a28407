"""Events of a queue group that nobody here gets any more go to another broker of the group.

For example, the source has chosen broker 5 to serve ``workers``, and the last member there has just
left. Broker 5 sends the event to broker 2, which has members of the group, and says that 5 was
tried. Pure.
"""

from __future__ import annotations

from collections import Counter

from ges.delivery.sharing import Sharing
from ges.order.via import Tokens
from ges.routing.express import Express
from ges.routing.passing import Passing
from ges.wire.event_flags import AGAIN_FLAG, MARK_FLAG, RECALLED_FLAG
from ges.wire.events import Duty
from ges.wire.groups import Serving
from overlay.ids import Nanos
from overlay.multigraph.weights import LinkKey


class HandingOn:
    """Sends on what this broker was to serve, and cannot."""

    def __init__(
        self,
        sharing: Sharing,
        passing: Passing,
        express: Express,
        tokens: Tokens[LinkKey],
        counters: Counter[str],
    ) -> None:
        self._sharing = sharing
        self._passing = passing
        self._plans = passing.plans
        self._express = express
        self._tokens = tokens
        self._counters = counters

    def hand_on_unserved(self, now: Nanos) -> None:
        """Send to another broker of its group what was for this one, and nobody here gets."""
        sharing, plans = self._sharing, self._plans
        own = plans.own_bit
        for each in sharing.take_unserved():
            head, tried = each.run.head, each.tried | own
            slot = sharing.choosing.another(head.link_class, each.key, tried, head.realm)
            if slot is None:
                self._counters["group_events_lost"] += each.run.count
                continue
            self._counters["group_events_handed_on"] += each.run.count
            duty = Duty(1, 0, 1 << slot, own)
            for event in each.run.split():
                run = event.grouped(Serving({each.key: slot}, tried))
                run = run.under(self._tokens.stray(), head.source if head.hops else plans.here or 0)
                flags = run.head.flags & ~(RECALLED_FLAG | MARK_FLAG) | AGAIN_FLAG
                if head.express:
                    self._express.hand_on(run, plans.onward(duty, 0, head.link_class))
                else:
                    self._passing.pass_on(run, duty, flags, head.link_class, now)
