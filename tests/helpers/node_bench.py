"""One broker's machine on a bench: the test plays everybody else. Brokers are named by letters."""

from __future__ import annotations

from collections.abc import Sequence

from ges.node import BrokerNode
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from overlay.multigraph.probes import LinkEcho, LinkProbe
from overlay.rng import rng_for
from ring.config import LAN
from ring.facts import Found
from ring.wire.messages import Member, View

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


def peer(name: str, *, secure: bool = True) -> Peer:
    return Peer(name * 32, 1, f"chordal://{name}.test:1", secure)


class Bench:
    """A broker that has founded a ring, unless told not to; the test plays the others."""

    def __init__(self, name: str = "b", *, secure: bool = True, founds: bool = True) -> None:
        self.node = BrokerNode(LAN, peer(name, secure=secure), rng_for(1, name))
        self.now: Nanos = 0
        if founds:
            self.give(Found())

    def give(self, event: Input) -> list[Effect]:
        return self.node.handle(event, self.now)

    def up(self, name: str, link_class: LinkClass = NORMAL, *, secure: bool = True) -> list[Effect]:
        other = peer(name, secure=secure)
        return self.give(LinkUp(other, other.url, link_class))

    def down(self, name: str, link_class: LinkClass, reason: Closed = Closed.LOST) -> list[Effect]:
        return self.give(LinkDown(name * 32, reason, link_class))

    def refuse(self, name: str) -> list[Effect]:
        refused = LinkRefused(peer(name).url, name * 32, Refused.UNREACHABLE, "", SECURE)
        return self.give(refused)

    def neighbour(self, name: str, ring_id: int = 9) -> list[Effect]:
        """Let another broker join the ring beside this one."""
        self.up(name)
        return self.give(MessageReceived(name * 32, View(1, Member(peer(name), ring_id), (), ())))

    def wait(self, seconds: float, alive: str) -> list[str]:
        """Let time pass while ``alive`` is heard; return to whom secure links were asked for."""
        called = []
        end = self.now + nanos(seconds)
        while (due := self.node.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.node.ring.heard(alive * 32, self.now)
            called += calls(self.node.handle_timers(self.now))
        self.now = end
        return called


def calls(effects: Sequence[Effect], link_class: LinkClass = SECURE) -> list[str]:
    """Return to whom links of that class are asked for."""
    return [
        (effect.uid or "?")[0]
        for effect in effects
        if isinstance(effect, OpenLink) and effect.link_class is link_class
    ]


def echo(bench: Bench, effects: Sequence[Effect], after: float) -> list[Effect]:
    """Answer the probes among ``effects`` after so many milliseconds."""
    bench.now += nanos(after / 1000)
    answers: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, LinkProbe):
            heard = LinkEcho(effect.message.token)
            answers += bench.give(MessageReceived(effect.uid, heard, effect.link_class))
    return answers
