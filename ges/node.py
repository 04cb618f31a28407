"""One broker's protocol state: the ring, and the parts beside it.

A :class:`overlay.machine.Machine` that composes :class:`ring.node.RingNode` with what the event
service adds between brokers. Pure; ``ges.broker.broker`` runs it on trio.

A table says which part takes a message or a command; what no part takes is the ring's. All parts
hear of links and facts, each in its turn (:mod:`ges.telling.part`), and :mod:`ges.following` says
which part follows which change. A new part is written as a :class:`~ges.telling.part.Part` and gets
its row there.
"""

from __future__ import annotations

import random

from ges.directory.directory_part import DirectoryPart
from ges.following import Following
from ges.gateways.gateways_part import GatewaysPart
from ges.gateways.losses_part import LossesPart
from ges.profiles.profiles_part import ProfilesPart
from ges.retained.retained_part import RetainedPart
from ges.statements.held import Statements
from ges.statements.statements_part import StatementsPart
from ges.telling.changes import Change, Changes
from ges.telling.mailbox import Mailbox
from ges.telling.part import CommandHandler, MessageHandler, Part, earliest
from ges.telling.post import Post
from ges.topology.declared_links import DeclaredLinks
from ges.topology.parallel_links import ExpressLinks, SecureLinks
from ges.topology.revocation_lists import RevocationLists
from ges.topology.survey import Survey
from ges.topology.survey_part import SurveyPart
from ges.topology.uid_in_use import UidWatch
from ges.units.planner import UnitsConfig
from ges.units.room import RoomPart
from ges.units.units_part import UnitsPart
from ges.wire.directory_messages import DIRECTORY_MESSAGES
from ges.wire.link_codec import LINK_CODEC
from ges.wire.matter import Matter
from ges.wire.profile_messages import PROFILE_MESSAGES
from ges.wire.recall_messages import RECALL_MESSAGES
from ges.wire.relocation_messages import ROOM_MESSAGES
from ges.wire.telling_messages import Rows, RowsWanted
from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import (
    CloseLink,
    Command,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    MessageReceived,
    Notify,
    Refused,
)
from overlay.multigraph.express_range import DEFAULT_RANGE_NS
from overlay.multigraph.probes import Pace
from overlay.security.revocation import Revocations
from ring.config import RingConfig
from ring.node import RingNode

