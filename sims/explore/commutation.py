"""What one broker does on one event, and whether two events at it commute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
)
from ring.core import Timer
from ring.facts import Confirmed, Join, Leave, NeighboursChanged
from ring.invariants import local_findings
from sims.explore.local_states import Told
from sims.explore.scopes import Action
from sims.explore.state import Channel, Item, Packet, Welcome, packed
from sims.explore.world import UntimedWorld


class Event(NamedTuple):
    """Something that may happen at one broker."""

    what: str  #: the kind of its channel; "again": a call where a link stays; "timer"; "action"
    source: int
    item: int | tuple[Timer, str]  #: number of the item or of the action; key of the timer


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a broker does on an event, and all that others may ever see of it."""

    after: int  #: number of its state then
    sent: dict[tuple[str, int], tuple[Item, ...]]  #: by kind of channel and receiver, in order
    items: tuple[tuple[Channel, int], ...]  #: the same as numbers
    opens: frozenset[int]
    closes: frozenset[int]
    facts: tuple[str, ...]  #: those that findings are made of
    confirms: frozenset[int]  #: whose death


class _Made:
    """Collects what a broker does."""

    def __init__(self, world: UntimedWorld, at: int) -> None:
        self._world = world
        self._at = at
        self._sent: dict[tuple[str, int], tuple[Item, ...]] = {}
        self._opens: set[int] = set()
        self._closes: set[int] = set()
        self._facts: list[str] = []
        self._confirms: set[int] = set()

    def put(self, what: str, to: int, item: Item) -> None:
        key = (what, to)
        self._sent[key] = (*self._sent.get(key, ()), item)

    def close(self, other: int, reason: Closed) -> None:
        self._closes.add(other)
        self.put("link", other, reason)

    def add(self, effects: tuple[Effect, ...]) -> None:
        """Note the effects of one input, as the world without time carries them out."""
        index = self._world.index
        out: dict[int, list[Message]] = {}
        for effect in effects:
            if isinstance(effect, Send):
                out.setdefault(index[effect.uid], []).append(effect.message)
            elif isinstance(effect, CloseLink):
                other = index[effect.uid]
                if other in out:
                    self.put("link", other, packed(out.pop(other)))
                self.close(other, effect.reason)
            elif isinstance(effect, OpenLink):
                target = self._world.find(effect.url)
                if target is not None:
                    self._opens.add(target)
                    self.put("call", target, replace(effect, about=None))
            elif isinstance(effect, Notify):
                fact = effect.fact
                if isinstance(fact, Confirmed):
                    self._confirms.add(index[fact.subject.uid])
                    self._facts.append(f"confirmed {fact.subject.uid}")
                elif isinstance(fact, NeighboursChanged):
                    self._facts.append("moved")
        for other, messages in out.items():
            self.put("link", other, packed(messages))

    def reaction(self, after: int) -> Reaction:
        items = tuple(
            (Channel(what, self._at, to), self._world.item(item))
            for (what, to), sent in self._sent.items()
            for item in sent
        )
        return Reaction(
            after,
            self._sent,
            items,
            frozenset(self._opens),
            frozenset(self._closes),
            tuple(sorted(self._facts)),
            frozenset(self._confirms),
        )


