"""A small world without time, whose every state can be kept, compared and gone on from.

A driver of the machines, for :mod:`sims.explore.explorer`. A course is split into steps that may
come in any order: the next thing of one channel arrives (channels are first in, first out, as TCP
makes them, and independent of one another), something is done to a broker, a timer runs out early.
The clock stands still meanwhile: everything happens faster than any timer, except those that are
let run out on purpose. :meth:`UntimedWorld.pass_time` then lets time pass, in a fair order.

The reactions of the machines are computed once for each of their states
(:mod:`sims.explore.local_states`), except while time passes: then they run on by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Fact,
    Input,
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
from ring.facts import Join, Leave
from ring.invariants import Snapshot
from ring.node import RingNode
from ring.wire.messages import (
    Backup,
    ChordAnswer,
    ChordQuery,
    Heartbeat,
    Intent,
    Peers,
    PeersRequest,
    Ping,
    Pong,
    ViewRequest,
)
from sims.explore.local_states import LocalState, LocalStates, Told, view_of
from sims.explore.state import Channel, Item, Packet, State, Welcome, packed

CONNECT_TIMEOUT_NS = nanos(2.0)
DEAD = frozenset({"killed", "powerless"})  #: fates
MAX_STORM = 200_000  #: steps without a pause after which brokers are held to talk for ever

#: Delivered at once, in a fixed order, wherever nothing else is before them: their order among the
#: rest is not explored. They move no pointer by themselves.
BACKGROUND: frozenset[type[Message]] = frozenset(
    {
        Backup,
        ChordAnswer,
        ChordQuery,
        Heartbeat,
        Intent,
        Peers,
        PeersRequest,
        Ping,
        Pong,
        ViewRequest,
    }
)


class UntimedWorld:
    """The brokers, their numbered states, and the steps of the world."""

    def __init__(self, nodes: list[RingNode], on_fact: Callable[[int, Fact], None]) -> None:
        self.nodes = nodes
        self.on_fact = on_fact
        self.now: Nanos = 0
        self.index = {node.peer.uid: at for at, node in enumerate(nodes)}
        self.states = LocalStates(nodes)
        self._by_url = {node.peer.url: at for at, node in enumerate(nodes)}
        self.items: list[Item] = []  #: by number
        self._item_numbers: dict[Item, int] = {}
        self._is_background: list[bool] = []  #: by number of the item
        self._direct = True  #: let the machines run on; else their numbered states do
        #: What was looked at or changed, in that order: the state of a broker itself, or what one
        #: (the second) has of another: whether it is linked to it, and what is under way from it.
        self.touched: dict[int | tuple[int, int], None] = {}
        self._due: list[tuple[Nanos, int, LinkRefused]] = []  #: attempts, by when they time out

    def begin(self) -> State:
        """Return the state of a world in which nothing has happened."""
        n = len(self.nodes)
        return State([0] * n, ["absent"] * n, {}, frozenset(), (), (), 0)

    def number(self, state: State) -> None:
        """From now on keep states: number the one that the machines are in."""
        self._direct = False
        self.states.moment = self.now
        state.brokers = [self.states.number(at) for at in range(len(self.nodes))]

    # ── steps ─────────────────────────────────────────────────────────────────────────────────

    def deliver(self, state: State, channel: Channel) -> None:
        """Let the next thing of ``channel`` arrive."""
        self.touched[channel.source, channel.target] = None
        number, *rest = state.channels.pop(channel)
        if rest:
            state.channels[channel] = tuple(rest)
        item = self.items[number]
        source, target = channel.source, channel.target
        uid = self.nodes[source].peer.uid
        if isinstance(item, Packet):
            for message in item.messages:
                self.give(state, target, MessageReceived(uid, message))
        elif isinstance(item, Closed):
            state.wires -= {(target, source)}
            self.give(state, target, LinkDown(uid, item))
        elif isinstance(item, LinkRefused):
            self.give(state, target, item)
        elif isinstance(item, OpenLink):
            self._on_call(state, source, target, item)
        elif self._admit(state, target, peer := self._peer(state, source)) is None:
            self.give(state, target, LinkUp(peer, item.request.url))
        else:
            self._hang_up(state, target, source, Closed.DECLARED_DEAD)
            refused = LinkRefused(item.request.url, item.request.uid, Refused.UNREACHABLE)
            self.give(state, target, refused)

    def give(self, state: State, at: int, event: Input) -> None:
        """Hand an input to a broker."""
        self._do(state, at, event, lambda node: node.handle(event, self.now))

    def enter(self, state: State, at: int, event: Join) -> None:
        """A broker begins to join."""
        state.fate[at] = "alive"
        self.give(state, at, event)

    def leave(self, state: State, at: int) -> None:
        """A broker says that it leaves, and is gone."""
        self.give(state, at, Leave())
        state.fate[at] = "killed"

    def expire(self, state: State, at: int, timer: tuple[Timer, str]) -> None:
        """Let a timer run out early."""
        self._do(state, at, timer, lambda node: node.expire(timer, self.now))

    def crash(self, at: int, seen_by: frozenset[int]) -> list[Callable[[State], None]]:
        """A broker dies; ``seen_by`` see its sockets close, the others see nothing.

        Returns what this is for each broker, to be done in that order.
        """
        others = [other for other in range(len(self.nodes)) if other != at]
        return [
            lambda state: self._die(state, at, seen=bool(seen_by)),
            *(partial(self._lose, at=other, dead=at, seen=other in seen_by) for other in others),
            lambda state: self._vanish(state, at),
        ]

    def _die(self, state: State, at: int, *, seen: bool) -> None:
        self.touched[at] = None
        state.fate[at] = "killed" if seen else "powerless"

    def _lose(self, state: State, at: int, dead: int, *, seen: bool) -> None:
        """What the death of one broker is to another; ``seen``: it sees the socket close."""
        self.touched |= {(at, dead): None, (dead, at): None}
        for number in state.channels.pop(Channel("call", at, dead), ()):
            item = self.items[number]
            assert isinstance(item, OpenLink)
            self._refuse(state, at, dead, item)
        state.channels.pop(Channel("call", dead, at), None)
        if seen and (at, dead) in state.wires:
            self._put(state, Channel("link", dead, at), Closed.LOST)

    def _vanish(self, state: State, at: int) -> None:
        """Frames under way to a dead broker are lost, and so are its links."""
        self.touched |= dict.fromkeys((other, at) for other in range(len(self.nodes)))
        for channel in [channel for channel in state.channels if channel.target == at]:
            del state.channels[channel]
        state.wires = frozenset((a, b) for a, b in state.wires if a != at)
        if not self._direct:
            self.touched[at] = None
            state.brokers[at] = self.states.forgotten(at, state.brokers[at])

    def cut(self, state: State, a: int, b: int) -> None:
        """The link between two brokers breaks, and both see it."""
        self.touched |= {(a, b): None, (b, a): None}
        for here, there in ((a, b), (b, a)):
            state.channels.pop(Channel("link", here, there), None)
            if (there, here) in state.wires:
                self._put(state, Channel("link", here, there), Closed.LOST)

    def is_background(self, number: int) -> bool:
        """Say whether an item is all :data:`BACKGROUND`."""
        return self._is_background[number]

    def settle_background(self, state: State) -> None:
        """Deliver what is not worth telling orders apart for."""
        while True:
            ready = [c for c, items in state.channels.items() if self._is_background[items[0]]]
            if not ready:
                return
            self.deliver(state, min(ready))

    # ── what can be seen ──────────────────────────────────────────────────────────────────────

    def views(self, state: State) -> list[Snapshot]:
        """Return the pointers of all live members."""
        found = []
        for at, fate in enumerate(state.fate):
            if fate == "alive":
                view = view_of(self.nodes[at]) if self._direct else self.local(state, at).view
                if view is not None:
                    found.append(view)
        return found

    def find(self, url: str) -> int | None:
        """Return which broker listens at ``url``."""
        return self._by_url.get(url)

    def local(self, state: State, at: int) -> LocalState:
        """Return the numbered state of one broker."""
        return self.states.locals[at][state.brokers[at]]

    def end(self, state: State) -> Hashable:
        """Tell states apart by what is in them, wherever the numbers come from."""
        shapes = tuple(
            0 if fate in DEAD else self.local(state, at).shape for at, fate in enumerate(state.fate)
        )
        return shapes, state.wires, state.late, state.early, state.confirmed, tuple(state.fate)

    # ── time passes ───────────────────────────────────────────────────────────────────────────

    def thaw(self, state: State) -> State:
        """Put the machines into ``state`` and let them run on; returns a state to go on with."""
        for at in range(len(self.nodes)):
            self.local(state, at).frozen.restore()
        self._direct = True
        self._due.clear()
        return state.copy()

    def freeze_again(self) -> None:
        """Back to numbered states, and to the moment at which the clock stands."""
        self._direct = False
        self.now = self.states.moment

    def pass_time(self, state: State, until: Nanos) -> bool:
        """Let everything happen in a fair order; returns False if brokers talk without end."""
        steps = 0
        while True:
            while state.channels:
                self.deliver(state, next(iter(state.channels)))
                steps += 1
                if steps > MAX_STORM:
                    return False
            late, state.late = state.late, ()
            self._due += [(self.now + CONNECT_TIMEOUT_NS, at, answer) for at, answer in late]
            times = [
                (deadline, at)
                for at, fate in enumerate(state.fate)
                if fate == "alive" and (deadline := self.nodes[at].next_deadline()) is not None
            ]
            when, at = min(times, default=(until + 1, -1))
            if self._due and self._due[0][0] <= min(when, until):
                self.now, at, answer = self._due.pop(0)
                self.give(state, at, answer)
            elif when <= until:
                self.now = max(self.now, when)
                self._do(state, at, None, lambda node: node.handle_timers(self.now))
            else:
                self.now = until
                return True

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _peer(self, state: State, at: int) -> Peer:
        self.touched[at] = None
        return self.nodes[at].peer if self._direct else self.local(state, at).peer

    def _do(
        self,
        state: State,
        at: int,
        event: Told | None,
        act: Callable[[RingNode], list[Effect]],
    ) -> None:
        self.touched[at] = None
        if state.fate[at] != "alive":
            return
        if self._direct:
            self._perform(state, at, tuple(act(self.nodes[at])))
            return
        assert event is not None  # time passes for the machines themselves only
        state.brokers[at], effects = self.states.react(at, state.brokers[at], event)
        self._perform(state, at, effects)

    def _admit(self, state: State, at: int, peer: Peer) -> Refused | None:
        if self._direct:
            return self.nodes[at].admit(peer)
        self.touched[at] = None
        return self.states.admits(at, state.brokers[at], peer)

    def _perform(self, state: State, at: int, effects: tuple[Effect, ...]) -> None:
        out: dict[int, list[Message]] = {}
        for effect in effects:
            if isinstance(effect, Send):
                other = self.index[effect.uid]
                self.touched[other, at] = None
                if (at, other) in state.wires:
                    out.setdefault(other, []).append(effect.message)
            elif isinstance(effect, CloseLink):
                other = self.index[effect.uid]
                self.touched[other, at] = None
                if (at, other) in state.wires:
                    self._flush(state, at, {other: out.pop(other, [])})
                    self._hang_up(state, at, other, effect.reason)
            elif isinstance(effect, OpenLink):
                self._call(state, at, replace(effect, about=None))
            elif isinstance(effect, Notify):
                self.on_fact(at, effect.fact)
        self._flush(state, at, out)

    def _flush(self, state: State, at: int, out: dict[int, list[Message]]) -> None:
        for other, messages in out.items():
            self.touched[at, other] = None
            if messages and (other, at) in state.wires:  # else nobody listens at the other end
                self._put(state, Channel("link", at, other), packed(messages))

    def _hang_up(self, state: State, at: int, other: int, reason: Closed) -> None:
        self.touched |= {(other, at): None, (at, other): None}
        state.wires -= {(at, other)}
        state.channels.pop(Channel("link", other, at), None)
        if (other, at) in state.wires:
            self._put(state, Channel("link", at, other), reason)

    def _call(self, state: State, at: int, request: OpenLink) -> None:
        target = self._by_url.get(request.url)
        if target is not None:
            self.touched |= {target: None, (at, target): None}
        if target is None or state.fate[target] != "alive":
            self._refuse(state, at, target, request)
        else:
            self._put(state, Channel("call", at, target), request)

    def _refuse(self, state: State, at: int, target: int | None, request: OpenLink) -> None:
        self.touched[at if target is None else target, at] = None
        if target is not None:
            self.touched[target] = None
        if target is not None and state.fate[target] == "powerless":
            late = LinkRefused(request.url, request.uid, Refused.TIMEOUT)
            state.late = tuple(sorted((*state.late, (at, late)), key=repr))  # they are at one time
        else:
            refused = LinkRefused(request.url, request.uid, Refused.UNREACHABLE)
            self._put(state, Channel("answer", at if target is None else target, at), refused)

    def _on_call(self, state: State, at: int, target: int, request: OpenLink) -> None:
        """The initiator's greeting arrives: the acceptor decides."""
        self.touched |= {(at, target): None, (target, at): None}
        peer = self._peer(state, at)
        if request.uid not in (None, self.nodes[target].peer.uid):
            refused: Refused | None = Refused.OTHER_PEER
        else:
            refused = self._admit(state, target, peer)
            is_linked = {(at, target), (target, at)} <= state.wires
            if refused is None and is_linked and not request.replace:
                refused = Refused.DUPLICATE
        if refused is not None:
            answer = LinkRefused(request.url, request.uid, refused)
            self._put(state, Channel("answer", target, at), answer)
            return
        state.channels.pop(Channel("link", at, target), None)  # of a link this one replaces
        state.channels.pop(Channel("link", target, at), None)
        state.wires |= {(at, target), (target, at)}
        self._put(state, Channel("link", target, at), Welcome(request))
        self.give(state, target, LinkUp(peer, peer.url))

    def _put(self, state: State, channel: Channel, item: Item) -> None:
        state.channels[channel] = (*state.channels.get(channel, ()), self.item(item))

    def item(self, item: Item) -> int:
        """Return the number of what may be under way."""
        number = self._item_numbers.get(item)
        if number is None:
            number = self._item_numbers[item] = len(self.items)
            self.items.append(item)
            self._is_background.append(
                isinstance(item, Packet) and all(type(m) in BACKGROUND for m in item.messages)
            )
        return number
