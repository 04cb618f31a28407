"""Events for named clients, on their way from the broker where they are published.

For example, ``kitchen`` is at broker 5 of this cluster, and ``hall`` at 0.0.2.1. An event for both
goes to broker 5 with the name ``kitchen``, and to 0.0.2.1 with ``hall``: each copy is for one
broker, as an answer to a question is, and has the names that are for that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ges.order.recall import KEPT_NS, RecallLog
from ges.routing.passing import Passing
from ges.wire.directory_messages import Holder
from ges.wire.event_flags import AGAIN_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty, Flow
from ges.wire.levels import CLUSTER_MASK
from overlay.ids import LinkClass, Nanos

MAX_SENT = 2048  #: copies that went to one broker, of which that is known ...
MAX_HOLDERS = 64  #: ... and so many brokers
#: Which brokers have clients of a name; None: nobody has been asked.
Holders = Callable[[str], Sequence[Holder] | None]


class Sent(NamedTuple):
    """A copy that has gone to another broker."""

    at: Nanos  #: first
    holder: Holder
    flow: Flow
    sequence: int
    names: tuple[str, ...]


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
        self._sent: dict[Holder, dict[tuple[Flow, int], Sent]] = {}  #: of late

    def leads_to(self, holder: Holder) -> bool:
        """Say whether a way leads to a broker; so there is where events go to all brokers."""
        if not self._passing.plans.by_destination:
            return True
        return bool(self._mask_of(holder) & self.reached)

    @property
    def reached(self) -> int:
        """This broker, and the members and units to which a way leads, as a mask."""
        table = self._cluster.tables.get(LinkClass.NORMAL)
        return self._cluster.own | (table.reached if table is not None else 0)

    def take_lost(self, now: Nanos) -> list[Sent]:
        """Return, once, what went of late to brokers to which no way leads: they may lack it."""
        gone = [holder for holder in self._sent if not self.leads_to(holder)]
        lost = [sent for each in gone for sent in self._sent.pop(each).values()]
        return [sent for sent in lost if sent.at > now - KEPT_NS]

    def had(self, flow: Flow, sequence: int, names: Iterable[str]) -> Mapping[Holder, Nanos]:
        """Return to which brokers an event has gone of late for some names, and when first."""
        found = {holder: sent.get((flow, sequence)) for holder, sent in self._sent.items()}
        wanted = {*names}
        return {
            holder: copy.at for holder, copy in found.items() if copy and wanted & {*copy.names}
        }

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

    def is_for_nobody(self, duty: Duty) -> bool:
        """Say whether nobody stands where an event for one broker is to go, or no way leads there.

        Where its cluster has died, and is still stated, it may have another address by now.
        """
        there = duty.destinations
        moved = 0 if duty.address else self._cluster.now_at(there)
        return not (there & self.reached or moved)

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
        duty, head, names = self._duty_towards(holder), event.head, tuple(names)
        if self._cluster.slots.get(holder.uid) != self._cluster.slot:
            self._note(Sent(now, holder, head.flow, head.sequence, names))
        if duty.destinations:
            self._counters["named_events_sent"] += 1
            copy = event.named(names).under(head.via, head.source)
            self._passing.pass_on(copy, duty, flags, head.link_class, now)
        return duty.destinations

    def _note(self, sent: Sent) -> None:
        held = self._sent.setdefault(sent.holder, {})
        before = held.pop((sent.flow, sent.sequence), None)
        if before is not None:
            names = dict.fromkeys((*before.names, *sent.names))
            sent = before._replace(names=tuple(names))
        held[sent.flow, sent.sequence] = sent
        if len(held) > MAX_SENT:
            del held[next(iter(held))]
        if len(self._sent) > MAX_HOLDERS:
            del self._sent[next(iter(self._sent))]

    def _mask_of(self, holder: Holder) -> int:
        """Return the member or unit to which a copy for a broker goes, as a mask; 0: none."""
        slot, address = self._cluster.slots.get(holder.uid), holder.address
        if slot is not None:
            return 1 << slot
        # A slot of this cluster has another broker by now, or nobody.
        return self._cluster.toward(address) & ~CLUSTER_MASK if address is not None else 0

    def _duty_towards(self, holder: Holder) -> Duty:
        """Return the duty of a copy for one broker; without destinations if it is this one."""
        own, mask = self._passing.plans.own_bit, self._mask_of(holder)
        if holder.uid in self._cluster.slots or holder.address is None:
            return Duty(1, 0, mask & ~own, own)
        return Duty(1, 0, mask & ~own, own, holder.address + 1)
