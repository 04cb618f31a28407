"""Whether it is enough to let some deliveries to one broker come before all else.

It is if they commute with everything that may happen as long as none of them has. What that is, is
found from above, as in local model checking (R. Guerraoui, M. Yabandeh, "Model checking a networked
system without the network", 2011): everybody goes on by itself, with all that is or comes under way
to it, in any order and any number of times, but for the channels held back. A broker does in that
what it was ever seen to do (:attr:`Knowledge.known`); :mod:`sims.explore.partial_order` says why
that is enough.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from overlay.machine import Closed, LinkRefused, OpenLink, Refused
from sims.explore.commutation import Commutation, Event, Reaction
from sims.explore.scopes import Action
from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld


class Knowledge(Protocol):
    """What a candidate asks about; :class:`sims.explore.partial_order.PartialOrderReduction`."""

    world: UntimedWorld
    actions: tuple[Action, ...]
    place: list[int]
    commutation: Commutation
    known: list[dict[int, dict[Event, Reaction]]]

    def best(self, at: int, number: int, dead: frozenset[str]) -> object:
        """Return what decides who is a broker's best successor, on both sides."""


def event_of(world: UntimedWorld, state: State, channel: Channel) -> Event:
    """Return what happens if the next of ``channel`` arrives."""
    what, source, target = channel
    item = state.channels[channel][0]
    is_linked = {(source, target), (target, source)} <= state.wires
    if what == "call" and is_linked and not _replaces(world, item):
        what = "again"
    return Event(what, source, item)


def _replaces(world: UntimedWorld, item: int) -> bool:
    """Say whether an item is a call that replaces the link there is."""
    request = world.items[item]
    return isinstance(request, OpenLink) and request.replace


