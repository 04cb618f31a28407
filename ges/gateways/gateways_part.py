"""The part of a broker's machine that knows the links of its cluster, and the next hops.

Each member tells all others which members it is linked to, over links of which class, and what the
links cost (:mod:`ges.gateways.link_state`). All hold the same table then, and compute the same
paths. For example, a link between brokers 3 and 7 becomes dearer: 3 tells all members, and each of
them computes its next hops anew.

A link to a broker of another cluster is a *gate* to the unit in which that one is, as far as this
broker can name it (:mod:`ges.units.nodes`). Members tell of their gates as of their links. How
other units are linked with each other is in their statements (:mod:`ges.statements`).

Which links count, and when they are told, says :mod:`ges.gateways.own_links`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Protocol

from ges.gateways.connections import believed
from ges.gateways.doubt import Doubt
from ges.gateways.graph import Graph, cluster_links, gate_links, outer_links
from ges.gateways.link_state import LinkStates
from ges.gateways.naming import Naming
from ges.gateways.next_hops import Moves, NextHops, bits
from ges.gateways.own_links import OwnLinks
from ges.telling.changes import Change, Changes
from ges.telling.part import Part
from ges.telling.post import Post
from ges.telling.shared import SharedTable
from ges.topology.declared_links import DeclaredLinks
from ges.topology.survey import Survey
from ges.units.address import LEVELS
from ges.units.nodes import name_of
from ges.units.units_part import UnitsPart
from ges.units.view import LinkedRing
from ges.wire.gateway_messages import LinkState
from ges.wire.statement_messages import UnitEdge
from ges.wire.telling_messages import Kind
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import (
    Effect,
)

COMPUTE_NS = nanos(0.002)  #: news of other members' links are reckoned with together after this ...
OUTER_NS = nanos(0.05)  #: ... and those of the links between other units after this

ALL_NODES = 2**256 - 1
#: After these this broker sees which of its links count, and tells of them.
_OF_LINKS = frozenset((Change.LINKS, Change.FACTS, Change.CARRIERS, Change.COSTS))
NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


class OuterEdges(Protocol):
    """The links between other units; a :class:`ges.statements.held.Statements`."""

    @property
    def edges(self) -> Iterator[tuple[int, UnitEdge]]:
        """Each link, with the node that has told of it."""

    @property
    def unknown(self) -> int:
        """Units of which nothing is known, as a mask."""

    @property
    def is_crowded(self) -> bool:
        """In another unit brokers wait for slots."""


class GatewaysPart(Part):
    """The links of the cluster, as one broker knows them."""

    def __init__(
        self,
        ring: LinkedRing,
        units: UnitsPart,
        survey: Survey,
        post: Post,
        up: Mapping[LinkClass, set[str]],
        outer: OuterEdges,
        declared: DeclaredLinks,
        changes: Changes,
        is_revoked: Callable[[str], bool] = lambda uid: False,
        *,
        level_costs: bool = False,
    ) -> None:
        """``up``: uids at the other end of secure and express links, as they are now.

        ``outer``: what other units have said of their links; ``declared``: which links carry
        events: all others are in no graph.

        ``level_costs``: a link costs by the levels that it joins, and by the hop, alone.

        ``is_revoked``: links of brokers that count no more are in no graph.
        """
        self.counters: Counter[str] = Counter()
        #: Next hops by class, for a broker with a slot; else of nobody.
        self.tables: dict[LinkClass, NextHops] = {}
        self.version = 0  #: grows when next hops or members change
        self._ring = ring
        self._units = units
        self._changes = changes
        self._survey = survey
        self.states = LinkStates(ring.peer.uid)
        self._outer = outer
        self._is_crowded = False
        self._naming = Naming()
        self.doubt = Doubt()  #: how long events could not name whom they are for
        self._own_links = OwnLinks(
            ring,
            units,
            survey,
            up,
            declared,
            is_revoked,
            self._naming,
            self.states,
            level_costs=level_costs,
        )
        self._moves: dict[LinkClass, Moves] = {}
        self._is_touched = False  #: links or members have changed
        self._is_stale = False  #: the graphs are to be made anew
        self._computed_at: Nanos | None = None  #: when that was done last
        self._news_due: Nanos | None = None  #: when it is to be done for news of others
        self._shared = SharedTable(
            units.sharing, Kind.LINK_STATES, LinkState, self.states.table, self._learn, post.send
        )

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none, or is not on the ring."""
        return self._naming.slot

    @property
    def is_for_all(self) -> bool:
        """Events that are published here can name whom they are for: all of the overlay.

        While brokers wait for slots, in this cluster or in another unit, events go to all. So they
        do while units are split or folded, until all brokers hold the new tables.
        """
        if self._naming.slot is None or not self._naming.is_sure or self._units.is_crowded:
            return False
        return self._units.is_single or (self._naming.nodes.is_known and not self._is_crowded)

    @property
    def is_at_rest(self) -> bool:
        """Units have not changed of late."""
        return self._naming.rest_at is None

    @property
    def slots(self) -> Mapping[str, int]:
        """The slots of the members, by uid."""
        return self._naming.slots

    @property
    def uids(self) -> Mapping[int, str]:
        """The members, by slot."""
        return self._naming.uids

    @property
    def places(self) -> Mapping[int, str]:
        """The members, by ring id."""
        return self._naming.places

    @property
    def known(self) -> int:
        """The members and the units that an event can be for, as a mask."""
        return self._naming.known

    @property
    def own(self) -> int:
        """This broker and the units that it is in, as a mask."""
        return self._naming.own

    @property
    def own_units(self) -> int:
        """The units that this broker is in, as a mask."""
        return self._naming.own_units

    @property
    def namings(self) -> int:
        """A number that grows when destinations are named otherwise than before."""
        return self._naming.changes

    @property
    def levels(self) -> int:
        """How many levels of destinations there are: 1, or all."""
        return LEVELS if self._naming.nodes.arcs else 1

    @property
    def address(self) -> int | None:
        """This broker's packed address."""
        address = self._units.address
        return address.packed if address is not None else None

    @property
    def without_way(self) -> tuple[str, ...]:
        """Members and other units to which no path leads for normal events, as printed."""
        table, address = self.tables.get(NORMAL), self._units.address
        if table is None or address is None:
            return ()
        beyond = self.known & ~self.own & ~table.reached
        return tuple(name_of(node, address) for node in bits(beyond))

    def own_at(self, level: int) -> int | None:
        """Return the node of this broker's own unit of a level, as others see it."""
        return self._naming.nodes.own.get(level)

    def gate(self, node: int, link_class: LinkClass, without: str = "") -> str | None:
        """Return the uid of the broker of another unit to whom events for it go from here.

        Express events go to one with a normal link where there is no express one.
        """
        found = self._own_links.gates.first(node, link_class, without)
        if found is None and link_class.is_timed:
            return self._own_links.gates.first(node, NORMAL, without)
        return found

    def now_at(self, slots: int) -> int:
        """Return the units in which those stand now that had these slots, as a mask."""
        return self._naming.now_at(slots)

    def toward(self, address: int) -> int:
        """Return the node at which a packed address lies, as a mask; 0: here, or unknown."""
        return self._naming.nodes.towards(address, self._naming.slot)

    def node_at(self, place: int) -> int | None:
        """Return the other unit in which a ring id lies; None: this cluster, or unknown."""
        return self._naming.nodes.at(place)

    def common_level(self, place: int) -> int:
        """Return the level of the smallest unit in which both this broker and a ring id are."""
        return self._naming.nodes.common_level(place)

    def take_moves(self) -> Mapping[LinkClass, Moves]:
        """Return, once, what has moved to other next hops."""
        moves, self._moves = self._moves, {}
        return moves

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """See what links cost by now."""
        look_at, due = self._own_links.look_at, self.next_deadline()
        if look_at is not None and look_at <= now:
            self._is_touched = True
        if due is not None and due <= now:
            self._changes.mark(Change.DUE)
        self._naming.expire(now, are_taken=self._units.are_taken)
        return []

    def next_deadline(self) -> Nanos | None:
        """Return when to see what links cost, or None."""
        deadlines = self._own_links.look_at, self._naming.rest_at, self._news_due
        return min((due for due in deadlines if due is not None), default=None)

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Tell of this broker's links, and compute the next hops."""
        effects: list[Effect] = []
        units, naming = self._units, self._naming
        if (
            Change.MEMBERS in changed
            or units.slot != naming.slot
            or units.nodes is not naming.nodes
        ):
            effects += self._follow_members(now)
        naming.expire(now, are_taken=units.are_taken)
        if Change.OUTER in changed:
            self._is_crowded = self._outer.is_crowded
            self._compute_by(now, OUTER_NS)
        if self._is_touched or changed & _OF_LINKS:
            self._is_touched = False
            effects += self._tell(now)
        if self._is_stale or (self._news_due is not None and self._news_due <= now):
            self._is_stale = False
            self._computed_at, self._news_due = now, None
            self._compute()
        is_on_ring = self._ring.member is not None
        self.doubt.note(is_unsure=not self.is_for_all if is_on_ring else None, now=now)
        return effects

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _follow_members(self, now: Nanos) -> list[Effect]:
        units, naming = self._units, self._naming
        before = naming.slot
        is_renamed = naming.follow(units.members, units.slot, units.nodes, now)
        self.states.follow(naming.slots)
        self._changes.mark(Change.STATES)
        own = naming.slot
        is_new = own is not None and before is None
        if own != before or not self.tables:
            self.tables = {each: NextHops(own if own is not None else 0) for each in LinkClass}
            is_renamed = True
        if is_renamed:
            self._moves = dict.fromkeys(LinkClass, Moves(ALL_NODES, ALL_NODES))
        self._is_touched = self._is_stale = True
        self.version += 1
        if not is_new:
            return []
        # Others have forgotten what this broker told in an earlier stay, and it lacks their states.
        self._own_links.tell_anew(even_if_known=True)
        near = [m.uid for m in (*self._ring.right[:1], *self._ring.left[:1])]
        return [e for uid in dict.fromkeys(near) for e in self._shared.ask(uid)]

    def _note(self, link_class: LinkClass, moves: Moves) -> None:
        before = self._moves.get(link_class, Moves())
        self._moves[link_class] = Moves(before.changed | moves.changed, before.onto | moves.onto)

    def _tell(self, now: Nanos) -> list[Effect]:
        own, slot = self._own_links, self._units.slot
        own.look_at = None
        if slot is None:
            return []
        changes = own.gates.changes
        for link_class, nodes in own.look(now).items():
            self._note(link_class, Moves(nodes, nodes))
        if own.gates.changes != changes:
            self.version += 1
        state = own.news(slot, now)
        if state is None:
            return []
        self._is_stale = True
        self._changes.mark(Change.STATES)
        self.counters["link_states_told"] += 1
        return self._shared.tell(state, now)

    def _compute_by(self, now: Nanos, pause: Nanos) -> None:
        """Reckon with news, and with what comes until so long after the last time."""
        rested = now if self._computed_at is None else self._computed_at + pause
        due = max(now, rested)
        self._news_due = due if self._news_due is None else min(due, self._news_due)

    def _compute(self) -> None:
        if self._naming.slot is None:
            return
        normal = self._graph(NORMAL)
        changed = False
        for link_class, table in self.tables.items():
            fallback = normal if link_class.is_timed else None
            graph = normal if link_class.is_base else self._graph(link_class)
            moves = table.update(graph, fallback)
            if moves.changed or moves.onto:
                changed = True
                self._note(link_class, moves)
        if changed:
            self.counters["next_hops_changed"] += 1
            self.version += 1

    def _graph(self, link_class: LinkClass) -> Graph:
        links = [*cluster_links(self.states, self._naming.slots, link_class)]
        others = self._naming.nodes.others
        if others:
            links += gate_links(self.states, self._naming.slots, others, link_class)
            edges = believed(
                self._outer.edges, self._outer.unknown, self._naming.nodes.own, self._gated
            )
            links += outer_links((e for e in edges if e[1].link_class is link_class), others)
        return Graph(links)

    @property
    def _gated(self) -> int:
        """The units to which members of the cluster have links, as a mask."""
        found = 0
        for uid in self._naming.slots:
            state = self.states.get(uid)
            for gate in state.gates if state is not None else ():
                found |= 1 << gate.node
        return found

    def _learn(self, state: LinkState, before: LinkState | None, now: Nanos) -> None:
        # A cluster that forms hears of 63 others within milliseconds.
        self._compute_by(now, COMPUTE_NS)
        self._changes.mark(Change.STATES)
        self._changes.mark(Change.DUE)
        if state.origin == self._ring.peer.uid:
            self._is_touched = True  # of an earlier life: told anew
            self._own_links.tell_anew()
