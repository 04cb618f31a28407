"""One ring node on a bench: the test plays everybody else.

Brokers are named by their ring ids: ``member(7)`` always has the same uid and URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from overlay.ids import Peer, nanos
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
from overlay.rng import rng_for
from ring.config import LAN, RingConfig
from ring.facts import Join
from ring.invariants import ideal_pointers
from ring.joining.newcomer import PINGS
from ring.node import RingNode
from ring.wire.messages import Intent, JoinAccept, Member, Peers, Pong, Purpose, View

M = TypeVar("M", bound=Message)
F = TypeVar("F", bound=Fact)


def peer(name: int, incarnation: int = 1) -> Peer:
    return Peer(f"{name:032x}", incarnation, f"chordal://b{name}:1")


def member(ring_id: int, incarnation: int = 1) -> Member:
    return Member(peer(ring_id, incarnation), ring_id)


def uid(ring_id: int) -> str:
    return peer(ring_id).uid


def view_of(ring_id: int, ids: Sequence[int], version: int = 1) -> View:
    """Return the view of one broker in the whole ring of ``ids``."""
    ring = [member(other) for other in sorted(ids)]
    at = sorted(ids).index(ring_id)
    return View(version, ring[at], *ideal_pointers(ring, at))


class Bench:
    """A node, the time, and what the node asked for. Nothing it asks for happens by itself."""

    def __init__(self, name: int, config: RingConfig = LAN, now_s: float = 0.0) -> None:
        self.node = RingNode(config, peer(name), rng_for(1, "bench", name))
        self.now = nanos(now_s)

    @classmethod
    def on_ring(cls, ids: Sequence[int], here: int, config: RingConfig = LAN) -> Bench:
        """Return the broker ``here`` in the ring of ``ids``, linked to its up to four neighbours.

        It has joined as any newcomer does, and its neighbours have shown their views.
        """
        bench = cls(here, config)
        left, right = (view_of(here, ids).left, view_of(here, ids).right)
        around = {m.ring_id: m for m in (*right[:1], *left[:1], *right[1:], *left[1:])}
        owner = left[0]
        bench.join(owner)
        neighbours = tuple(m for m in around.values() if m != owner)
        bench.receive(owner, JoinAccept(here, owner, neighbours))
        for other in neighbours:
            bench.up(other)
        for other in around.values():
            bench.receive(other, Intent(Purpose.RING))
            for token in range(1, 8):  # whatever it was asked
                bench.receive(other, Pong(token))
            bench.receive(other, view_of(other.ring_id, ids))
        assert bench.node.member == member(here)
        assert (bench.node.left, bench.node.right) == (left, right)
        return bench

    def join(self, contact: Member) -> list[Effect]:
        """Go through a join up to the request to ``contact``, the only broker there is to ask."""
        self.give(Join((contact.peer.url,)))
        self.up(contact)
        return self.measure(contact)

    def measure(self, contact: Member) -> list[Effect]:
        """Answer what a newcomer asks before its request, and return what it does then."""
        self.receive(contact, Peers((contact,)))
        effects: list[Effect] = []
        for token in range(1, PINGS + 1):
            effects = self.receive(contact, Pong(token))
        return effects

    def give(self, event: Input) -> list[Effect]:
        return self.node.handle(event, self.now)

    def receive(self, sender: Member, message: Message) -> list[Effect]:
        return self.give(MessageReceived(sender.uid, message))

    def up(self, other: Member | Peer) -> list[Effect]:
        who = other if isinstance(other, Peer) else other.peer
        return self.give(LinkUp(who, who.url))

    def down(self, other: Member, reason: Closed = Closed.LOST) -> list[Effect]:
        return self.give(LinkDown(other.uid, reason))

    def refused(self, other: Member, reason: Refused = Refused.UNREACHABLE) -> list[Effect]:
        return self.give(LinkRefused(other.peer.url, other.uid, reason))

    def wait(self, seconds: float, alive: Sequence[Member] = ()) -> list[Effect]:
        """Let time pass, every timer on time; the ``alive`` are heard all along."""
        effects: list[Effect] = []
        end = self.now + nanos(seconds)
        while (due := self.node.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            for other in alive:
                self.node.heard(other.uid, self.now)
            effects += self.node.handle_timers(self.now)
        self.now = end
        return effects

    def oversleep(self, seconds: float) -> list[Effect]:
        """Let time pass without running a timer, then run them: the process stood still."""
        self.now += nanos(seconds)
        return self.node.handle_timers(self.now)


# What came out


def sent(effects: Sequence[Effect], kind: type[M]) -> list[tuple[str, M]]:
    """Return the messages of one kind and to whom they go."""
    return [
        (effect.uid, effect.message)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind)
    ]


def told(effects: Sequence[Effect], kind: type[F]) -> list[F]:
    """Return the facts of one kind."""
    return [e.fact for e in effects if isinstance(e, Notify) and isinstance(e.fact, kind)]


def opened(effects: Sequence[Effect]) -> list[str]:
    """Return the URLs that links were asked for to."""
    return [effect.url for effect in effects if isinstance(effect, OpenLink)]


def closed(effects: Sequence[Effect]) -> list[tuple[str, Closed]]:
    return [(effect.uid, effect.reason) for effect in effects if isinstance(effect, CloseLink)]
