"""One broker's protocol state: the ring, and secure links beside the ring's normal ones.

A :class:`overlay.machine.Machine` that composes :class:`ring.node.RingNode` with what the event
service adds between brokers. Sans-IO; ``ges.broker`` runs it on trio.

The secure links are a subset of the normal ones (paper 004, section 3.3.4): one is made where a
normal link leads to a broker that holds an identity too, and closed with it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ges.linkstate import SecureGraph
from ges.messages import RevocationNotice, SecureState
from ges.notices import Notices, NoticeTaken, Outcome
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Command,
    Effect,
    Fact,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
    TimerTable,
)
from overlay.revocation import Revocations
from ring.config import RingConfig
from ring.facts import Confirmed, Departed, NeighboursChanged
from ring.node import RingNode

RETRY_NS = nanos(0.5)
RETRY_MAX_NS = nanos(30.0)


@dataclass(frozen=True, slots=True)
class Spread(Command):
    """Make a list of revoked identities known to all brokers."""

    notice: RevocationNotice


@dataclass(frozen=True, slots=True)
class RenewLinks(Command):
    """Make the secure links to these anew, as a certificate has changed; the old ones serve on."""

    uids: tuple[str, ...]


class BrokerNode:
    """The machine of one broker."""

    def __init__(
        self,
        config: RingConfig,
        peer: Peer,
        rng: random.Random,
        revocations: Revocations | None = None,
    ) -> None:
        """Take how the ring is kept, who this is, and, with an identity, who is revoked."""
        self.ring = RingNode(config, peer, rng)
        self.notices = Notices(revocations)
        self.secure_graph = SecureGraph(peer.uid, self.notices.forbids)
        self._rng = rng
        self._normal: dict[str, Peer] = {}
        self._secure: set[str] = set()
        self._retries: TimerTable[str] = TimerTable()
        self._failures: dict[str, int] = {}

    @property
    def peer(self) -> Peer:
        return self.ring.peer

    @property
    def secure_links(self) -> tuple[str, ...]:
        """Uids at the other end of secure links."""
        return tuple(sorted(self._secure))

    def admit(self, peer: Peer) -> Refused | None:
        return self.ring.admit(peer)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, MessageReceived) and isinstance(event.message, SecureState):
            if self.secure_graph.learn(event.message):
                self._flood(event.message, effects, but=event.uid)
        elif isinstance(event, MessageReceived) and isinstance(event.message, RevocationNotice):
            self._on_notice(event.message, effects, now, but=event.uid)
        elif isinstance(event, Spread):
            self._on_notice(event.notice, effects, now)
        elif isinstance(event, RenewLinks):
            for uid in event.uids:
                self._open_secure(uid, effects, renew=True)
        elif getattr(event, "link_class", LinkClass.NORMAL) is LinkClass.SECURE:
            self._on_secure_link(event, now)
        else:
            effects += self.ring.handle(event, now)
            self._on_normal_link(event, effects, now)
        return self._finish(effects, now)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        due = self.ring.next_deadline()
        if due is not None and due <= now:
            effects += self.ring.handle_timers(now)
        while (uid := self._retries.pop_expired(now)) is not None:
            self._open_secure(uid, effects)
        return self._finish(effects, now)

    def next_deadline(self) -> Nanos | None:
        deadlines = (self.ring.next_deadline(), self._retries.next_deadline())
        return min((d for d in deadlines if d is not None), default=None)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_normal_link(self, event: Input, effects: list[Effect], now: Nanos) -> None:
        if isinstance(event, LinkUp):
            uid = event.peer.uid
            self._normal[uid] = event.peer
            effects += [Send(uid, state) for state in self.secure_graph.states]
            effects += [Send(uid, notice) for notice in self.notices.known]
            if self._may_secure(uid) and uid not in self._secure:
                self._open_secure(uid, effects)
        elif isinstance(event, LinkDown):
            self._drop(event.uid, effects, Closed.UNWANTED)

    def _on_secure_link(self, event: Input, now: Nanos) -> None:
        if isinstance(event, LinkUp):
            self._secure.add(event.peer.uid)
            self._failures.pop(event.peer.uid, None)
            self._retries.cancel(event.peer.uid)
        elif isinstance(event, LinkDown):
            self._secure.discard(event.uid)
            self._retry(event.uid, now)
        elif isinstance(event, LinkRefused) and event.uid is not None:
            self._retry(event.uid, now)

    def _may_secure(self, uid: str) -> bool:
        """Both hold an identity that counts, and it is on us to make the link."""
        peer = self._normal.get(uid)
        return (
            peer is not None
            and peer.secure
            and self.peer.secure
            and self.peer.uid < uid
            and not self.notices.forbids(uid)
        )

    def _open_secure(self, uid: str, effects: list[Effect], *, renew: bool = False) -> None:
        """Make a secure link, or, with ``renew``, one in the place of the one there is."""
        if self._may_secure(uid) or (renew and uid in self._secure and uid in self._normal):
            url = self._normal[uid].url
            effects.append(OpenLink(url, uid, link_class=LinkClass.SECURE, replace=renew))

    def _on_notice(
        self, notice: RevocationNotice, effects: list[Effect], now: Nanos, but: str | None = None
    ) -> None:
        """Pass a list of revoked identities on if it is news, and the authority's."""
        outcome = self.notices.take(notice, now)
        if outcome is Outcome.NEWS:
            effects += [Send(uid, notice) for uid in self._normal if uid != but]
            self.secure_graph.reckon()
        if outcome is not Outcome.OLD:
            effects.append(Notify(NoticeTaken(outcome, but)))

    def _retry(self, uid: str, now: Nanos) -> None:
        if self._may_secure(uid) and uid not in self._secure:
            failures = self._failures[uid] = self._failures.get(uid, 0) + 1
            pause = min(RETRY_NS << min(failures, 16), RETRY_MAX_NS)
            self._retries.set(uid, now + pause // 2 + self._rng.randrange(pause))

    def _drop(self, uid: str, effects: list[Effect], reason: Closed) -> None:
        """The normal link to ``uid`` is gone: so goes the secure one."""
        self._normal.pop(uid, None)
        self._failures.pop(uid, None)
        self._retries.cancel(uid)
        if uid in self._secure:
            self._secure.discard(uid)
            effects.append(CloseLink(uid, reason, LinkClass.SECURE))

    def _finish(self, effects: list[Effect], now: Nanos) -> list[Effect]:
        """Follow what the ring decided: closed links, deaths, and our own list of secure links."""
        for effect in tuple(effects):
            if isinstance(effect, CloseLink) and effect.link_class is LinkClass.NORMAL:
                self._drop(effect.uid, effects, effect.reason)
            elif isinstance(effect, Notify):
                for state in self._withdrawn(effect.fact):
                    self._flood(state, effects)
        member = self.ring.member
        if self.peer.secure and member is not None:
            around = {m.uid for m in (*self.ring.left, *self.ring.right)}
            own = self.secure_graph.own(
                self.peer.incarnation,
                member.ring_id,
                tuple(self._secure),
                complete=around <= self._secure,
            )
            if own is not None:
                self._flood(own, effects)
        return effects

    def _withdrawn(self, fact: Fact) -> list[SecureState]:
        """Take those out of the graph whom a fact shows to be gone."""
        graph, member = self.secure_graph, self.ring.member
        match fact:
            case Confirmed(gone) | Departed(gone):
                state = graph.withdraw(gone.uid, gone.incarnation)
                return [state] if state is not None else []
            case NeighboursChanged(_, right) if member is not None and right:
                return graph.withdraw_between(member.ring_id, right[0].ring_id)
            case _:
                return []

    def _flood(self, state: SecureState, effects: list[Effect], but: str | None = None) -> None:
        effects += [Send(uid, state) for uid in self._normal if uid not in (but, state.origin)]