class CandidateSet:
    """Whether some deliveries to one broker commute with all that may come before them."""

    def __init__(self, reduction: Knowledge, state: State, chosen: frozenset[Channel]) -> None:
        self._all = reduction
        self._react = reduction.commutation.react
        self._state = state
        self._chosen = chosen
        self._at = next(iter(chosen)).target
        self._ours = [(one, event_of(reduction.world, state, one)) for one in sorted(chosen)]
        self.missing: Channel | None = None  #: a channel that would have to be chosen as well
        self.met: list[tuple[int, int, Event]] = []  #: what may happen at the receiver
        place = reduction.place
        self._pending = pending = [reduction.actions[number] for number in state.todo]
        self._doomed = frozenset(place[a.who] for a in pending if a.verb != "cut")
        self._cut = {place[at] for a in pending if a.verb == "cut" for at in (a.who, *a.others)}
        self._dead = frozenset(
            at for at, fate in enumerate(state.fate) if fate not in ("alive", "absent")
        )
        self._gone = frozenset(reduction.world.nodes[at].peer.uid for at in self._dead)
        self._reached: list[set[int]] = [set() for _ in state.brokers]
        self._events: list[dict[Event, None]] = [{} for _ in state.brokers]
        self._waiting: list[tuple[int, int, Event]] = []
        self._called: set[int] = set()  #: whom the receiver calls, or may call
        self._renewed: set[int] = set()  #: those of them to whom the call replaces a link
        self._hung_up: set[int] = set()  #: who may close its link to the receiver
        self._touched: set[int] = set()  #: over whose links we send, or which we close
        self._closed: set[int] = set()  #: those of them that we close
        self._seen = False  #: the deliveries change best successors
        self._others_seen = False

    def passes(self) -> bool:
        """Say whether it is enough to deliver the chosen ones first, each in turn."""
        if not self._may_begin():
            return False
        while self._waiting:
            where, number, event = self._waiting.pop()
            if where == self._at:
                then = self._react(where, number, event)
                if not all(self._goes_with(number, *our, event, then) for our in self._ours):
                    self._miss(event)
                    return False
                if then.after not in self._reached[where] and not self._stands(then.after):
                    return False
                self._called |= then.opens
                self.met.append((where, number, event))
            else:
                then = self._all.known[where][number][event]
                if self._at in then.closes:
                    self._hung_up.add(where)
            self._others_seen = self._others_seen or self._changes(where, number, then.after)
            self._reach(where, then.after)
            for channel, item in then.items:
                self._arrive(channel, item)
        if self._seen and (self._others_seen or self._pending):
            return False
        return all(self._links_hold(*our) for our in self._ours)

    def _may_begin(self) -> bool:
        """Look at what can be said at once, and put in what is under way."""
        at, state = self._at, self._state
        if at in self._doomed or at in self._cut:
            return False
        for channel, event in self._ours:
            source = channel.source
            if channel.what == "call" and source in self._doomed:
                return False
            if event.what == "call":
                links = {Channel("link", at, source), Channel("link", source, at)}
                wires = {(at, source), (source, at)}
                if wires & state.wires or links & state.channels.keys():
                    return False  # they would be replaced
        self._called |= {kind.target for kind in state.channels if kind[:2] == ("call", at)}
        if not self._stands(state.brokers[at]):
            return False
        self._act()
        for channel, items in state.channels.items():
            for item in items:
                self._arrive(channel, item)
        for who, fate in enumerate(state.fate):
            if fate == "alive" or (fate == "absent" and who in self._doomed):
                self._reach(who, state.brokers[who])
        return True

    def _miss(self, event: Event) -> None:
        """Note from where the event came that is dependent, if it is under way already."""
        what = "call" if event.what == "again" else event.what
        channel = Channel(what, event.source, self._at)
        if channel in self._state.channels and channel not in self._chosen:
            self.missing = channel

    def _goes_with(
        self, number: int, channel: Channel, event: Event, other: Event, then: Reaction
    ) -> bool:
        """Say whether a delivery commutes with ``other`` at the same broker."""
        source, is_answer = channel.source, channel.what == "answer"
        did = self._react(self._at, number, event)
        if other.source == source and other.what == "call" and not is_answer:
            return False  # a new link: what is under way on an old one is lost
        if source in then.closes and not is_answer:
            return False
        if other.source in did.closes and other.what in ("link", "call", "again"):
            return False
        if not self._all.commutation.commute(self._at, number, event, other, self._dead):
            return False
        self.met += [(self._at, then.after, event), (self._at, did.after, other)]
        return True

    def _stands(self, number: int) -> bool:
        """Note what the deliveries do in one more state of their receiver; False: dependent."""
        for _, event in self._ours:
            did = self._react(self._at, number, event)
            if did.opens & self._doomed or did.confirms & self._doomed:
                return False
            if did.opens and any(_replaces(self._all.world, item) for _, item in did.items):
                return False  # what is under way on the old link is lost
            self._closed |= did.closes
            self._touched |= {to for what, to in did.sent if what == "link"}
            self._seen = self._seen or self._changes(self._at, number, did.after)
            self.met.append((self._at, number, event))
        return True

    def _links_hold(self, channel: Channel, event: Event) -> bool:
        """Say whether no call by the receiver can cost what is under way on links concerned."""
        at, source, state = self._at, channel.source, self._state
        if self._closed & self._called:
            return False
        touched = set(self._touched)
        if event.what == "call":
            if source in self._called:
                return False
            touched.discard(source)
        elif event.what != "answer":
            touched.add(source)
        if event.what == "again" and source in self._hung_up:
            return False
        return not any(
            other in self._hung_up
            or other in self._renewed
            or not {(at, other), (other, at)} <= state.wires
            for other in touched & self._called
        )

    def _changes(self, at: int, before: int, after: int) -> bool:
        """Say whether the best successors of a broker differ in two of its states."""
        if before == after:
            return False
        best = self._all.best
        return best(at, before, self._gone) != best(at, after, self._gone)

    # ── what may happen ───────────────────────────────────────────────────────────────────────

    def _act(self) -> None:
        """Let the actions happen that are still to come, or what they lead to."""
        world, place = self._all.world, self._all.place
        for number in self._state.todo:
            action = self._all.actions[number]
            who = place[action.who]
            if action.verb in ("crash", "cut"):
                lost = world.item(Closed.LOST)
                for other in (place[other] for other in action.others):
                    self._come(other, Event("link", who, lost))
                    if action.verb == "cut":
                        self._come(who, Event("link", other, lost))
            else:
                self._come(who, Event("action", who, number))

    def _come(self, at: int, event: Event) -> None:
        events = self._events[at]
        if event not in events:
            events[event] = None
            for number in self._reached[at]:
                if event in self._may(at, number):
                    self._waiting.append((at, number, event))

    def _reach(self, at: int, number: int) -> None:
        reached = self._reached[at]
        if number in reached:
            return
        reached.add(number)
        events = self._events[at]
        for event in self._may(at, number):
            if event in events or (event.what == "timer" and self._is_armed(at, number, event)):
                self._waiting.append((at, number, event))

    def _is_armed(self, at: int, number: int, event: Event) -> bool:
        timers = self._all.world.states.locals[at][number].timers
        return self._state.early > 0 and event.item in timers

    def _may(self, at: int, number: int) -> Collection[Event]:
        """Return what is known to happen at a broker in a state, or just behind a delivery."""
        known = self._all.known[at]
        if at != self._at:
            return known.get(number, ())
        events = dict.fromkeys(known.get(number, ()))
        for _, event in self._ours:
            events.update(dict.fromkeys(known.get(self._react(at, number, event).after, ())))
        return events

    def _arrive(self, channel: Channel, item: int) -> None:
        what, source, target = channel
        if channel in self._chosen:
            return
        fate = self._state.fate[target]
        if what != "call":
            if fate == "alive":
                self._come(target, Event(what, source, item))
            return
        if source == self._at and _replaces(self._all.world, item):
            self._renewed.add(target)
        if fate == "alive" or target in self._doomed:
            self._come(target, Event("call", source, item))
            self._come(target, Event("again", source, item))
        if fate != "alive" or target in self._doomed:
            world = self._all.world
            request = world.items[item]
            assert isinstance(request, OpenLink)
            refused = LinkRefused(request.url, request.uid, Refused.UNREACHABLE)
            self._come(source, Event("answer", target, world.item(refused)))
