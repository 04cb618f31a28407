"""Which links of this broker count, and what it tells the other members of them.

For example, this broker was linked to a ring neighbour, and tells so at once; to another broker,
and tells so when the link has lasted for 5 s (:mod:`ges.gateways.lasting`). A link counts no more
as soon as the ring has found that it has failed, though the ring goes round it. Links that carry no
events (:mod:`ges.topology.declared_links`) are told to nobody.

Changes of who is linked are told within 50 ms. Changes of cost alone are told every 8 s at most, or
every second where a cost differs much from what was told. A cost that has risen much has to be what
the latest measurements agree on: one measurement may have met a process that the scheduler ran
late, and on a busy host there is always one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ges.gateways.costs import bucket_of
from ges.gateways.gates import GateKey, Gates
from ges.gateways.lasting import Lasting
from ges.gateways.link_state import LinkStates
from ges.gateways.naming import Naming
from ges.topology.declared_links import DeclaredLinks
from ges.topology.survey import Survey
from ges.units.units_part import UnitsPart
from ges.units.view import LinkedRing
from ges.wire.gateway_messages import LinkState, StateLink
from overlay.ids import LinkClass, Nanos, nanos
from overlay.multigraph.weights import LinkKey

UNMEASURED_NS = nanos(0.002)  #: cost of a link that is not measured yet
GATHER_NS = nanos(0.05)  #: between two states told of who is linked ...
COST_NS = nanos(8.0)  #: ... and of costs alone ...
MUCH_NS = nanos(1.0)  #: ... but where one has changed much
MUCH = 3  #: buckets: a link costs 3.4 times as much as before, or as little
AGREE_NS = nanos(0.5)  #: so often is looked whether measurements agree that a cost has risen

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


class OwnLinks:
    """The links of one broker, as it tells of them."""

    def __init__(
        self,
        ring: LinkedRing,
        units: UnitsPart,
        survey: Survey,
        up: Mapping[LinkClass, set[str]],
        declared: DeclaredLinks,
        is_revoked: Callable[[str], bool],
        naming: Naming,
        states: LinkStates,
        *,
        level_costs: bool,
    ) -> None:
        """``naming`` and ``states`` are those of the gateways; they have the rest from theirs.

        See :class:`ges.gateways.gateways_part.GatewaysPart`.
        """
        self.gates = Gates()  #: the links to other units
        self.look_at: Nanos | None = None  #: when others count, or costs are to be seen
        self._ring = ring
        self._units = units
        self._survey = survey
        self._up = up
        self._declared = declared
        self._is_revoked = is_revoked
        self._naming = naming
        self._states = states
        self._level_costs = level_costs
        self._lasting = Lasting()
        self._counting: set[str] = set()  #: who is linked and counts, by uid
        self._is_again = False  #: the state is to be told even if it is known
        self._told_at: Nanos | None = None
        self._told: dict[LinkKey | GateKey, int] = {}  #: the bucket of each link and gate

    def tell_anew(self, *, even_if_known: bool = False) -> None:
        """Others have forgotten what was told, or know of an earlier life: let nothing wait."""
        self._is_again |= even_if_known
        self._told_at = None

    def look(self, now: Nanos) -> Mapping[LinkClass, int]:
        """See who is linked and counts.

        Returns by class the units to which events take another link than before, as a mask.
        """
        self.look_at = now + COST_NS
        self._counting = self._seen(now)
        return self.gates.update(self._beyond(), self._bucket, self._lasting.fresh)

    def news(self, slot: int, now: Nanos) -> LinkState | None:
        """Return what all members are to be told of what was seen; None: nothing, or not yet.

        ``slot``: of this broker.
        """
        members = self._counting & self._naming.slots.keys()
        keys = [(uid, each) for uid in members for each in self._classes(uid)]
        links = [StateLink(*key, self._bucket(key, self._states.bucket_told(key))) for key in keys]
        buckets: dict[LinkKey | GateKey, int] = {
            **{(link.uid, link.link_class): link.bucket for link in links},
            **{(gate.node, gate.link_class): gate.bucket for gate in self.gates.told},
        }
        if self._told_at is not None:
            pause = self._pause(buckets, now)
            if now < self._told_at + pause:
                self._look_by(self._told_at + pause)
                return None
        state = self._states.own(
            slot,
            self._ring.peer.incarnation,
            links,
            self.gates.told,
            again=self._is_again,
        )
        self._is_again = False
        self._told = buckets
        if state is not None:
            self._told_at = now
        return state

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _seen(self, now: Nanos) -> set[str]:
        """Return who is linked and counts; those that will are looked at then."""
        ring, units = self._ring, self._units

        def is_kept(uid: str) -> bool:
            is_lost = (uid, NORMAL) in self._told and uid not in ring.linked
            return is_lost and uid in self._naming.slots and not units.is_gone(uid)

        declared = self._declared
        near = declared.named | {m.uid for m in (*ring.left, *ring.right)}
        linked = {uid for uid, m in ring.linked.items() if declared.carries(m.peer)}
        counting = self._lasting.look(linked, near, now, is_kept)
        if self._lasting.look_at is not None:
            self._look_by(self._lasting.look_at)
        return counting

    def _classes(self, uid: str) -> Iterator[LinkClass]:
        """Yield the classes of links to a broker that count, where the normal one does."""
        yield NORMAL
        for link_class, up in self._up.items():
            if uid not in up or self._is_revoked(uid):
                continue
            if not link_class.is_timed or self._survey.is_express(uid):
                yield link_class

    def _beyond(self) -> Iterator[tuple[int, LinkKey]]:
        """Yield the links to brokers of other units, each with the node at its other end."""
        nodes, linked = self._naming.nodes, self._ring.linked
        for uid in self._counting - self._naming.slots.keys() if nodes.arcs else ():
            member = linked.get(uid)
            node = nodes.at(member.ring_id) if member is not None else None
            if node is not None:
                for link_class in self._classes(uid):
                    yield node, (uid, link_class)

    def _pause(self, buckets: Mapping[LinkKey | GateKey, int], now: Nanos) -> Nanos:
        """Return how long after the last state another one may be told."""
        if buckets.keys() != self._told.keys():
            return GATHER_NS
        for key, bucket in buckets.items():
            told, uid = self._told[key], key[0]
            if abs(bucket - told) < MUCH or not isinstance(uid, str):
                continue
            agreed = self._survey.agreed_cost_ns((uid, key[1]), now)
            if bucket < told or (agreed is not None and bucket_of(agreed) - told >= MUCH):
                return MUCH_NS
            self._look_by(now + AGREE_NS)
        return COST_NS

    def _look_by(self, at: Nanos) -> None:
        self.look_at = at if self.look_at is None else min(self.look_at, at)

    def _bucket(self, key: LinkKey, held: int | None) -> int:
        """Return the bucket of what a link costs, which is ``held`` while it wavers."""
        if self._level_costs:
            return 0
        cost = self._survey.cost_ns(key)
        if cost is None and key[1].is_secret:  # beside the normal one, and much like it
            cost = self._survey.cost_ns((key[0], NORMAL))
        if cost is None and held is not None:
            return held
        return bucket_of(cost if cost is not None else UNMEASURED_NS, held)
