"""One broker's part in the ring: each input goes to those it concerns, then all settle down.

The rules are in the parts, each under the name the paper gives it (:mod:`ring.coordination.parts`
lists them); what concerns several of them at once is in the coordinators:
:mod:`ring.coordination.views`, :mod:`ring.coordination.membership`,
:mod:`ring.coordination.deaths`, :mod:`ring.coordination.link_events`.
:mod:`ring.coordination.dispatch` says which message and which timer goes where.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from overlay.ids import Nanos, Peer
from overlay.machine import (
    Command,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    Refused,
)
from ring.circle.searches import Finding
from ring.config import RingConfig
from ring.coordination.deaths import Deaths
from ring.coordination.dispatch import DOUBTFUL_TIMERS, PASSIVE, PASSIVE_TIMERS, Dispatch
from ring.coordination.link_events import LinkEvents
from ring.coordination.membership import Membership
from ring.coordination.parts import Parts
from ring.coordination.views import Views
from ring.core import Timer
from ring.facts import (
    DropRecord,
    Found,
    Join,
    KeepLinks,
    Leave,
    Locate,
    Located,
    Move,
    PutRecord,
    ReportLoad,
    Reseed,
)
from ring.geometry import RING_SIZE
from ring.joining.guide import Guide
from ring.records.holders import BackupStatus
from ring.verdicts import Ruling
from ring.wire.messages import Heartbeat, Member, Purpose, Relay


class RingNode:
    """The ring protocol of one broker, a :class:`overlay.machine.Machine`."""

    def __init__(self, config: RingConfig, peer: Peer, rng: random.Random) -> None:
        self.parts = parts = Parts.build(config, peer, rng)  #: for those who look inside
        self._core = parts.core
        self._links = parts.links
        self._hood = parts.hood
        self._duties = parts.duties
        self._views = Views(parts)
        self._membership = Membership(parts, self._views)
        self._deaths = Deaths(parts, self._membership)
        self._link_events = LinkEvents(parts, self._views, self._membership, self._deaths)
        dispatch = Dispatch(parts, self._views, self._membership, self._deaths)
        self._on_message = dispatch.messages
        self._on_timer = dispatch.timers
        self._kept: dict[str, Peer] = {}  #: links that the layer above wants, by uid
        self._followed = (-1, -1)  #: generation of links and version of our view, for the duties

    def be_guided(self, guide: Guide) -> None:
        """Let the layer above say where newcomers are to stand, and what this one wishes."""
        self.parts.owner.guide = self.parts.newcomer.guide = guide

    # ── what a driver and the layer above see ─────────────────────────────────────────────────

    @property
    def peer(self) -> Peer:
        """This broker's uid, incarnation and address, as it tells them to others."""
        return self._core.peer

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""
        return self._core.member if self._core.joined else None

    @property
    def left(self) -> tuple[Member, ...]:
        """Left and left-left, as far as they exist."""
        return self._hood.left

    @property
    def right(self) -> tuple[Member, ...]:
        """Right and right-right, as far as they exist."""
        return self._hood.right

    @property
    def chords(self) -> tuple[Member, ...]:
        """Chords by level; level 0 is right-right."""
        return tuple(self.parts.chords.levels)

    @property
    def linked(self) -> dict[str, Member]:
        """Members this broker has links to, by uid; the degree is their number."""
        return {uid: link.member for uid, link in self._links.up.items() if link.member}

    @property
    def expected(self) -> tuple[Member, ...]:
        """Who stands in the pointers, and who would if all it has heard of prove alive."""
        has_place = self._core.ring_id is not None
        return tuple(self._hood.nearest_wanted().values()) if has_place else ()

    @property
    def is_whole(self) -> bool:
        """The neighbours on both sides show that this broker stands between them."""
        return self._core.joined and self._hood.agrees()

    def is_dead(self, peer: Peer) -> bool:
        """Say whether that life of ``peer`` was declared dead."""
        return self.parts.hood.is_dead(peer.uid, peer.incarnation, at_any_time=True)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Uids of neighbours under suspicion now."""
        return tuple(self.parts.suspicions.open)

    @property
    def detours(self) -> Mapping[str, tuple[str, ...]]:
        """Ways round failed links, as they are now: uid -> uids from this broker to that one."""
        return self._core.detours

    @property
    def verdicts(self) -> tuple[Ruling, ...]:
        """The latest verdicts, link or broker, oldest first."""
        return self._core.verdicts.all

    @property
    def known_urls(self) -> tuple[str, ...]:
        """URLs of members around, for those who need another broker than this one."""
        return tuple(dict.fromkeys(m.peer.url for m in self._hood.known().values()))

    @property
    def known(self) -> tuple[Member, ...]:
        """Members this broker could turn to if its neighbours failed."""
        return tuple(self._hood.known().values())

    @property
    def armed(self) -> tuple[tuple[Timer, str], ...]:
        """Keys of the timers that run."""
        return self._core.timers.keys()

    def expire(self, timer: tuple[Timer, str], now: Nanos) -> list[Effect]:
        """Let one timer run out before its time, for those who explore what may happen."""
        self._core.timers.set(timer, now)
        return self.handle_timers(now)

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for those who explore.

        States of a broker that differ in nothing else are one after this.
        """
        parts, version = self.parts, self._hood.version
        self._followed = (self._followed[0], int(self._followed[1] == version))
        self._links.normalise(version, self._hood.remembered.values())
        self._views.normalise()
        parts.detector.normalise()
        parts.dead_runs.normalise()
        parts.link_backups.normalise()
        parts.newcomer.normalise()
        self._hood.normalise()  # last: the others compare with the version of our view

    @property
    def records(self) -> dict[str, bytes]:
        """The records this broker owns."""
        return {key: own.body for key, own in self._duties.backups.own.items()}

    @property
    def kept(self) -> frozenset[str]:
        """Keys of all records that we have bytes of, of all owners."""
        duties = self._duties
        copies = {key for key, copy in duties.replicas.records.items() if copy.body is not None}
        return frozenset(copies | duties.backups.own.keys() | duties.reclaimer.suspended.keys())

    @property
    def backups(self) -> tuple[BackupStatus, ...]:
        """The brokers that keep copies of our records, and whether they have the latest."""
        return self._duties.backups.status

    def draw_turn(self) -> Nanos:
        """Return how many nanoseconds to wait before a leave that others may begin as well."""
        return self._membership.draw_turn()

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made."""
        return self._link_events.admit(peer)

    def heard(self, uid: str, now: Nanos) -> None:
        """Note traffic from ``uid`` that did not come as an input, such as events."""
        link = self._links.up.get(uid)
        if link is not None:
            link.heard_at = now

    def told(self, uid: str, now: Nanos) -> None:
        """Note that ``uid`` was sent something that was no effect, such as events.

        It saves a heartbeat; and a link that is no ring link is watched only if things go over it.
        """
        if uid in self._links.up:
            self._core.told[uid] = now
            self.parts.event_links.told(uid, now)

    # ── inputs ────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take one input; after :class:`~ring.facts.Left` there are no more effects."""
        core = self._core
        core.now = now
        if self._membership.gone:
            return []
        if isinstance(event, MessageReceived):
            if not self._on_message_received(event):
                return core.take()
        elif isinstance(event, LinkUp):
            self._link_events.on_up(event)
        elif isinstance(event, LinkDown):
            self._link_events.on_down(event)
        elif isinstance(event, LinkRefused):
            self._link_events.on_refused(event)
        else:
            self._on_command(event)
        self._settle_down()
        return core.take()

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Run all timers that are due at ``now``; late ones show that this process stood still."""
        core = self._core
        core.now = now
        self.parts.detector.forgive_pause(now)
        changes = self._hood.changes
        passive = True
        while (key := core.timers.pop_expired(now)) is not None:
            kind, subject = key
            moved = self._on_timer[kind](subject)
            if kind not in PASSIVE_TIMERS and (moved or kind not in DOUBTFUL_TIMERS):
                passive = False
        if not passive or self._hood.changes != changes:
            self._settle_down()
        return core.take()

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`handle_timers` is to be called; None if no timer is set."""
        return self._core.timers.next_deadline()

    def _on_message_received(self, event: MessageReceived) -> bool:
        """Handle a message; returns whether anything may have changed that others follow."""
        uid, message, now = event.uid, event.message, self._core.now
        link = self._links.up.get(uid)
        if link is None:
            return False  # crossed with our own closing of that link
        if type(message) is Heartbeat:
            self.parts.detector.on_heartbeat(uid, now - link.heard_at)
        link.heard_at = now
        changes = self._hood.changes
        self._deaths.on_heard(uid)
        if isinstance(message, Relay):
            arrived = self.parts.detours.on_relay(uid, message)
            if arrived is None:
                return self._hood.changes != changes
            uid, message = arrived
            self._links.up[uid].heard_at = now
            self._deaths.on_heard(uid)
        self._on_message[type(message)](uid, message)
        is_passive = self._core.joined and type(message) in PASSIVE
        return not is_passive or self._hood.changes != changes

    def _on_command(self, command: Command) -> None:
        if isinstance(command, Found):
            self._membership.found(command.ring_id)
        elif isinstance(command, Join):
            self._membership.join(command.seeds, command.bootstrap, patient=command.patient)
        elif isinstance(command, Reseed):
            self._membership.reseed(command.seeds)
        elif isinstance(command, Leave):
            self._membership.leave(command.turn)
        elif isinstance(command, Move):
            self._membership.move(command.reason)
        elif isinstance(command, Locate):
            self._locate(command)
        elif isinstance(command, PutRecord):
            self._duties.put(command.key, command.body)
        elif isinstance(command, DropRecord):
            self._duties.drop(command.key)
        elif isinstance(command, KeepLinks):
            self._kept = {peer.uid: peer for peer in command.peers}
        elif isinstance(command, ReportLoad):
            self._duties.on_load(command.permille)

    def _locate(self, command: Locate) -> None:
        def tell(found: Finding) -> None:
            self._core.notify(
                Located(
                    command.target,
                    command.uid,
                    found.reached,
                    found.member,
                    found.path,
                    found.hops,
                )
            )

        self.parts.routing.find(command.target % RING_SIZE, tell, uid=command.uid)

    # ── after every input ─────────────────────────────────────────────────────────────────────

    def _settle_down(self) -> None:
        """Bring pointers, links, views and chords up to what the input has changed."""
        if self._membership.gone:
            return
        parts, membership = self.parts, self._membership
        core, hood, chords = parts.core, parts.hood, parts.chords
        self._link_events.on_broken_detours()
        given_up = parts.chord_queries.given_up
        while given_up:
            chords.on_dead(given_up.pop(), None)
        if core.joined:
            while hood.refresh():
                self._on_neighbours_changed()
            chords.follow()
            parts.dead_runs.follow()
        elif membership.take_place():
            hood.refresh()
            self._on_neighbours_changed()
            chords.follow()
        self._want_links()
        if core.joined:
            membership.notice_solitude()
            self._views.send_changes()
            parts.repair.check()
            chords.check()
            parts.detector.follow(parts.repair.about)
            now_at = (parts.links.generation, hood.version)
            if self._followed != now_at or parts.duties.is_dirty:
                self._followed = now_at
                parts.duties.follow()
            membership.go_if_done()

    def _on_neighbours_changed(self) -> None:
        self._hood.learn_again()
        self._deaths.on_neighbours_changed()
        self._membership.on_neighbours_changed()

    def _want_links(self) -> None:
        parts, core = self.parts, self._core
        wanted = {uid: (peer, Purpose.CHORD) for uid, peer in self._kept.items()}
        for part in (parts.newcomer, parts.chords, parts.dead_runs):
            for uid, peer in part.wanted.items():
                wanted[uid] = (peer, Purpose.CHORD)
        if core.detours:
            for uid, peer in parts.detours.first_hops().items():
                wanted[uid] = (peer, Purpose.CHORD)
        if core.ring_id is not None:
            for uid, member in self._hood.nearest_wanted().items():
                wanted[uid] = (member.peer, Purpose.RING)
                if uid in self._hood.candidates:
                    self._links.hurry(member.peer)
        wanted.pop(core.peer.uid, None)
        self._links.want(wanted, parts.repair.about)
