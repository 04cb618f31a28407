"""The part of a broker's machine that tells what the clients here want, and knows it of others.

The rules are those of :mod:`ges.profiles.exchange`. This joins them to the cluster: who is a
member, how all are told something (:mod:`ges.telling.spread`), how one member is
(:mod:`ges.telling.post`), and how neighbours compare (:mod:`ges.telling.comparison`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass

from ges.profiles.exchange import ProfileExchange
from ges.profiles.index import ProfileIndex
from ges.telling.changes import Change, Changes
from ges.telling.part import CommandHandler, MessageHandler, Part, RingView
from ges.telling.post import Post
from ges.telling.shared import Asking
from ges.units.units_part import UnitsPart
from ges.wire.asked import Ask
from ges.wire.profile_messages import ProfileDelta, ProfilePage, ProfileTaken
from ges.wire.telling_messages import Kind
from overlay.ids import Nanos, nanos
from overlay.machine import Command, Effect, Message
from overlay.multigraph.weights import LinkKey

STAYS_NS = nanos(15.0)  #: a difference that is seen again within this is no change under way


@dataclass(frozen=True, slots=True)
class Wanted(Command):
    """A client here wants this; the same key again replaces what it was for."""

    key: Hashable
    ask: Ask


@dataclass(frozen=True, slots=True)
class Unwanted(Command):
    """A client here wants no more what these keys were for."""

    keys: tuple[Hashable, ...]


class ProfilesPart(Part):
    """The profiles of the cluster, as one broker tells and holds them."""

    def __init__(self, ring: RingView, units: UnitsPart, post: Post, changes: Changes) -> None:
        self._ring = ring
        self._units = units
        self._post = post
        self._life = ring.peer.incarnation
        self.exchange: ProfileExchange[Hashable] = ProfileExchange(
            ring.peer.uid, self._life, post.send, self._tell_all, changes
        )
        self._members: dict[str, int] = {}
        units.spread.register(Kind.PROFILES, ProfileDelta, self.exchange.on_told)
        asking = Asking(Kind.PROFILES, self.exchange, post.send, stays=STAYS_NS)
        units.sharing.compare(asking)

    # ── what others see ───────────────────────────────────────────────────────────────────────

    @property
    def index(self) -> ProfileIndex:
        """Who wants what."""
        return self.exchange.index

    @property
    def grouped(self) -> int:
        """How many queue groups and filters the clients here are in."""
        return self.exchange.profile.grouped

    def is_wanted(self, ask: Ask) -> bool:
        """Say whether a client here has asked for just this."""
        return self.exchange.profile.is_wanted(ask)

    def why_full(self, ask: Ask) -> str | None:
        """Return why there is no room for what a client asks for, or None."""
        return self.exchange.profile.why_full(ask)

    @property
    def counters(self) -> Counter[str]:
        """What has befallen this broker so far."""
        return self.exchange.counters + self.exchange.profile.counters

    def take_active(self) -> list[Hashable]:
        """Return, once, the keys of the subscriptions that have become active in the cluster."""
        return self.exchange.take_active()

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """What members send each other of their profiles."""
        return {
            ProfileDelta: self._on_delta,
            ProfileTaken: self._on_taken,
            ProfilePage: self._on_page,
        }

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What the clients of this broker want."""
        return {Wanted: self._on_client_wants, Unwanted: self._on_client_leaves}

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Do what has come due."""
        due = self.exchange.next_deadline()
        if due is None or due > now:
            return []
        return self.exchange.handle_timers(now)

    def next_deadline(self) -> Nanos | None:
        """Return when something is due next, or None."""
        return self.exchange.next_deadline()

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Follow the table of members, and this broker's own life."""
        units, life = self._units, self._ring.peer.incarnation
        is_reborn, self._life = life != self._life, life
        effects: list[Effect] = []
        if is_reborn:
            effects += self.exchange.rejoined(life, now)
        rows = units.members
        lives = {uid: row.member.incarnation for uid, row in rows.items()}
        if units.slot is None:
            lives.pop(self._ring.peer.uid, None)
        slots = {uid: row.slot for uid, row in rows.items()}
        return effects + self.exchange.set_members(slots, lives, now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_client_wants(self, wanted: Wanted, now: Nanos) -> list[Effect]:
        return self.exchange.subscribe(wanted.key, wanted.ask, now)

    def _on_client_leaves(self, unwanted: Unwanted, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        for key in unwanted.keys:
            effects += self.exchange.unsubscribe(key, now)
        return effects

    def _on_delta(self, key: LinkKey, delta: ProfileDelta, now: Nanos) -> list[Effect]:
        return self.exchange.on_delta(key[0], delta, now)

    def _on_taken(self, key: LinkKey, taken: ProfileTaken, now: Nanos) -> list[Effect]:
        self.exchange.on_taken(key[0], taken.version)
        return []

    def _on_page(self, key: LinkKey, page: ProfilePage, now: Nanos) -> list[Effect]:
        return self.exchange.on_page(page, now)

    def _tell_all(self, delta: ProfileDelta, now: Nanos) -> list[Effect]:
        told = [uid for uid in self._units.members if uid != self._ring.peer.uid]

        def on_done(missing: frozenset[str], now: Nanos) -> list[Effect]:
            for uid in told:
                if uid not in missing:
                    self.exchange.on_taken(uid, delta.after)
            return []

        self._units.comparison.touch(now)
        return self._units.spread.tell(Kind.PROFILES, delta, now, on_done)
