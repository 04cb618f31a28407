"""One broker's protocol state: the ring, express and secure links beside its links, and ways.

A :class:`overlay.machine.Machine` that composes :class:`ring.node.RingNode` with what the event
service adds between brokers. Sans-IO; ``ges.broker.broker`` runs it on trio.

Express and secure links are subsets of the normal ones (paper 004, section 3.3): a secure one is
made where a normal link leads to a broker that holds an identity too, an express one where the
normal link is inside the express range; both go with it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ges.topology.parallel_links import ParallelLinks
from ges.topology.relay_paths import RelayPaths
from ges.topology.revocation_lists import NoticeTaken, Outcome, RevocationLists
from ges.topology.secure_graph import SecureGraph
from ges.topology.secure_graph_repair import Place, SecureGraphRepair
from ges.topology.survey import Survey
from ges.wire.broker_messages import RevocationNotice, SecureState, SecureStatesWanted
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Command,
    Effect,
    Fact,
    Input,
    LinkDown,
    LinkMessage,
    LinkRefused,
    LinkUp,
    MessageReceived,
    Notify,
    OpenLink,
    Refused,
    Send,
)
from overlay.multigraph.express_range import DEFAULT_RANGE_NS
from overlay.multigraph.probes import LinksRead, Pace
from overlay.multigraph.quick_probes import ExpressCame
from overlay.multigraph.weights import RESETS
from overlay.security.revocation import Revocations
from ring.config import RingConfig
from ring.facts import Confirmed, Departed, NeighboursChanged
from ring.node import RingNode


@dataclass(frozen=True, slots=True)
class Spread(Command):
    """Make a list of revoked identities known to all brokers."""

    notice: RevocationNotice


@dataclass(frozen=True, slots=True)
class Misled(Command):
    """A neighbour sent an event by us over a link that we do not have (any more)."""

    uid: str


@dataclass(frozen=True, slots=True)
class RenewLinks(Command):
    """Make the secure links to these anew, as a certificate has changed; the old ones serve on."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UidInUse(Fact):
    """Others hold this broker's uid for that of another process, which started later."""

    url: str  #: of one who says so


IN_USE_NS = nanos(1)  #: others must say so for that long ...
FORGET_IN_USE_NS = nanos(60)  #: ... and this is told once in that time


