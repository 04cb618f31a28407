"""Events that other brokers have asked for, each on its way to the broker that asked. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ges.order.recalls import Answer, Outbound
from ges.order.via import Tokens
from ges.routing.arc_plan import toward
from ges.routing.arrivals import Arrivals
from ges.routing.passing import Passing
from ges.wire.event_flags import RECALLED_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from overlay.ids import Nanos
from overlay.multigraph.weights import LinkKey


class Answers:
    """Sends events to one broker that has asked for them, or lacks them."""

    def __init__(
        self,
        passing: Passing,
        arrivals: Arrivals,
        tokens: Tokens[LinkKey],
        counters: Counter[str],
    ) -> None:
        self._passing = passing
        self._plans = passing.plans
        self._arrivals = arrivals
        self._tokens = tokens
        self._counters = counters

    def send_answers(self, out: Outbound, now: Nanos) -> None:
        """Send events that others have asked for, and deliver what is in order now."""
        for answer in out.events:
            head = answer.run.head
            run = answer.run.under(self._tokens.stray(), self._plans.here or 0)
            flags = head.flags | RECALLED_FLAG
            self._counters["events_recalled"] += run.count
            self._passing.pass_on(run, self._duty_of(answer), flags, head.link_class, now)
        self._arrivals.deliver(out.ready, now)

    def tell_values(self, uid: str, runs: Iterable[EventRun], now: Nanos) -> None:
        """Send a member retained values that it lacks, and nobody else."""
        cluster = self._plans.cluster
        slot = cluster.slots.get(uid)
        if slot is None or cluster.slot is None:
            return
        duty = Duty(1, 0, 1 << slot, self._plans.own_bit)
        for run in runs:
            head = run.head
            sent = run.under(self._tokens.stray(), head.source)  # of where it was published
            self._passing.pass_on(sent, duty, head.flags, head.link_class, now)

    def _duty_of(self, answer: Answer) -> Duty:
        """Return the way to the broker that asked: by its place, its slot or its address."""
        cluster, age_ms = self._plans.cluster, answer.age_ms
        if answer.place is not None:
            return toward(answer.place, age_ms)
        if answer.address is None:
            return Duty(1, 0, 1 << answer.slot, self._plans.own_bit, millis=age_ms)
        to = cluster.toward(answer.address)
        return Duty(1, 0, to, self._plans.own_bit, answer.address + 1, millis=age_ms)