#: What members send each other by :mod:`ges.telling.post`, whether they are linked or not.
BY_POST: tuple[type[Message], ...] = (*PROFILE_MESSAGES, *RECALL_MESSAGES, RowsWanted, Rows)
BY_POST += (*DIRECTORY_MESSAGES, *ROOM_MESSAGES)


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
        units: UnitsConfig | None = None,
        event_links: tuple[str, ...] = (),
        level_costs: bool = False,
    ) -> None:
        """Take who is revoked, with an identity; the express range and how often links are probed.

        The range is one way, in nanoseconds. ``units``: how many sub-units a unit may have.
        ``event_links``: URLs of brokers, links to which are named for events. ``level_costs``: what
        is measured of links counts for no path.

        Raises:
            ConfigError: the express range makes no sense.
        """
        self.ring = RingNode(config, peer, rng)
        self._changes = changes = Changes()
        self._normal_links: dict[str, Peer] = {}  #: who is at the other end, by uid
        normal = self._normal_links
        self.revocation_lists = lists = RevocationLists(revocations, normal)
        self.declared = declared = DeclaredLinks(self.ring, normal, rng, changes, event_links)
        self.survey = Survey(rng, changes, express_range_ns=express_range_ns, pace=pace)
        self._secure_links = SecureLinks(peer, rng, normal, lists.forbids)
        self._express_links = ExpressLinks(peer, rng, normal, self.survey)
        self.units = UnitsPart(self.ring, normal, changes, units)
        #: Messages for members that are not linked to here.
        self.post = post = Post(self.units.around, LINK_CODEC, self._deliver)
        self.room = RoomPart(self.units, post, rng)
        up = {LinkClass.SECURE: self._secure_links.up, LinkClass.EXPRESS: self._express_links.up}
        self.statements = Statements()
        self.gateways = GatewaysPart(
            self.ring,
            self.units,
            self.survey,
            post,
            up,
            self.statements,
            declared,
            changes,
            lists.forbids,
            level_costs=level_costs,
        )
        self.losses = LossesPart(self.units, self.gateways, self.statements)
        self.profiles = ProfilesPart(self.ring, self.units, post, changes)
        self.statements_part = StatementsPart(
            peer.uid, self.units, self.gateways, self.profiles, self.statements, changes
        )
        self.retained = RetainedPart(self.units, self.gateways, post)
        self.directory = DirectoryPart(self.ring, self.units, post)
        self._uid_watch = UidWatch(self.ring)
        #: In the order in which they hear of links and facts, run their timers and settle.
        self.parts: tuple[Part, ...] = (
            declared,
            self._secure_links,
            self._express_links,
            SurveyPart(self.survey),
            lists,
            self.units,
            post,
            self.room,
            Mailbox(self.units.spread),
            self.gateways,
            self.losses,
            self.profiles,
            self.statements_part,
            self.retained,
            self.directory,
        )
        #: Asked after each input: the parts that have an answer of their own.
        self._deadlines = [self.ring.next_deadline]
        nothing = Part.next_deadline
        timed = (each for each in self.parts if type(each).next_deadline is not nothing)
        self._deadlines += [each.next_deadline for each in timed]
        self._following = Following(changes, self.ring, self.parts)
        self._on_message: dict[type[Message], MessageHandler] = {}
        self._on_command: dict[type[Command], CommandHandler] = {}
        for part in self.parts:
            self._on_message |= part.messages
            self._on_command |= part.commands

    @property
    def peer(self) -> Peer:
        """How others reach this broker; the incarnation may grow."""
        return self.ring.peer

    @property
    def secure_links(self) -> tuple[str, ...]:
        """Uids at the other end of secure links."""
        return tuple(sorted(self._secure_links.up))

    @property
    def express_links(self) -> tuple[str, ...]:
        """Uids at the other end of express links that keep their promise now."""
        return tuple(sorted(uid for uid in self._express_links.up if self.survey.is_express(uid)))

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made; None is yes."""
        return self.ring.admit(peer)

    def mask_of(self, matter: Matter) -> int:
        """Return the slots of the members that want an event, as a mask, and other units.

        Of one of which nothing is known it may be. But secure events are only for those that
        have a secure link: others cannot have subscribed to any.
        """
        index, statements = self.profiles.index, self.statements
        unknown = index.unknown
        if unknown and matter.link_class.is_secret:
            unknown &= self.gateways.tables[matter.link_class].nodes
        return index.certain_mask_of(matter) | unknown | statements.mask_of(matter)

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take one input at time ``now`` and return what is to be done, in order."""
        if isinstance(event, MessageReceived):
            effects = self._take_message(event, now)
        elif isinstance(event, LinkUp | LinkDown | LinkRefused):
            effects = self._take_link(event, now)
        else:
            take = self._on_command.get(type(event), self.ring.handle)
            effects = take(event, now)
        return self._finish(effects, now)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Run what has come due by ``now``, of the ring and of all parts."""
        effects: list[Effect] = []
        due = self.ring.next_deadline()
        if due is not None and due <= now:
            effects += self.ring.handle_timers(now)
        for part in self.parts:
            effects += part.handle_timers(now)
        return self._finish(effects, now)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` is to be called; None if no timer is set."""
        return earliest(self._deadlines)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _take_message(self, event: MessageReceived, now: Nanos) -> list[Effect]:
        take = self._on_message.get(type(event.message))
        if take is not None:
            return take((event.uid, event.link_class), event.message, now)
        # The ring's messages count on normal links alone.
        return self.ring.handle(event, now) if event.link_class.is_base else []

    def _deliver(self, uid: str, message: Message, now: Nanos) -> list[Effect]:
        """Take what a member has sent that is not linked to here."""
        if not isinstance(message, BY_POST):
            return []
        take = self._on_message[type(message)]
        return take((uid, LinkClass.NORMAL), message, now)

    def _take_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        self._changes.mark(Change.LINKS)
        if event.link_class.is_base:
            effects += self._take_normal_link(event, now)
        for part in self.parts:
            effects += part.on_link(event, now)
        return effects

    def _take_normal_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, LinkRefused):  # first, as the ring may lose its place by it
            effects += self._uid_watch.on_refused(event, now)
        effects += self.ring.handle(event, now)
        if isinstance(event, LinkUp):
            self._normal_links[event.peer.uid] = event.peer
            for part in self.parts:
                effects += part.greet(event.peer.uid)
        elif isinstance(event, LinkDown):
            self._normal_links.pop(event.uid, None)
        return effects

    def _finish(self, effects: list[Effect], now: Nanos) -> list[Effect]:
        """Let all parts follow what was decided: links that the ring closes, and facts."""
        for effect in tuple(effects):
            if isinstance(effect, CloseLink) and effect.link_class.is_base:
                self._normal_links.pop(effect.uid, None)
                self._changes.mark(Change.LINKS)
                for part in self.parts:
                    effects += part.on_close(effect, now)
            elif isinstance(effect, Notify):
                self._changes.mark(Change.FACTS)
                for part in self.parts:
                    effects += part.on_fact(effect.fact, now)
        return effects + self._following.settle(now)