class BrokerNode:
    """The machine of one broker."""

    def __init__(
        self,
        config: RingConfig,
        peer: Peer,
        rng: random.Random,
        revocations: Revocations | None = None,
        *,
        express_range_ns: Nanos = DEFAULT_RANGE_NS,
        pace: Pace | None = None,
    ) -> None:
        """Take who is revoked, with an identity; the express range and how often links are probed.

        The range is one way, in nanoseconds.

        Raises:
            ConfigError: the express range makes no sense.
        """
        self.ring = RingNode(config, peer, rng)
        self.notices = RevocationLists(revocations)
        self.secure_graph = SecureGraph(peer.uid, self.notices.forbids)
        self._hearsay = SecureGraphRepair(self.secure_graph, peer.uid)
        self.survey = Survey(peer.uid, rng, express_range_ns=express_range_ns, pace=pace)
        self.ways = RelayPaths(self.survey, self.ring.detours)
        self._normal: dict[str, Peer] = {}
        self._uid_in_use_ns: Nanos | None = None  #: since when others say so
        self._is_in_use_told = False
        self._secure = ParallelLinks(LinkClass.SECURE, rng, self._may_secure)
        self._express = ParallelLinks(LinkClass.EXPRESS, rng, self._may_express)

    @property
    def peer(self) -> Peer:
        """How others reach this broker; the incarnation may grow."""
        return self.ring.peer

    @property
    def secure_links(self) -> tuple[str, ...]:
        """Uids at the other end of secure links."""
        return tuple(sorted(self._secure.up))

    @property
    def express_links(self) -> tuple[str, ...]:
        """Uids at the other end of express links that keep their promise now."""
        return tuple(sorted(uid for uid in self._express.up if self.survey.is_express(uid)))

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made; None is yes."""
        return self.ring.admit(peer)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take one input at time ``now`` and return what is to be done, in order."""
        effects: list[Effect] = []
        link_class = getattr(event, "link_class", LinkClass.NORMAL)
        if isinstance(event, MessageReceived) and isinstance(event.message, LinkMessage):
            effects += self.survey.on_message((event.uid, link_class), event.message, now)
        elif isinstance(event, MessageReceived) and isinstance(event.message, SecureState):
            if self._hearsay.learn(event.message, now):
                self._flood(event.message, effects, but=event.uid)
        elif isinstance(event, MessageReceived) and isinstance(event.message, SecureStatesWanted):
            effects += self._hearsay.on_wanted(event.uid, event.message, now)
        elif isinstance(event, MessageReceived) and isinstance(event.message, RevocationNotice):
            self._on_notice(event.message, effects, now, but=event.uid)
        elif isinstance(event, Spread):
            self._on_notice(event.notice, effects, now)
        elif isinstance(event, RenewLinks):
            effects += [
                OpenLink(self._normal[uid].url, uid, link_class=LinkClass.SECURE, replace=True)
                for uid in event.uids
                if uid in self._secure.up and uid in self._normal
            ]
        elif isinstance(event, Misled):
            effects += self.survey.correct(event.uid)
        elif isinstance(event, ExpressCame):
            self.survey.on_express(event.key, now)
        elif isinstance(event, LinksRead):
            self.survey.on_read(event.readings, now)
        else:
            self._measure_link(event, now)
            if link_class is LinkClass.SECURE:
                self._secure.handle(event, now)
            elif link_class is LinkClass.EXPRESS:
                self._express.handle(event, now)
            else:
                if isinstance(event, LinkRefused) and event.reason is Refused.UID_IN_USE:
                    self._on_uid_in_use(event.url, effects, now)
                effects += self.ring.handle(event, now)
                self._on_normal_link(event, effects, now)
        return self._finish(effects, now)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Run what has come due by ``now``, of the ring and of all that is above it."""
        effects: list[Effect] = []
        due = self.ring.next_deadline()
        if due is not None and due <= now:
            effects += self.ring.handle_timers(now)
        effects += self._secure.handle_timers(now)
        effects += self._express.handle_timers(now)
        effects += self.survey.handle_timers(now)
        nobody, questions = self._hearsay.handle_timers(now, self._place())
        for state in nobody:
            self._flood(state, effects)
        effects += questions
        return self._finish(effects, now)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` is to be called; None if no timer is set."""
        parts = (self.ring, self._secure, self._express, self.survey, self.ways, self._hearsay)
        deadlines = (part.next_deadline() for part in parts)
        return min((d for d in deadlines if d is not None), default=None)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _measure_link(self, event: Input, now: Nanos) -> None:
        """Links of all classes are measured while they are up."""
        if isinstance(event, LinkUp):
            self.survey.on_up((event.peer.uid, event.link_class), now)
        elif isinstance(event, LinkDown):
            key = (event.uid, event.link_class)
            self.survey.on_down(key, now, is_reset=event.reason in RESETS)

    def _on_normal_link(self, event: Input, effects: list[Effect], now: Nanos) -> None:
        if isinstance(event, LinkUp):
            uid = event.peer.uid
            self._normal[uid] = event.peer
            effects += [Send(uid, state) for state in self.secure_graph.states]
            effects += [Send(uid, notice) for notice in self.notices.known]
            effects += self._secure.seek(uid)
        elif isinstance(event, LinkDown):
            # What a link that broke has not brought over waits for the next one, and so does what
            # is under way on those beside it: they break with it.
            is_given_up = event.reason is Closed.UNWANTED
            reason = Closed.UNWANTED if is_given_up else Closed.LOST
            self._drop(event.uid, effects, reason, now, is_reset=event.reason in RESETS)

    def _may_secure(self, uid: str) -> Peer | None:
        """Both hold an identity that counts, and it is on us to make the link."""
        peer = self._normal.get(uid)
        is_ours = peer is not None and peer.secure and self.peer.secure and self.peer.uid < uid
        return peer if is_ours and not self.notices.forbids(uid) else None

    def _may_express(self, uid: str) -> Peer | None:
        """The normal link is fast enough, and it is on us to make the link."""
        return self._normal.get(uid) if self.peer.uid < uid and self.survey.is_near(uid) else None

    def _on_uid_in_use(self, url: str, effects: list[Effect], now: Nanos) -> None:
        """Others are linked to a later life of ours: it is in another process, if that lasts.

        For a moment it can be one of this process, which a call from its earlier life has met.
        """
        if self.ring.member is None:
            return  # a newcomer is told why it has not joined
        if self._uid_in_use_ns is None or now > self._uid_in_use_ns + FORGET_IN_USE_NS:
            self._uid_in_use_ns, self._is_in_use_told = now, False
        elif now >= self._uid_in_use_ns + IN_USE_NS and not self._is_in_use_told:
            self._is_in_use_told = True
            effects.append(Notify(UidInUse(url)))

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

    def _drop(
        self, uid: str, effects: list[Effect], reason: Closed, now: Nanos, *, is_reset: bool
    ) -> None:
        """The normal link to ``uid`` is gone: so go those beside it.

        ``is_reset``: it broke, and they with it.
        """
        self._normal.pop(uid, None)
        self._hearsay.unlinked(uid)
        effects += self._secure.drop(uid, reason)
        effects += self._express.drop(uid, reason)
        for link_class in (LinkClass.SECURE, LinkClass.EXPRESS):
            self.survey.on_down((uid, link_class), now, is_reset=is_reset)

    def _finish(self, effects: list[Effect], now: Nanos) -> list[Effect]:
        """Follow what was decided: closed links, deaths, our own list of secure links, ways."""
        for effect in tuple(effects):
            if isinstance(effect, CloseLink) and effect.link_class is LinkClass.NORMAL:
                # Closed as lost by ourselves: it was half-open, and its end was never seen.
                is_reset = effect.reason in RESETS
                self.survey.on_down((effect.uid, LinkClass.NORMAL), now, is_reset=is_reset)
                self._drop(effect.uid, effects, effect.reason, now, is_reset=is_reset)
            elif isinstance(effect, Notify):
                for state in self._withdrawn(effect.fact):
                    has_left = isinstance(effect.fact, Departed)
                    self._flood(state, effects, but=state.origin if has_left else None)
        for uid in self.survey.take_near():
            effects += self._express.seek(uid)
        self.survey.set_incarnation(self.peer.incarnation, now)
        self.ways.follow(now)
        member = self.ring.member
        if self.peer.secure and member is not None:
            around = {m.uid for m in (*self.ring.left, *self.ring.right)}
            own = self.secure_graph.own(
                self.peer.incarnation,
                member.ring_id,
                tuple(self._secure.up),
                complete=around <= self._secure.up,
            )
            if own is not None:
                self._flood(own, effects)
        return effects

    def _withdrawn(self, fact: Fact) -> list[SecureState]:
        """Take those out of the graph whom a fact shows to be gone."""
        graph, member = self.secure_graph, self.ring.member
        match fact:
            case Confirmed(gone) | Departed(gone):
                self.survey.on_gone(gone.uid)
                state = graph.withdraw(gone.uid, gone.incarnation)
                return [state] if state is not None else []
            case NeighboursChanged(_, right) if member is not None and right:
                return graph.withdraw_between(member.ring_id, right[0].ring_id)
            case _:
                return []

    def _place(self) -> Place | None:
        member, right = self.ring.member, self.ring.right
        if member is None:
            return None
        return Place(member.ring_id, right[0].ring_id if right else None, self._normal)

    def _flood(self, state: SecureState, effects: list[Effect], but: str | None = None) -> None:
        # To the one it is about as well: only that one can say that it is not true.
        effects += [Send(uid, state) for uid in self._normal if uid != but]
