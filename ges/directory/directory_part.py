"""The part of a broker's machine that says where its named clients are, and asks for others.

A broker with a client of the name ``kitchen`` tells that to the registrar of the name, and again
every minute. The registrar is the broker that stands nearest before the place to which the name is
hashed; it tells its two ring neighbours, so one of them knows if it dies. If it does not know a
name itself, it asks its left neighbour, which was the registrar before a broker joined between.
After each change of its neighbours it tells them all that it keeps.

The papers keep a client's id as a profile, which costs all brokers one profile for each client.
Here a name costs three brokers an entry.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ges.directory.lookups import Lookups
from ges.directory.register import Register, place_of
from ges.telling.changes import Change
from ges.telling.part import CommandHandler, MessageHandler, Part, RingView
from ges.telling.post import NEAREST, Post
from ges.units.units_part import UnitsPart
from ges.wire.directory_messages import (
    MAX_HOLDERS,
    Holder,
    NameAt,
    NameFound,
    NameKept,
    NameWanted,
    NameWrong,
)
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Command, Effect, Fact, Message, Notify, Send
from overlay.multigraph.weights import LinkKey
from ring.wire.messages import Member

REFRESH_NS = nanos(60.0)  #: a name is told again after this ...
LASTS_S = 150  #: ... and forgotten where it was not told again for this
UNKEPT_NS = nanos(0.5)  #: a name that the registrar has not confirmed is told again after this
FORGET_NS = nanos(10.0)  #: between two looks for what lasts no longer

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class NameTaken(Command):
    """A client here is attached under a name, by a subscription of that key."""

    key: Hashable
    name: str


@dataclass(frozen=True, slots=True)
class NamesDropped(Command):
    """The subscriptions of these keys are no more."""

    keys: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class NamesAsked(Command):
    """An event is published here for clients of these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamesMissed(Command):
    """An event has come here for clients of these names, and some are not here."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamesActive(Fact, Generic[K]):
    """Events for the names of these keys find this broker."""

    keys: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class NamesAnswered(Fact):
    """Something has been found out of names that were asked for."""


@dataclass(frozen=True, slots=True)
class NamesWrong(Fact):
    """A broker has got an event for clients that it has no more."""

    uid: str
    wrong: NameWrong


@dataclass(slots=True)
class _Own:
    keys: dict[Hashable, None] = field(default_factory=dict)
    is_kept: bool = False  #: the registrar has confirmed it
    pause: Nanos = UNKEPT_NS  #: after which it is told again
    due: Nanos = 0


class DirectoryPart(Part):
    """The names of one broker's clients, what it keeps as a registrar, and what it has asked."""

    def __init__(self, ring: RingView, units: UnitsPart, post: Post) -> None:
        self._ring = ring
        self._units = units
        self._post = post
        self._own: dict[str, _Own] = {}
        self._names: dict[Hashable, str] = {}  #: of clients here, by key
        self._times: list[tuple[Nanos, str]] = []  #: heap: when a name is told; some out of date
        self._register = Register()
        self._lookups = Lookups()
        self._near: tuple[str, ...] = ()
        self._sides: tuple[Sequence[Member], Sequence[Member]] = ((), ())  #: these as members
        self._here: tuple[int | None, int | None] = (None, None)
        self._forget_at: Nanos | None = None

    # ── what others see ───────────────────────────────────────────────────────────────────────

    def holders(
        self, name: str, now: Nanos, is_there: Callable[[Holder], bool] = lambda holder: True
    ) -> Sequence[Holder] | None:
        """Return which brokers have clients of a name; None: that is to be asked for.

        ``is_there``: whether a way leads to a broker.
        """
        return self._lookups.get(name, now, is_there)

    # ── as a part ─────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """What brokers say of names."""
        return {
            NameAt: self._on_name_at,
            NameKept: self._on_kept,
            NameWanted: self._on_wanted,
            NameFound: self._on_found,
            NameWrong: self._on_wrong,
        }

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What clients here want."""
        return {
            NameTaken: self._on_taken,
            NamesDropped: self._on_dropped,
            NamesAsked: self._on_asked,
            NamesMissed: self._on_missed,
        }

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Tell names, ask for others again, and forget what lasts no longer."""
        effects: list[Effect] = []
        while self._times and self._times[0][0] <= now:
            due, name = heapq.heappop(self._times)
            own = self._own.get(name)
            if own is not None and own.due == due:
                effects += self._tell(name, own, now)
        again, is_given_up = self._lookups.due(now)
        for name in again:
            effects += self._ask(name, now)
        if is_given_up:
            effects.append(Notify(NamesAnswered()))
        if self._forget_at is not None and self._forget_at <= now:
            self._register.forget(now)
            self._forget_at = now + FORGET_NS if self._register.size else None
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` has something to do."""
        told = self._times[0][0] if self._times else None
        ends = (told, self._lookups.next_deadline(), self._forget_at)
        return min((end for end in ends if end is not None), default=None)

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Follow this broker's place, and its neighbours."""
        member, address = self._ring.member, self._units.address
        here = (
            member.ring_id if member is not None else None,
            address.packed if address is not None else None,
        )
        effects: list[Effect] = []
        if here != self._here:
            self._here = here
            for name, own in self._own.items() if member is not None else ():
                own.is_kept, own.pause = False, UNKEPT_NS  # the registrar may not have heard that
                effects += self._tell(name, own, now)
        sides = self._ring.left[:1], self._ring.right[:1]
        if sides == self._sides:
            return effects
        self._sides = sides
        near = tuple(dict.fromkeys(each.uid for side in sides for each in side))
        if near != self._near:
            fresh = [uid for uid in near if uid not in self._near]
            self._near = near
            copies = [*self._register.copies(now)] if fresh else ()
            effects += [Send(uid, copy) for uid in fresh for copy in copies]
        return effects

    # ── clients here ──────────────────────────────────────────────────────────────────────────

    def _on_taken(self, taken: NameTaken, now: Nanos) -> list[Effect]:
        own = self._own.setdefault(taken.name, _Own())
        own.keys[taken.key] = None
        self._names[taken.key] = taken.name
        if own.is_kept:
            return [Notify(NamesActive((taken.key,)))]
        return self._tell(taken.name, own, now)

    def _on_dropped(self, dropped: NamesDropped, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        for key in dropped.keys:
            name = self._names.pop(key, None)
            own = self._own.get(name) if name is not None else None
            if name is None or own is None:
                continue
            own.keys.pop(key, None)
            if not own.keys:
                del self._own[name]
                self._lookups.wrong(name, self._ring.peer.uid, now)
                effects += self._say(name, 0, now)
        return effects

    def _on_missed(self, missed: NamesMissed, now: Nanos) -> list[Effect]:
        """Tell registrars again that there are no such clients here: that word was lost."""
        gone = [name for name in missed.names if name not in self._own]
        return [effect for name in gone for effect in self._say(name, 0, now)]

    def _tell(self, name: str, own: _Own, now: Nanos) -> list[Effect]:
        own.due = now + own.pause
        own.pause = min(2 * own.pause, REFRESH_NS)
        heapq.heappush(self._times, (own.due, name))
        return self._say(name, LASTS_S, now)

    def _say(self, name: str, lasts_s: int, now: Nanos) -> list[Effect]:
        """Tell the registrar of a name that there are clients of it here, or none any more."""
        place, address = self._here
        if place is None:
            return []
        uid = self._ring.peer.uid
        told = NameAt(name, Holder(uid, place, address), lasts_s)
        if self._post.is_nearest(place_of(name)):
            return self._keep(told, now)
        return self._post.send(NEAREST, told, place_of(name))

    def _on_kept(self, key: LinkKey, kept: NameKept, now: Nanos) -> list[Effect]:
        own = self._own.get(kept.name)
        if own is None or own.is_kept:
            return []
        own.is_kept, own.pause = True, REFRESH_NS
        own.due = now + REFRESH_NS
        heapq.heappush(self._times, (own.due, kept.name))
        return [Notify(NamesActive(tuple(own.keys)))]

    # ── as a source ───────────────────────────────────────────────────────────────────────────

    def _on_asked(self, asked: NamesAsked, now: Nanos) -> list[Effect]:
        return [e for name in self._lookups.ask(asked.names, now) for e in self._ask(name, now)]

    def _ask(self, name: str, now: Nanos) -> list[Effect]:
        place, _ = self._here
        if place is None:
            return []
        uid = self._ring.peer.uid
        wanted = NameWanted(name, uid, place)
        if self._post.is_nearest(place_of(name)):
            return self._answer(wanted, now)
        return self._post.send(NEAREST, wanted, place_of(name))

    def _on_found(self, key: LinkKey, found: NameFound, now: Nanos) -> list[Effect]:
        self._lookups.found(found.name, found.holders, now)
        return [Notify(NamesAnswered())]

    def _on_wrong(self, key: LinkKey, wrong: NameWrong, now: Nanos) -> list[Effect]:
        stale = [name for name in wrong.names if self._lookups.wrong(name, key[0], now)]
        effects = [e for name in self._lookups.ask(stale, now) for e in self._ask(name, now)]
        return [*effects, Notify(NamesWrong(key[0], wrong))]

    # ── as a registrar ────────────────────────────────────────────────────────────────────────

    def _on_name_at(self, key: LinkKey, told: NameAt, now: Nanos) -> list[Effect]:
        if told.is_copy:
            if key[0] in self._near:
                self._note(told, now)
            return []
        if key[0] != told.holder.uid:
            return []  # a broker speaks of itself alone
        return self._keep(told, now)

    def _note(self, told: NameAt, now: Nanos) -> bool:
        self._forget_at = self._forget_at or now + FORGET_NS
        return self._register.take(told, now)

    def _keep(self, told: NameAt, now: Nanos) -> list[Effect]:
        if not self._note(told, now):
            return []
        copy = NameAt(told.name, told.holder, told.lasts_s, is_copy=True)
        effects: list[Effect] = [Send(uid, copy) for uid in self._near]
        if not told.lasts_s:
            return effects
        return [
            *effects,
            *self._reply(told.holder.uid, told.holder.place, NameKept(told.name), now),
        ]

    def _on_wanted(self, key: LinkKey, wanted: NameWanted, now: Nanos) -> list[Effect]:
        return self._answer(wanted, now)

    def _answer(self, wanted: NameWanted, now: Nanos) -> list[Effect]:
        holders = self._register.holders(wanted.name, now)
        left = self._ring.left[:1]
        if not holders and not wanted.is_second and left:
            second = NameWanted(wanted.name, wanted.asker, wanted.place, is_second=True)
            return [Send(left[0].uid, second)]
        found = NameFound(wanted.name, holders[:MAX_HOLDERS])
        return self._reply(wanted.asker, wanted.place, found, now)

    def _reply(self, uid: str, place: int, message: Message, now: Nanos) -> list[Effect]:
        """Send a message to a broker, which may be this one."""
        if uid != self._ring.peer.uid:
            return self._post.send(uid, message, place)
        return self.messages[type(message)]((uid, LinkClass.NORMAL), message, now)
