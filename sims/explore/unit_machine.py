"""One broker of an explored overlay: all that has to do with units, over a ring at rest.

The parts are those of :class:`ges.node.BrokerNode` that form units and state what is wanted in
them. In place of the ring node stands a :class:`StillRing`: it knows who is there, as this broker
has heard so far, and everybody there is linked. How a ring heals is explored by
:mod:`sims.explore.explorer`; here a broker is there, or is gone, as soon as that is told.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ges.following import Following
from ges.gateways.gateways_part import GatewaysPart
from ges.profiles.profiles_part import ProfilesPart, Wanted
from ges.statements.held import Statements
from ges.statements.statements_part import ActiveIn, StatementsPart
from ges.telling.changes import Change, Changes
from ges.telling.part import MessageHandler, Part
from ges.telling.post import Post
from ges.topology.declared_links import DeclaredLinks
from ges.topology.survey import Survey
from ges.units.planner import UnitsConfig
from ges.units.units_part import UnitsPart
from ges.wire.asked import Ask
from ges.wire.client_messages import Level
from ges.wire.link_codec import LINK_CODEC
from ges.wire.matter import Matter
from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import Closed, Effect, Input, LinkDown, LinkUp, Message, Notify
from overlay.rng import rng_for
from ring.facts import Departed
from ring.geometry import clockwise
from ring.joining.guide import Guide
from ring.wire.messages import Member

NORMAL = LinkClass.NORMAL


@dataclass(frozen=True, slots=True)
class Enter:
    """This broker has its place on the ring, beside these."""

    others: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Here:
    """Another broker has its place on the ring, and is linked."""

    member: Member


@dataclass(frozen=True, slots=True)
class Gone:
    """Another broker is dead, and so are its links."""

    member: Member


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A client of this broker wants something."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Came:
    """A message has come."""

    uid: str
    message: Message


@dataclass(frozen=True, slots=True)
class Clock:
    """Timers may be due."""


Given = Enter | Here | Gone | Subscribed | Came | Clock


class StillRing:
    """A ring at rest, as one broker sees it; see :class:`ges.units.view.LinkedRing`."""

    def __init__(self, member: Member) -> None:
        self.peer = member.peer
        self.member: Member | None = None
        self.linked: dict[str, Member] = {}
        self.detours: dict[str, tuple[str, ...]] = {}  #: none: no link fails

    @property
    def left(self) -> tuple[Member, ...]:
        """Left and left-left."""
        return self._beside()[:-3:-1]

    @property
    def right(self) -> tuple[Member, ...]:
        """Right and right-right."""
        return self._beside()[:2]

    def be_guided(self, guide: Guide) -> None:
        """Newcomers have their places before they are explored."""

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """A broker that is to move stays where it is."""
        return []

    def _beside(self) -> tuple[Member, ...]:
        """Return all others, going right from here."""
        if self.member is None:
            return ()
        here = self.member.ring_id
        return tuple(sorted(self.linked.values(), key=lambda m: clockwise(here, m.ring_id)))


class UnitMachine:
    """The machine of one broker; what it is given comes in by :meth:`take`."""

    def __init__(self, member: Member, config: UnitsConfig) -> None:
        """``member``: what it will be on the ring."""
        self.own = member
        self.ring = StillRing(member)
        self.active: dict[Hashable, Level] = {}  #: how far subscriptions here are active
        self.statements = Statements()
        self._normal: dict[str, Peer] = {}
        self._changes = changes = Changes()
        self.units = units = UnitsPart(self.ring, self._normal, changes, config)
        uid = member.peer.uid
        post = Post(units.around, LINK_CODEC, self._deliver)
        rng = rng_for(uid, "explored")
        survey = Survey(rng, changes)
        declared = DeclaredLinks(self.ring, self._normal, rng, changes)
        up: dict[LinkClass, set[str]] = {LinkClass.SECURE: set(), LinkClass.EXPRESS: set()}
        self.gateways = GatewaysPart(
            self.ring, units, survey, post, up, self.statements, declared, changes
        )
        self.profiles = ProfilesPart(self.ring, units, post, changes)
        self.stating = StatementsPart(
            uid, units, self.gateways, self.profiles, self.statements, changes
        )
        self._parts: tuple[Part, ...] = (
            units,
            post,
            self.gateways,
            self.profiles,
            self.stating,
        )
        self._following = Following(changes, self.ring, self._parts)
        self._on_message: dict[type[Message], MessageHandler] = {}
        for part in self._parts:
            self._on_message |= part.messages

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""
        return self.ring.member

    def take(self, given: Given, now: Nanos) -> list[Effect]:
        """Take what befalls the broker; return what it does."""
        effects: list[Effect] = []
        match given:
            case Enter(others):
                self.ring.member = self.own
                for member in others:
                    effects += self._link(member, now)
            case Here(member):
                effects += self._link(member, now)
            case Gone(member):
                self.ring.linked.pop(member.uid, None)
                self._normal.pop(member.uid, None)
                self._changes.mark(Change.LINKS)
                for part in self._parts:
                    effects += part.on_link(LinkDown(member.uid, Closed.LOST), now)
                effects.append(Notify(Departed(member)))
            case Subscribed(ask):
                wanted = Wanted(ask, ask)
                effects += self.profiles.commands[Wanted](wanted, now)
            case Came(uid, message):
                effects += self._on_message[type(message)]((uid, NORMAL), message, now)
            case Clock():
                for part in self._parts:
                    effects += part.handle_timers(now)
        return self._finish(effects, now)

    def next_deadline(self) -> Nanos | None:
        """Return when timers are due; None: none is set."""
        found = (part.next_deadline() for part in self._parts)
        return min((due for due in found if due is not None), default=None)

    def is_for(self, topic: bytes, other: UnitMachine) -> bool:
        """Say whether an event that is published here now would be sent towards another broker."""
        gateways, member = self.gateways, other.own
        if not gateways.is_for_all:
            return True  # it goes to all
        index = self.profiles.index
        named = index.certain_mask_of(Matter(NORMAL, topic)) | index.unknown
        named |= self.statements.mask_of(Matter(NORMAL, topic))
        node = gateways.node_at(member.ring_id)
        if node is None:
            node = gateways.slots.get(member.uid)
        return node is not None and bool(named >> node & 1)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _link(self, member: Member, now: Nanos) -> list[Effect]:
        self.ring.linked[member.uid] = member
        self._normal[member.uid] = member.peer
        self._changes.mark(Change.LINKS)
        effects = [each for part in self._parts for each in part.greet(member.uid)]
        for part in self._parts:
            effects += part.on_link(LinkUp(member.peer, member.peer.url), now)
        return effects

    def _deliver(self, uid: str, message: Message, now: Nanos) -> list[Effect]:
        take = self._on_message.get(type(message))
        return take((uid, NORMAL), message, now) if take is not None else []

    def _finish(self, effects: list[Effect], now: Nanos) -> list[Effect]:
        for effect in tuple(effects):
            if isinstance(effect, Notify):
                self._changes.mark(Change.FACTS)
                for part in self._parts:
                    effects += part.on_fact(effect.fact, now)
        effects += self._following.settle(now)
        for effect in effects:
            if isinstance(effect, Notify) and isinstance(effect.fact, ActiveIn):
                self.active |= dict.fromkeys(effect.fact.keys, effect.fact.level)
        return effects