class Commutation:
    """All that was ever asked about, remembered."""

    def __init__(self, world: UntimedWorld, actions: tuple[Action, ...], place: list[int]) -> None:
        self._world = world
        self._actions = actions
        self._place = place
        self._known: dict[tuple[int, int, Event], Reaction] = {}
        self._commuting: dict[tuple[int, int, Event, Event, frozenset[int]], bool] = {}
        self._good: dict[tuple[int, int], bool] = {}

    def react(self, at: int, number: int, event: Event) -> Reaction:
        """Return what the broker ``at`` does in its state ``number``."""
        asked = (at, number, event)
        known = self._known.get(asked)
        if known is None:
            world, made = self._world, _Made(self._world, at)
            after = number
            for one in self._inputs(at, number, event, made):
                after, effects = world.states.react(at, after, one)
                made.add(effects)
            known = self._known[asked] = made.reaction(after)
        return known

    def _inputs(self, at: int, number: int, event: Event, made: _Made) -> list[Told]:
        """Return what a broker is given on an event, as :meth:`UntimedWorld.deliver` does it."""
        world, source = self._world, event.source
        if isinstance(event.item, tuple):
            return [event.item]
        if event.what == "action":
            action = self._actions[event.item]
            if action.verb == "leave":
                return [Leave()]
            contacts = (world.nodes[self._place[other]].peer.url for other in action.others)
            return [Join(tuple(contacts))]
        item = world.items[event.item]
        peer = world.nodes[source].peer
        if isinstance(item, Packet):
            return [MessageReceived(peer.uid, message) for message in item.messages]
        if isinstance(item, Closed):
            return [LinkDown(peer.uid, item)]
        if isinstance(item, LinkRefused):
            return [item]
        if isinstance(item, Welcome):
            if world.states.admits(at, number, peer) is None:
                return [LinkUp(peer, item.request.url)]
            made.close(source, Closed.DECLARED_DEAD)
            return [LinkRefused(item.request.url, item.request.uid, Refused.UNREACHABLE)]
        refused: Refused | None
        if item.uid not in (None, world.nodes[at].peer.uid):
            refused = Refused.OTHER_PEER
        else:
            refused = world.states.admits(at, number, peer)
            if refused is None and event.what == "again":
                refused = Refused.DUPLICATE
        if refused is not None:
            made.put("answer", source, LinkRefused(item.url, item.uid, refused))
            return []
        made.put("link", source, Welcome(item))
        return [LinkUp(peer, peer.url)]

    # ── two events ────────────────────────────────────────────────────────────────────────────

    def commute(self, at: int, number: int, a: Event, b: Event, dead: frozenset[int]) -> bool:
        """Say whether it is the same, for this broker and all others, which event comes first.

        Of what is sent to the ``dead`` nothing arrives.
        """
        asked = (at, number, a, b, dead)
        known = self._commuting.get(asked)
        if known is None:
            known = self._commuting[asked] = self._commute(at, number, a, b, dead)
        return known

    def _commute(self, at: int, number: int, a: Event, b: Event, dead: frozenset[int]) -> bool:
        first_a, first_b = self.react(at, number, a), self.react(at, number, b)
        for event, before in ((a, first_b), (b, first_a)):
            armed = self._world.states.locals[at][before.after].timers
            if event.what == "timer" and event.item not in armed:
                return False
        then_b, then_a = self.react(at, first_a.after, b), self.react(at, first_b.after, a)
        return (
            then_a.after == then_b.after
            and _joined(first_a, then_b, dead) == _joined(first_b, then_a, dead)
            and sorted(first_a.facts + then_b.facts) == sorted(first_b.facts + then_a.facts)
            and all(self._is_good(at, n) for n in (first_a.after, first_b.after, then_a.after))
        )

    def _is_good(self, at: int, number: int) -> bool:
        """Say whether nothing is wrong with a state by itself; else it is to be come to really."""
        known = self._good.get((at, number))
        if known is None:
            local = self._world.states.locals[at][number]
            findings = local_findings(local.view) if local.view is not None else []
            known = self._good[at, number] = not findings and not local.unlinked
        return known


def _joined(
    first: Reaction, second: Reaction, dead: frozenset[int]
) -> dict[tuple[str, int], tuple[Item, ...]]:
    """Return what is sent by both, one after the other, and may arrive."""
    sent: dict[tuple[str, int], tuple[Item, ...]] = {}
    for (what, to), items in (*first.sent.items(), *second.sent.items()):
        if what == "call" or to not in dead:
            sent[what, to] = (*sent.get((what, to), ()), *items)
    return sent
