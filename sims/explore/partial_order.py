"""Which deliveries are enough to go on from a state with: a partial-order reduction.

Two deliveries to different brokers commute, as a broker hears of others by messages only. Two to
the same broker commute where it makes no difference to it, nor to what it sends over each link,
which comes first; that is tried out, state by state, and is so for nine pairs in ten. At each state
a *persistent set* is looked for (P. Godefroid, "Partial-order methods for the verification of
concurrent systems", 1996): deliveries to one broker that commute with all that may happen before
the first of them. Only those are tried then; where none is found, everything is. Actions and timers
are never left out by themselves.

Every order of the whole is one of those tried but for swaps of neighbours that commute, so all
states at rest are come to. Checks on the way are not lost either: a delivery that changes a best
successor, of which Zave's invariants speak, is dependent on all others that do, wherever they are,
and on all actions; a death is confirmed in any order or none; and a swap by way of a broker's state
that is wrong by itself is none.

The possible steps are those that were ever seen, here or in a swap. This is too little at first. So
at the end all sets are tried again with what is known by then, and the states whose set does not
hold are gone on from anew, until nothing more is learned. Then, by induction over the states from
the last to the first: behind the first delivery of a set all that can happen is known; a step at
another broker happens as well before it, and what comes to the same broker is tried out both before
and behind it. The induction needs states in an order, so of those that lead round in a circle each
is gone on from with everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from ring.geometry import clockwise
from ring.invariants import Snapshot
from ring.wire.messages import Member
from sims.explore.commutation import Commutation, Event, Reaction
from sims.explore.persistent_sets import CandidateSet, event_of
from sims.explore.report import What
from sims.explore.scopes import Action
from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld


class PartialOrderReduction:
    """Finds deliveries to one broker that are enough to go on from a state with."""

    def __init__(self, world: UntimedWorld, actions: tuple[Action, ...], place: list[int]) -> None:
        self.world = world
        self.actions = actions
        self.place = place
        self.commutation = Commutation(world, actions, place)
        self.known: list[dict[int, dict[Event, Reaction]]] = [{} for _ in place]
        self.grown = 0  #: how many reactions are known
        mortal = {place[a.who] for a in actions if a.verb != "cut"}
        self._sure: frozenset[str] = frozenset(
            node.peer.uid for at, node in enumerate(world.nodes) if at not in mortal
        )
        self._orders: dict[tuple[int, int, frozenset[str]], Hashable] = {}

    def note(self, at: int, number: int, event: Event) -> None:
        """Remember that something may really happen."""
        known = self.known[at].setdefault(number, {})
        if event not in known:
            known[event] = self.commutation.react(at, number, event)
            self.grown += 1

    def expect(self, state: State, whats: Iterable[What]) -> None:
        """Remember that some steps are taken from a state."""
        for what in whats:
            if isinstance(what, Channel):
                at, event = what.target, event_of(self.world, state, what)
            elif isinstance(what, int):
                action = self.actions[what]
                if action.verb in ("crash", "cut"):
                    continue
                at, event = self.place[action.who], Event("action", self.place[action.who], what)
            else:
                at, event = what[0], Event("timer", what[0], what[1])
            if state.fate[at] == "alive" or isinstance(what, int):
                self.note(at, state.brokers[at], event)

    def enough(self, state: State) -> frozenset[Channel] | None:
        """Return channels of which it is enough to deliver the next; None: try everything."""
        found: frozenset[Channel] | None = None
        tried: set[frozenset[Channel]] = set()
        for channel in sorted(state.channels, key=lambda c: self._hope(state, c)):
            chosen = frozenset({channel})
            while chosen not in tried and (found is None or len(chosen) < len(found)):
                tried.add(chosen)
                trial = CandidateSet(self, state, chosen)
                if trial.passes():
                    for one in trial.met:
                        self.note(*one)
                    found = chosen
                    if len(found) == 1:
                        return found
                elif trial.missing is not None:
                    chosen |= {trial.missing}
        return found

    def holds(self, state: State, chosen: frozenset[Channel]) -> bool:
        """Say whether the channels are still enough, with what is known now."""
        trial = CandidateSet(self, state, chosen)
        if not trial.passes():
            return False
        for one in trial.met:
            self.note(*one)
        return True

    def _hope(self, state: State, channel: Channel) -> tuple[int, bool, Channel]:
        """Steps that lead to nothing else come first: they are likely to commute."""
        at = channel.target
        did = self.commutation.react(at, state.brokers[at], event_of(self.world, state, channel))
        return len(did.items), did.after != state.brokers[at], channel

    def best(self, at: int, number: int, dead: frozenset[str]) -> Hashable:
        """Return what decides who is a broker's best successor, on both sides."""
        asked = (at, number, dead)
        known = self._orders.get(asked, 0)
        if known == 0:
            known = self._orders[asked] = self._best(at, number, dead)
        return known

    def _best(self, at: int, number: int, dead: frozenset[str]) -> Hashable:
        view = self.world.states.locals[at][number].view
        if view is None:
            return None
        found: list[Hashable] = [view.member]
        for step, listed in ((1, view.right), (-1, view.left)):
            row: list[Member] = []
            for member in (*listed, *_by_distance(view, step)):
                if member.uid not in dead and member not in row:
                    row.append(member)
                    if member.uid in self._sure:
                        break
            found += [bool(listed), tuple(row)]
        return tuple(found)


def _by_distance(view: Snapshot, step: int) -> list[Member]:
    """Return whom else a broker knows, nearest first on one side."""
    here = view.member.ring_id

    def distance(member: Member) -> int:
        return clockwise(here, member.ring_id) if step > 0 else clockwise(member.ring_id, here)

    return sorted(view.known, key=distance)


def circles(leads: Mapping[int, Iterable[int]]) -> list[int]:
    """Return those keys from which one may go on for ever, ``leads`` saying from where to where."""
    left = {here: {there for there in onward if there in leads} for here, onward in leads.items()}
    before: dict[int, list[int]] = {}
    for here, onward in left.items():
        for there in onward:
            before.setdefault(there, []).append(here)
    ends = [here for here, onward in left.items() if not onward]
    while ends:
        there = ends.pop()
        del left[there]
        for here in before.get(there, ()):
            left[here].discard(there)
            if not left[here]:
                ends.append(here)
    return list(left)
