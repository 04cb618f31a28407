"""The part of a broker's machine that knows which brokers secure events can reach.

It keeps the graph of secure links (:mod:`ges.topology.secure_graph`), floods what is news in it,
this broker's own list among that, takes out of it who is gone, and puts right what is false
(:mod:`ges.topology.secure_graph_repair`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from ges.telling.part import MessageHandler, Part, RingView
from ges.topology.revocation_lists import NoticeTaken, Outcome
from ges.topology.secure_graph import SecureGraph
from ges.topology.secure_graph_repair import Place, SecureGraphRepair
from ges.wire.broker_messages import SecureState, SecureStatesWanted
from overlay.ids import Nanos, Peer
from overlay.machine import (
    CloseLink,
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    Send,
)
from overlay.multigraph.weights import LinkKey
from ring.facts import Confirmed, Departed, NeighboursChanged


class SecurePart(Part):
    """The graph of secure links of one broker, and how it is kept true."""

    def __init__(
        self,
        ring: RingView,
        normal: Mapping[str, Peer],
        secure: Set[str],
        is_revoked: Callable[[str], bool],
        carries: Callable[[str], bool] = lambda uid: True,
    ) -> None:
        """``carries``: whether events may take the link to a broker.

        ``normal`` and ``secure``: uids at the other end of those links, as they are now."""
        self.graph = SecureGraph(ring.peer.uid, is_revoked)
        self._repair = SecureGraphRepair(self.graph, ring.peer.uid)
        self._ring = ring
        self._normal = normal
        self._secure = secure
        self._carries = carries

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Lists of secure links, and questions for them."""
        return {SecureState: self._on_state, SecureStatesWanted: self._on_wanted}

    def greet(self, uid: str) -> list[Effect]:
        """Tell all lists."""
        return [Send(uid, state) for state in self.graph.states]

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Expect no answer from a broker that is linked no more."""
        if isinstance(event, LinkDown) and event.link_class.is_base:
            self._repair.unlinked(event.uid)
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Expect no answer from a broker that is linked no more."""
        self._repair.unlinked(close.uid)
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """Take those out of the graph whom a fact shows to be gone, or to count no more."""
        match fact:
            case Confirmed(gone):
                return self._withdraw(gone.uid, gone.incarnation)
            case Departed(gone):
                return self._withdraw(gone.uid, gone.incarnation, but=gone.uid)
            case NeighboursChanged(_, right) if right and (member := self._ring.member) is not None:
                nobody = self.graph.withdraw_between(member.ring_id, right[0].ring_id)
                return self._flood_all(nobody)
            case NoticeTaken(Outcome.NEWS):
                self.graph.reckon()
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Contradict lists of nobody, and ask for those that were left out."""
        nobody, questions = self._repair.handle_timers(now, self._place())
        return [*self._flood_all(nobody), *questions]

    def next_deadline(self) -> Nanos | None:
        """Return when a list is to be looked at, or neighbours are to be asked; or None."""
        return self._repair.next_deadline()

    def settle(self, now: Nanos) -> list[Effect]:
        """Tell all neighbours if this broker's own list has changed."""
        ring, member = self._ring, self._ring.member
        if not ring.peer.secure or member is None:
            return []
        around = {m.uid for m in (*ring.left, *ring.right)}
        secure = {uid for uid in self._secure if self._carries(uid)}
        own = self.graph.own(
            ring.peer.incarnation,
            member.ring_id,
            tuple(secure),
            complete=around <= secure,
        )
        return self._flood(own) if own is not None else []

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_state(self, key: LinkKey, state: SecureState, now: Nanos) -> list[Effect]:
        is_news = self._repair.learn(state, now)
        return self._flood(state, but=key[0]) if is_news else []

    def _on_wanted(self, key: LinkKey, wanted: SecureStatesWanted, now: Nanos) -> list[Effect]:
        return [*self._repair.on_wanted(key[0], wanted, now)]

    def _withdraw(self, uid: str, incarnation: int, but: str | None = None) -> list[Effect]:
        state = self.graph.withdraw(uid, incarnation)
        return self._flood(state, but) if state is not None else []

    def _place(self) -> Place | None:
        member, right = self._ring.member, self._ring.right
        if member is None:
            return None
        return Place(member.ring_id, right[0].ring_id if right else None, self._normal)

    def _flood_all(self, states: list[SecureState]) -> list[Effect]:
        return [effect for state in states for effect in self._flood(state)]

    def _flood(self, state: SecureState, but: str | None = None) -> list[Effect]:
        # To the one it is about as well: only that one can say that it is not true.
        return [Send(uid, state) for uid in self._normal if uid != but]
