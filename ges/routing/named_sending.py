"""Events for named clients, on their way from the broker where they are published.

For example, ``kitchen`` is at broker 5 of this cluster, and ``hall`` at 0.0.2.1. An event for both
goes to broker 5 with the name ``kitchen``, and to 0.0.2.1 with ``hall``: each copy is for one
broker, as an answer to a question is, and has the names that are for that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ges.routing.passing import Passing
from ges.routing.recall import RecallLog
from ges.wire.directory_messages import Holder
from ges.wire.event_runs import EventRun
from ges.wire.events import AGAIN_FLAG, Duty, Flow
from overlay.ids import Nanos

#: Which brokers have clients of a name; None: nobody has been asked.
Holders = Callable[[str], Sequence[Holder] | None]


class NamedSending:
    """Sends copies to the brokers that have the clients."""

    def __init__(
        self, passing: Passing, log: RecallLog, holders: Holders, counters: Counter[str]
    ) -> None:
        self._passing = passing
        self._cluster = passing.plans.cluster
        self._log = log
        self._holders = holders
        self._counters = counters

    def send(self, event: EventRun, now: Nanos) -> int:
        """Send a single event to all brokers that it is for; return these and units, as a mask."""
        copies: dict[Holder, list[str]] = {}
        for name in event.names():
            for holder in self._holders(name) or ():
                copies.setdefault(holder, []).append(name)
        mask = 0
        for holder, names in copies.items():
            mask |= self._send_copy(event, holder, names, event.head.flags, now)
        return mask

    def is_for_us(self, event: EventRun) -> bool:
        """Say whether clients of this broker are among those that an event is for."""
        own, slots = self._cluster.slot, self._cluster.slots
        held = (holder for name in event.names() for holder in self._holders(name) or ())
        return any(slots.get(holder.uid) == own for holder in held)

    def send_again(
        self, flow: Flow, sequence: int, holder: Holder, names: Iterable[str], via: int, now: Nanos
    ) -> EventRun | None:
        """Send an event to a broker where its clients are now; return it if that is this broker.

        ``via``: of a way of its own. Nothing is sent if the event is not kept any more.
        """
        event = self._log.get(flow, sequence)
        if event is None:
            return None
        sent = event.under(via, self._passing.plans.here or 0)
        if self._cluster.slots.get(holder.uid) == self._cluster.slot:
            return sent.named(names).under(via, sent.head.source)
        self._send_copy(sent, holder, names, event.head.flags | AGAIN_FLAG, now)
        return None

    def _send_copy(
        self, event: EventRun, holder: Holder, names: Iterable[str], flags: int, now: Nanos
    ) -> int:
        duty = self._duty_towards(holder)
        if duty.destinations:
            self._counters["named_events_sent"] += 1
            head = event.head
            copy = event.named(names).under(head.via, head.source)
            self._passing.pass_on(copy, duty, flags, head.link_class, now)
        return duty.destinations

    def _duty_towards(self, holder: Holder) -> Duty:
        """Return the duty of a copy for one broker; without destinations if it is this one."""
        cluster = self._cluster
        own, slot = 1 << (cluster.slot or 0), cluster.slots.get(holder.uid)
        if slot is not None:
            return Duty(1, 0, (1 << slot) & ~own, own)
        if holder.address is None:
            return Duty(1, 0, 0, own)
        return Duty(1, 0, cluster.toward(holder.address) & ~own, own, holder.address + 1)
