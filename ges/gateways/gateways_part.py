"""The part of a broker's machine that knows the links of its cluster, and the next hops.

Each member tells all others which members it is linked to, over links of which class, and what the
links cost (:mod:`ges.gateways.link_state`). All hold the same table then, and compute the same
paths. For example, a link between brokers 3 and 7 becomes dearer: 3 tells all members, and each of
them computes its next hops anew.

A link to a broker of another cluster is a *gate* to the unit in which that one is, as far as this
broker can name it (:mod:`ges.units.nodes`). Members tell of their gates as of their links. How
other units are linked with each other is in their statements (:mod:`ges.statements`).

A link counts as there for 0.4 s after it was lost, and while the ring goes round it, so that paths
do not move for a link that is back in a moment. Links to ring neighbours count at once, others when
they have lasted for 5 s: a broker that seeks a chord is linked to many for a moment. Changes of who
is linked are told within 50 ms, changes of cost alone every 8 s at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from ges.gateways.costs import bucket_of
from ges.gateways.graph import Graph, cluster_links, gate_links, outer_links
from ges.gateways.link_state import LinkStates
from ges.gateways.next_hops import Moves, NextHops
from ges.topology.part import MessageHandler, Part
from ges.topology.survey import Survey
from ges.units.address import LEVELS
from ges.units.nodes import Nodes
from ges.units.post import Post
from ges.units.units_part import UnitsPart
from ges.units.view import LinkedRing
from ges.wire.gateway_messages import (
    LinkState,
    LinkStatesWanted,
    StateGate,
    StateLink,
    StateVersion,
)
from ges.wire.statement_messages import UnitEdge
from ges.wire.unit_messages import Kind
from overlay.circular import is_after
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import (
    CloseLink,
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
)
from overlay.multigraph.weights import LinkKey

UNMEASURED_NS = nanos(0.002)  #: cost of a link that is not measured yet
GATHER_NS = nanos(0.05)  #: between two states told of who is linked ...
COST_NS = nanos(8.0)  #: ... and of costs alone
LASTED_NS = nanos(5.0)  #: a link to a broker that is no ring neighbour counts after so long
GRACE_NS = nanos(0.4)  #: a link that was lost counts for so long, unless its other end is dead
PULL_NS = nanos(0.3)  #: between two questions for states
REST_NS = nanos(5.0)  #: so long after units have changed events name them

ALL_NODES = 2**256 - 1
NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


class OuterEdges(Protocol):
    """The links between other units; a :class:`ges.statements.held.Statements`."""

    @property
    def edges(self) -> Iterator[tuple[int, UnitEdge]]:
        """Each link, with the node that has told of it."""

    @property
    def changes(self) -> int:
        """A number that grows when they change."""


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
        is_revoked: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        """``up``: uids at the other end of secure and express links, as they are now.

        ``outer``: what other units have said of their links.

        ``is_revoked``: links of brokers that count no more are in no graph.
        """
        self.counters: Counter[str] = Counter()
        #: Next hops by class, for a broker with a slot; else of nobody.
        self.tables: dict[LinkClass, NextHops] = {}
        self.version = 0  #: grows when next hops or members change
        self._ring = ring
        self._units = units
        self._survey = survey
        self._post = post
        self._up = up
        self._is_revoked = is_revoked
        self.states = self._states = LinkStates(ring.peer.uid)
        self._outer = outer
        self._nodes = Nodes()
        self._rest_at: Nanos | None = None  #: units have changed; then all know of it
        self.namings = 0  #: grows when destinations are named otherwise than before
        self._moved: dict[int, int] = {}  #: slots of those who are members of another cluster now
        self._outer_changes = 0  #: of statements
        self._gates: dict[LinkKey, list[str]] = {}  #: by node, as text, and class: uids, best first
        self._slot: int | None = None
        self._slots: dict[str, int] = {}
        self._uids: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._moves: dict[LinkClass, Moves] = {}
        self._is_touched = False  #: links or members have changed
        self._is_again = False  #: this broker's own state is to be told even if it is known
        self._is_stale = False  #: the graphs are to be made anew
        self._members_changes = 0
        self._told_at: Nanos | None = None
        self._told_links: frozenset[LinkKey] = frozenset()
        self._look_at: Nanos | None = None
        self._since: dict[str, Nanos] = {}  #: who is linked, and since when
        self._lost: dict[str, Nanos] = {}  #: who was linked just now, and until when
        self._pulled_at: Nanos | None = None
        units.spread.register(Kind.LINK_STATES, LinkState, self._on_told)
        units.comparison.register(Kind.LINK_STATES, self)

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def slot(self) -> int | None:
        """The slot of this broker; None: it has none, or is not on the ring."""
        return self._slot

    @property
    def is_for_all(self) -> bool:
        """Events that are published here can name whom they are for: all of the overlay.

        Where all are one cluster, each has a slot. Else those that wait for one get it at once.
        While units are split or folded, and for a while after, events go to all.
        """
        if self._slot is None or self._rest_at is not None:
            return False
        return self._units.is_for_all if self._units.is_single else self._nodes.is_known

    @property
    def is_at_rest(self) -> bool:
        """Units have not changed of late."""
        return self._rest_at is None

    @property
    def slots(self) -> Mapping[str, int]:
        """The slots of the members, by uid."""
        return self._slots

    @property
    def uids(self) -> Mapping[int, str]:
        """The members, by slot."""
        return self._uids

    @property
    def places(self) -> Mapping[int, str]:
        """The members, by ring id."""
        return self._places

    @property
    def digest(self) -> int:
        """63 bits that are equal where two members hold the same states of all members."""
        return self._states.digest_of(self._slots)

    @property
    def known(self) -> int:
        """The members and the units that an event can be for, as a mask."""
        return sum(1 << slot for slot in self._uids) | self._nodes.others

    @property
    def own(self) -> int:
        """This broker and the units that it is in, as a mask."""
        here = 1 << self._slot if self._slot is not None else 0
        return here | self._nodes.own_units

    @property
    def own_units(self) -> int:
        """The units that this broker is in, as a mask."""
        return self._nodes.own_units

    @property
    def levels(self) -> int:
        """How many levels of destinations there are: 1, or all."""
        return LEVELS if self._nodes.arcs else 1

    def own_at(self, level: int) -> int | None:
        """Return the node of this broker's own unit of a level, as others see it."""
        return self._nodes.own.get(level)

    def gate(self, node: int, link_class: LinkClass, without: str = "") -> str | None:
        """Return the uid of the broker of another unit to whom events for it go from here."""
        found = self._gates.get((f"{node}", link_class), ())
        return next((uid for uid in found if uid != without), None)

    def now_at(self, slots: int) -> int:
        """Return the units in which those stand now that had these slots, as a mask."""
        found = 0
        for slot, node in self._moved.items():
            if slots >> slot & 1:
                found |= 1 << node
        return found

    def toward(self, address: int) -> int:
        """Return the node at which a packed address lies, as a mask; 0: here, or unknown."""
        return self._nodes.towards(address, self._slot)

    @property
    def address(self) -> int | None:
        """This broker's packed address."""
        address = self._units.address
        return address.packed if address is not None else None

    def take_moves(self) -> Mapping[LinkClass, Moves]:
        """Return, once, what has moved to other next hops."""
        moves, self._moves = self._moves, {}
        return moves

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """States that were asked for, and questions for them."""
        return {LinkState: self._on_state, LinkStatesWanted: self._on_wanted}

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Somebody is linked, or no more."""
        self._is_touched = True
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Somebody is linked no more."""
        self._is_touched = True
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """The ring has found something: others may be linked."""
        self._is_touched = True
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """See what links cost by now."""
        if self._look_at is not None and self._look_at <= now:
            self._is_touched = True
        if self._rest_at is not None and self._rest_at <= now:
            self._rest_at = None
        return []

    def next_deadline(self) -> Nanos | None:
        """Return when to see what links cost, or None."""
        if self._look_at is None or self._rest_at is None:
            return self._look_at if self._rest_at is None else self._rest_at
        return min(self._look_at, self._rest_at)

    def settle(self, now: Nanos) -> list[Effect]:
        """Tell of this broker's links, and compute the next hops."""
        effects: list[Effect] = []
        units = self._units
        if (
            units.changes != self._members_changes
            or units.slot != self._slot
            or units.nodes is not self._nodes
        ):
            effects += self._follow_members(now)
        if self._outer.changes != self._outer_changes:
            self._outer_changes, self._is_stale = self._outer.changes, True
        if self._is_touched:
            self._is_touched = False
            effects += self._tell(now)
        if self._is_stale:
            self._is_stale = False
            self._compute()
        return effects

    def on_differs(self, uid: str, now: Nanos) -> list[Effect]:
        """Another member holds other states: ask for those that are later."""
        if self._pulled_at is not None and now < self._pulled_at + PULL_NS:
            return []
        self._pulled_at = now
        return self._post.send(uid, self._question())

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _follow_members(self, now: Nanos) -> list[Effect]:
        units = self._units
        slots = {uid: row.slot for uid, row in units.members.items()}
        if self._nodes is not units.nodes or any(
            slots.get(uid, slot) != slot for uid, slot in self._slots.items()
        ):
            self.namings += 1
            if self._nodes.arcs or units.nodes.arcs:
                self._rest_at = now + REST_NS
            self._moves = dict.fromkeys(LinkClass, Moves(ALL_NODES, ALL_NODES))
        self._members_changes, self._nodes = units.changes, units.nodes
        for place, uid in self._places.items():
            node = self._nodes.at(place)
            if node is not None and uid not in units.members:
                self._moved[self._slots[uid]] = node
        self._slots = slots
        self._uids = {slot: uid for uid, slot in self._slots.items()}
        self._moved = {
            slot: node
            for slot, node in self._moved.items()
            if slot not in self._uids and self._nodes.others >> node & 1
        }
        self._places = {row.member.ring_id: uid for uid, row in units.members.items()}
        for state in self._states.states:
            if state.origin not in self._slots and units.has_rested(state.origin):
                self._states.forget(state.origin)
        own = units.slot
        is_new = own is not None and self._slot is None
        if own != self._slot or not self.tables:
            self._slot = own
            self.tables = {each: NextHops(own if own is not None else 0) for each in LinkClass}
            self._moves = dict.fromkeys(LinkClass, Moves(ALL_NODES, ALL_NODES))
        self._is_touched = self._is_stale = True
        self.version += 1
        if not is_new:
            return []
        # Others have forgotten what this broker told in an earlier stay, and it lacks their states.
        self._is_again, self._told_at = True, None
        near = [m.uid for m in (*self._ring.right[:1], *self._ring.left[:1])]
        return [e for uid in dict.fromkeys(near) for e in self._post.send(uid, self._question())]

    def _lasting(self, now: Nanos) -> set[str]:
        """Return who is linked and counts; those that will are looked at then."""
        ring, since = self._ring, self._since
        near = {m.uid for m in (*ring.left, *ring.right)}
        linked = ring.linked
        self._lost = {
            uid: self._lost.get(uid, now)
            for uid in since
            if uid not in linked
            and (uid, NORMAL) in self._told_links
            and uid in self._slots
            and now < self._lost.get(uid, now) + GRACE_NS
            and not self._units.is_gone(uid)
        }
        here = [*linked, *self._lost]  # it may be back in a moment
        self._since = {uid: since.get(uid, now) for uid in here}
        lasting = set(self._lost)
        for lost_at in self._lost.values():
            self._look_by(lost_at + GRACE_NS)
        for uid, begun in self._since.items():
            if uid in near or now >= begun + LASTED_NS:
                lasting.add(uid)
            else:
                self._look_by(begun + LASTED_NS)
        return lasting

    def _links(self, now: Nanos) -> Iterator[tuple[str, LinkClass]]:
        slots, lasting = self._slots, self._lasting(now)
        for uid in lasting:
            if uid in slots:
                yield uid, NORMAL
        for link_class, up in self._up.items():
            for uid in up & lasting:
                if uid in slots and not self._is_revoked(uid):
                    if link_class is EXPRESS and not self._survey.is_express(uid):
                        continue
                    yield uid, link_class

    def _find_gates(self, now: Nanos) -> dict[tuple[int, LinkClass], list[StateLink]]:
        """Return the links to other units, the cheapest first."""
        found: dict[tuple[int, LinkClass], list[StateLink]] = {}
        if not self._nodes.arcs:
            return found
        ring = self._ring
        for uid in self._lasting(now) - self._slots.keys():
            member = ring.linked.get(uid)
            node = self._nodes.at(member.ring_id) if member is not None else None
            if node is None:
                continue
            for link_class in (NORMAL, *self._up):
                if link_class is not NORMAL and (
                    uid not in self._up[link_class] or self._is_revoked(uid)
                ):
                    continue
                if link_class is EXPRESS and not self._survey.is_express(uid):
                    continue
                link = self._link((uid, link_class))
                found.setdefault((node, link_class), []).append(link)
        for links in found.values():
            links.sort(key=lambda link: (link.bucket, link.uid))
        return found

    def _set_gates(self, found: Mapping[tuple[int, LinkClass], list[StateLink]]) -> None:
        """Events for other units go over these from now on; note what has moved."""
        gates = {
            (f"{node}", link_class): [link.uid for link in links]
            for (node, link_class), links in found.items()
        }
        for node, link_class in found:
            key = f"{node}", link_class
            if gates[key][0] != (self._gates.get(key) or [""])[0]:
                before = self._moves.get(link_class, Moves())
                onto = before.onto | 1 << node
                self._moves[link_class] = Moves(before.changed | 1 << node, onto)
        if gates != self._gates:
            self._gates = gates
            self.version += 1

    def _tell(self, now: Nanos) -> list[Effect]:
        self._look_at = None
        slot = self._units.slot
        if slot is None:
            return []
        self._look_at = now + COST_NS
        found = self._find_gates(now)
        self._set_gates(found)
        gates = frozenset((f"{node}", link_class) for node, link_class in found)
        keys = gates.union(self._links(now))
        if self._told_at is not None:
            pause = GATHER_NS if keys != self._told_links else COST_NS
            if now < self._told_at + pause:
                self._look_by(self._told_at + pause)
                return []
        state = self._states.own(
            slot,
            self._ring.peer.incarnation,
            (self._link(key) for key in keys - gates),
            (
                StateGate(node, link_class, links[0].bucket, min(len(links), 2**16))
                for (node, link_class), links in found.items()
            ),
            again=self._is_again,
        )
        self._is_again = False
        self._told_links = keys
        if state is None:
            return []
        self._told_at = now
        self._is_stale = True
        self._units.comparison.touch(now)
        self.counters["link_states_told"] += 1
        return self._units.spread.tell(Kind.LINK_STATES, state, now)

    def _look_by(self, at: Nanos) -> None:
        self._look_at = at if self._look_at is None else min(self._look_at, at)

    def _link(self, key: LinkKey) -> StateLink:
        cost = self._survey.cost_ns(key)
        if cost is None and key[1] is SECURE:  # beside the normal one, and much like it
            cost = self._survey.cost_ns((key[0], NORMAL))
        held = self._states.bucket_told(key)
        if cost is None and held is not None:
            return StateLink(key[0], key[1], held)
        return StateLink(*key, bucket_of(cost if cost is not None else UNMEASURED_NS, held))

    def _compute(self) -> None:
        if self._slot is None:
            return
        normal = self._graph(NORMAL)
        changed = False
        for link_class, table in self.tables.items():
            fallback = normal if link_class is EXPRESS else None
            graph = normal if link_class is NORMAL else self._graph(link_class)
            moves = table.update(graph, fallback)
            if moves.changed or moves.onto:
                changed = True
                before = self._moves.get(link_class, Moves())
                self._moves[link_class] = Moves(
                    before.changed | moves.changed, before.onto | moves.onto
                )
        if changed:
            self.counters["next_hops_changed"] += 1
            self.version += 1

    def _graph(self, link_class: LinkClass) -> Graph:
        links = [*cluster_links(self._states, self._slots, link_class)]
        others = self._nodes.others
        if others:
            links += gate_links(self._states, self._slots, others, link_class)
            edges = self._outer.edges
            links += outer_links((e for e in edges if e[1].link_class is link_class), others)
        return Graph(links)

    def _on_told(self, state: LinkState, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        return True, self._learn(state, now)

    def _on_state(self, key: LinkKey, state: LinkState, now: Nanos) -> list[Effect]:
        return self._learn(state, now)

    def _learn(self, state: LinkState, now: Nanos) -> list[Effect]:
        if self._states.learn(state):
            self._is_stale = True
            if state.origin == self._ring.peer.uid:
                self._is_touched = True  # of an earlier life: told anew
                self._told_at = None
            self._units.comparison.touch(now)
        return []

    def _question(self) -> LinkStatesWanted:
        held = (
            StateVersion(state.origin, state.incarnation, state.version)
            for state in self._states.states
            if state.origin in self._slots
        )
        return LinkStatesWanted(tuple(held))

    def _on_wanted(self, key: LinkKey, wanted: LinkStatesWanted, now: Nanos) -> list[Effect]:
        held = {each.origin: (each.incarnation, each.version) for each in wanted.held}
        effects: list[Effect] = []
        is_behind = False
        for state in self._states.states:
            if state.origin not in self._slots:
                continue
            theirs = held.pop(state.origin, None)
            mine = (state.incarnation, state.version)
            if theirs is None or _is_later(mine, theirs):
                effects += self._post.send(key[0], state)
            elif _is_later(theirs, mine):
                is_behind = True
        if is_behind or any(origin in self._slots for origin in held):
            effects += self.on_differs(key[0], now)
        return effects


def _is_later(one: tuple[int, int], other: tuple[int, int]) -> bool:
    if one[0] != other[0]:
        return is_after(one[0], other[0])
    return is_after(one[1], other[1])
