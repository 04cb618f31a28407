"""Whether an event that is published here reaches all who want it, and why it is refused if not."""

from __future__ import annotations

from ges.delivery.delivery import Deliveries
from ges.delivery.subscriber import Subscriber
from ges.gateways.next_hops import bits
from ges.routing.known import Known
from ges.routing.plans import Plans
from ges.units.address import ALL_SLOTS, unpack_address
from ges.units.nodes import name_of
from ges.wire.events import Head
from ges.wire.statement_messages import SecureHealth
from overlay.ids import LinkClass, short

MAX_NAMED = 3  #: brokers named in a refusal
UNSURE = "units of the overlay change, and it is not sure yet which brokers want the event"


class Reach:
    """Judges events of clients."""

    def __init__(self, plans: Plans, known: Known, deliveries: Deliveries) -> None:
        self._plans = plans
        self._cluster = known.cluster
        self._mask_of = known.mask_of
        self._choosing = deliveries.sharing.choosing
        self._healths = known.healths
        self._deliveries = deliveries

    @property
    def version(self) -> tuple[int, ...]:
        """Something else whenever another answer is possible, but for what clients want."""
        healths = self._healths.health_changes if self._healths is not None else 0
        return self._cluster.version, healths, self._plans.by_destination

    def why_not(self, client: Subscriber, head: Head) -> str | None:
        """Return why an event from a client cannot be taken, or None."""
        if self._plans.here is None:
            return "this broker is not on the ring at the moment"
        if not head.secure:
            return None
        if not client.secure:
            return "the hop from the client to its broker is not secure; attach over chordals://"
        if not self._plans.by_destination:
            return UNSURE
        problem, is_connected = self._to_destinations(head)
        if problem is not None or is_connected or self._plans.arcs.is_empty:
            return problem
        if self._deliveries.serves(head.matter):
            return None
        return "no all-secure path from this broker to any other"

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _to_destinations(self, head: Head) -> tuple[str | None, bool]:
        """Return what is in the way to those who want it, and whether anybody is reached."""
        cluster = self._cluster
        reached = cluster.tables[LinkClass.SECURE].reached
        wanted = self._mask_of(head.matter)
        wanted &= ~self._plans.own_bit
        beyond = wanted & ~reached | self._groups_beyond(head, reached)
        missing = [cluster.uids[slot] for slot in bits(beyond) if slot in cluster.uids]
        if not missing and (problem := self._beyond_units(wanted, reached)) is not None:
            return problem, bool(reached)
        if not missing:
            return None, bool(reached)
        places = {uid: place for place, uid in cluster.places.items()}
        names = [f"{short(uid)} (ring id {places.get(uid)})" for uid in missing[:MAX_NAMED]]
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        return f"no all-secure path to broker {', '.join(names)}{more}", bool(reached)

    def _beyond_units(self, wanted: int, reached: int) -> str | None:
        """Return why an event does not get to all in other units who want it, or None."""
        healths, address = self._healths, self._cluster.address
        if healths is None or address is None:
            return None
        units = wanted & ~ALL_SLOTS & ~healths.unknown
        for beyond, problem in (
            (units & ~reached, "no all-secure path to unit {}"),
            (
                units & healths.in_health(SecureHealth.BROKEN),
                "in unit {} not all that want it reach each other over secure links",
            ),
        ):
            if beyond:
                names = [name_of(node, unpack_address(address)) for node in bits(beyond)]
                more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
                return problem.format(", ".join(names[:MAX_NAMED]) + more)
        return None

    def _groups_beyond(self, head: Head, reached: int) -> int:
        """Return the brokers of queue groups of which none is reached, as a mask."""
        here = reached | self._plans.own_bit
        beyond = 0
        for group in self._choosing.of(head.matter):
            mask = self._choosing.mask(LinkClass.SECURE, group.key, head.realm)
            beyond |= 0 if mask & here else mask
        return beyond
