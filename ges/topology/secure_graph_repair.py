"""Lists of secure links that are false, or found no room, and how that is put right.

Whoever is linked can tell of a broker that does not exist, and secure events are then refused for
its sake. But every broker knows best who stands from its own place to its right neighbour's: nobody
else. A list of somebody there that still stands after a while is contradicted (withdrawn), by this
one broker for all of them. Should it be wrong, the one concerned says so of itself.

Where there was no room for a list, nobody knows who is left out, and no secure event is taken. When
there is room again all neighbours are asked for their lists, and what they know is known here when
the last of them has answered. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ges.topology.secure_graph import SecureGraph
from ges.wire.broker_messages import SecureState, SecureStatesWanted
from overlay.ids import Nanos, nanos
from overlay.machine import Send, TimerTable
from ring.geometry import between

STANDS_NS = nanos(10)  #: a newcomer has become a neighbour of those around it by then
ASK_NS = nanos(10)  #: between two times that neighbours are asked
ANSWER_NS = nanos(5)  #: between two answers to one neighbour


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker stands, and whom it knows to be there."""

    here: int
    right: int | None  #: ring id of the right neighbour; None: it has none
    linked: Collection[str]  #: uids at the other end of normal links

    def is_mine(self, ring_id: int) -> bool:
        """Say whether nobody but this broker can stand there."""
        if self.right is None:
            return not self.linked  # with links, it may be about to find its neighbours
        return ring_id == self.here or between(self.here, ring_id, self.right)


class SecureGraphRepair:
    """What one broker does about lists that it cannot check."""

    def __init__(self, graph: SecureGraph, own_uid: str) -> None:
        self._graph = graph
        self._own_uid = own_uid
        self._standing: TimerTable[str] = TimerTable()  #: origins, when to look where they stand
        self._ask_at: Nanos | None = None
        self._unanswered: set[str] = set()  #: asked, and have not told all again yet
        self._answered: dict[str, Nanos] = {}  #: when neighbours that asked were told all again

    def learn(self, state: SecureState, now: Nanos) -> bool:
        """Take a list heard of; True if it was news, and is to be passed on."""
        left_out = self._graph.left_out
        was_news = self._graph.learn(state)
        if was_news and not state.withdrawn and state.origin != self._own_uid:
            self._standing.set(state.origin, now + STANDS_NS)
        elif self._graph.left_out > left_out:
            # If neighbours have been asked, that was in vain.
            self._unanswered.clear()
            if self._ask_at is None:
                self._ask_at = now + ASK_NS
        return was_news

    def on_wanted(self, uid: str, wanted: SecureStatesWanted, now: Nanos) -> list[Send]:
        """A neighbour asks for all lists, or has told all that it has."""
        if wanted.told:
            self._has_told(uid)
            return []
        if now < self._answered.get(uid, now - ANSWER_NS) + ANSWER_NS:
            return []  # it asks again later
        self._answered[uid] = now
        messages = (*self._graph.states, SecureStatesWanted(told=True))
        return [Send(uid, message) for message in messages]

    def unlinked(self, uid: str) -> None:
        """A neighbour is linked no more, and answers no question."""
        self._answered.pop(uid, None)
        self._has_told(uid)

    def handle_timers(
        self, now: Nanos, place: Place | None
    ) -> tuple[list[SecureState], list[Send]]:
        """Return lists of nobody, withdrawn, to be flooded; and questions to neighbours."""
        nobody = []
        while (uid := self._standing.pop_expired(now)) is not None:
            state = self._graph.state_of(uid)
            if state is None or state.withdrawn or place is None or uid in place.linked:
                continue
            if place.is_mine(state.ring_id):
                withdrawn = self._graph.withdraw(uid, state.incarnation)
                nobody += [withdrawn] if withdrawn is not None else []
        if self._ask_at is None or self._ask_at > now:
            return nobody, []
        return nobody, self._ask(now, place.linked if place is not None else ())

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do, or None."""
        ends = (self._standing.next_deadline(), self._ask_at)
        return min((end for end in ends if end is not None), default=None)

    def _ask(self, now: Nanos, linked: Collection[str]) -> list[Send]:
        self._ask_at = now + ASK_NS if self._graph.is_overfull else None
        if not self._graph.is_overfull or not self._graph.has_much_room:
            return []
        self._unanswered = set(linked)
        if not linked:
            self._graph.is_overfull = False  # whom it links to will tell it
            self._graph.reckon()
        return [Send(uid, SecureStatesWanted(told=False)) for uid in sorted(linked)]

    def _has_told(self, uid: str) -> None:
        if uid in self._unanswered:
            self._unanswered.discard(uid)
            if not self._unanswered:
                self._graph.is_overfull = False
                self._graph.reckon()
