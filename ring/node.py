"""One broker's part in the ring: composes the parts and sends each input to those it concerns.

The rules are in the parts, each under the name the paper gives it:
:mod:`~ring.join`, :mod:`~ring.neighbourhood`, :mod:`~ring.detector`, :mod:`~ring.confirmation`,
:mod:`~ring.repair`, :mod:`~ring.chords`, :mod:`~ring.backups`, :mod:`~ring.duties`;
:mod:`~ring.links` keeps the links they ask for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from overlay.ids import Nanos, Peer
from overlay.machine import (
    Closed,
    Command,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
    MessageReceived,
    Refused,
)
from ring.carriers import Carriers
from ring.chords import Chords
from ring.config import ChordStrategy, RingConfig
from ring.confirmation import Suspicions, Test, Tests, Verdict
from ring.core import Core, Timer
from ring.detector import Detector
from ring.detours import Detours, Handlers
from ring.drawn import DrawnChords
from ring.duties import Duties
from ring.facts import (
    Alone,
    Confirmed,
    Departed,
    Detoured,
    DetourEnded,
    DropRecord,
    Found,
    Join,
    Joined,
    Leave,
    Left,
    LinkFailed,
    Locate,
    Located,
    PutRecord,
    Reincarnated,
    Rejoining,
    ReportLoad,
)
from ring.geometry import FIRST_ID
from ring.health import LocalHealth
from ring.holders import BackupStatus
from ring.join import GapOwner, Newcomer, Phase
from ring.links import Link, Links
from ring.merge import Merge
from ring.messages import (
    Backup,
    ChordAnswer,
    ChordQuery,
    Dispute,
    Failed,
    Fence,
    Forget,
    Heartbeat,
    HeldDead,
    IndexRequest,
    Intent,
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Knock,
    Leaving,
    Meet,
    Member,
    Offer,
    OfferAnswer,
    Peers,
    PeersRequest,
    Ping,
    Pong,
    Purpose,
    Reclaim,
    ReclaimAnswer,
    RecordIndex,
    RecordRequest,
    RecordSummary,
    Relay,
    Replicate,
    Route,
    Routed,
    RouteHeard,
    SummaryAgreed,
    Tested,
    TestNeighbour,
    Towards,
    View,
    ViewRequest,
)
from ring.neighbourhood import Neighbourhood
from ring.queries import Queries
from ring.repair import Repair
from ring.routing import Finding, Routing
from ring.runs import Runs
from ring.verdicts import Ruling

MAX_PEERS_TOLD = 64
SEEKS_IN_VAIN = 4  #: after that many a broker that lost its ring founds one

#: Most of what happens in a quiet ring; it moves no pointer unless the neighbourhood says so.
_PASSIVE = frozenset(
    {
        Heartbeat,
        Ping,
        ViewRequest,
        Backup,
        PeersRequest,
        ChordQuery,
        RouteHeard,
        RecordSummary,
        SummaryAgreed,
        IndexRequest,
        RecordIndex,
        RecordRequest,
        Replicate,
        Forget,
        Fence,
        Dispute,
        Offer,
        Reclaim,
        ReclaimAnswer,
    }
)
_PASSIVE_TIMERS = frozenset({Timer.HEARTBEAT, Timer.SILENT, Timer.COPY, Timer.RECONCILE})

#: Ends of a link that say nothing about its quality.
_WITH_A_WORD = frozenset({Closed.UNWANTED, Closed.LEAVING, Closed.DECLARED_DEAD, Closed.REPLACED})
_NO_WAY_THERE = frozenset({Refused.UNREACHABLE, Refused.TIMEOUT})


class RingNode:
    """The ring protocol of one broker, a :class:`overlay.machine.Machine`."""

    def __init__(self, config: RingConfig, peer: Peer, rng: random.Random) -> None:
        self._core = core = Core(config, peer, rng)
        self._links = links = Links(core)
        self._hood = hood = Neighbourhood(core, links)
        health = LocalHealth()
        self._detector = detector = Detector(core, links, hood, health)
        self._suspicions = Suspicions(core, links, hood, detector, health)
        self._tests = Tests(core, links, detector, health)
        self._repair = Repair(core, links, hood)
        self._routing = Routing(core, links, hood)
        self._chords = chords = (
            Chords(core, links, hood)
            if config.chords is ChordStrategy.RANK
            else DrawnChords(core, links, hood, self._routing)
        )
        self._runs = Runs(core, links, hood, self._routing)
        self._carriers = Carriers(core, links)
        self._duties = duties = Duties(core, links, hood)
        self._newcomer = Newcomer(core, links, hood)
        self._owner = GapOwner(core, links, hood, chords)
        self._detours = Detours(
            core,
            links,
            hood,
            Handlers(
                self._admit_detour, self._on_detour_up, self._on_detour_down, self._on_no_detour
            ),
        )
        self._queries = Queries(core, links, self._routing, self._detours)
        self._merge = Merge(core, links, hood)
        self._seeds: tuple[str, ...] = ()
        self._had_neighbours = False
        self._alone = False  #: and that has been told
        self._gone = False
        self._followed = (-1, -1)  #: the same when duties last followed them
        self._shown = (-1, -1)  #: generation of links and version of our view when last shown
        self._on_message: dict[type[Message], Callable[[str, Any], None]] = {
            Heartbeat: self._on_heartbeat,
            Ping: self._on_ping,
            Pong: self._on_pong,
            Intent: links.on_intent,
            View: self._on_view,
            ViewRequest: self._on_view_request,
            Backup: self._repair.on_backup,
            PeersRequest: self._on_peers_request,
            Peers: lambda uid, peers: self._newcomer.on_peers(peers),
            JoinRequest: self._owner.on_request,
            JoinAccept: self._on_join_accept,
            JoinRefuse: lambda uid, refuse: self._newcomer.on_refuse(refuse),
            TestNeighbour: self._on_test_neighbour,
            Tested: self._on_tested,
            Failed: self._on_failed,
            Leaving: self._on_leaving,
            ChordQuery: self._chords.on_query,
            ChordAnswer: self._chords.on_answer,
            Knock: self._on_knock,
            Route: self._on_route,
            RouteHeard: self._routing.on_heard,
            Routed: self._routing.on_routed,
            Meet: self._merge.on_meet,
            HeldDead: self._on_held_dead,
            RecordSummary: self._on_record_summary,
            SummaryAgreed: self._on_summary_agreed,
            IndexRequest: duties.backups.on_index_request,
            RecordIndex: duties.replicas.on_index,
            RecordRequest: duties.backups.on_record_request,
            Replicate: duties.replicas.on_replicate,
            Forget: duties.replicas.on_forget,
            Fence: duties.replicas.on_fence,
            Dispute: duties.replicas.on_dispute,
            Offer: duties.handover.on_offer,
            OfferAnswer: self._on_offer_answer,
            Reclaim: duties.reclaimer.on_reclaim,
            ReclaimAnswer: duties.reclaimer.on_answer,
        }
        self._on_timer: dict[Timer, Callable[[str], None]] = {
            Timer.HEARTBEAT: self._on_heartbeat_due,
            Timer.SILENT: self._on_silent,
            Timer.TEST: lambda uid: self._settle(self._suspicions.on_no_answer(uid)),
            Timer.PROBE: lambda uid: self._on_test_failed(uid, self._tests.on_due(uid)),
            Timer.LINGER: links.on_linger,
            Timer.RETRY: links.on_retry,
            Timer.CHORDS: lambda _: self._on_chords_due(),
            Timer.MEASURE: lambda _: self._newcomer.on_measured(),
            Timer.JOIN: lambda _: self._on_join_late(),
            Timer.RESERVED: self._owner.release,
            Timer.KNOCK: lambda _: self._on_knock_due(),
            Timer.ROUTE: self._routing.on_late,
            Timer.HEARD: self._routing.on_unheard,
            Timer.DETOUR: self._detours.on_late,
            Timer.QUERY: self._queries.ask,
            Timer.GAP: self._runs.on_due,
            Timer.DOUBT: self._runs.on_doubt_due,
            Timer.CARRIER: self._on_carrier_due,
            Timer.COPY: duties.on_copy,
            Timer.RECONCILE: lambda _: duties.on_reconcile(),
            Timer.DUTIES: lambda _: duties.on_watch(),
            Timer.LEAVE: lambda _: self._go(),
            Timer.RECLAIM: lambda _: duties.reclaimer.on_late(),
        }

    # ── what a driver and the layer above see ─────────────────────────────────────────────────

    @property
    def peer(self) -> Peer:
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
        return tuple(self._chords.levels)

    @property
    def linked(self) -> dict[str, Member]:
        """Members this broker has links to, by uid; the degree is their number."""
        return {uid: link.member for uid, link in self._links.up.items() if link.member}

    @property
    def suspects(self) -> tuple[str, ...]:
        """Uids of neighbours under suspicion now."""
        return tuple(self._suspicions.open)

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

    @property
    def records(self) -> dict[str, bytes]:
        """The records this broker owns."""
        return {key: own.body for key, own in self._duties.backups.own.items()}

    @property
    def backups(self) -> tuple[BackupStatus, ...]:
        """The brokers that keep copies of our records, and whether they have the latest."""
        return self._duties.backups.status

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made.

        It may to one held for dead, who only so learns of it; see :mod:`ring.merge`.
        """
        if peer.uid in self._core.detours:
            same_life = self._links.up[peer.uid].peer.incarnation == peer.incarnation
            if same_life and self._links.damper.held_ns(peer.uid, self._core.now):
                return Refused.DAMPED
        return self._admit_life(peer)

    def _admit_detour(self, peer: Peer) -> Refused | None:
        """Say whether ``peer`` may talk to us round our failed link; not after its death."""
        if self._hood.is_dead(peer.uid, peer.incarnation, at_any_time=True):
            return Refused.DECLARED_DEAD
        return self._admit_life(peer)

    def _admit_life(self, peer: Peer) -> Refused | None:
        """Say whether this life of ``peer`` may be linked at all."""
        if self._gone:
            return Refused.LEAVING
        if peer.uid == self._core.peer.uid:
            return Refused.SELF if peer.url == self._core.peer.url else Refused.UID_IN_USE
        link = self._links.up.get(peer.uid)
        if link is not None and (
            peer.incarnation < link.peer.incarnation
            or (peer.incarnation == link.peer.incarnation and peer.url != link.peer.url)
        ):
            return Refused.UID_IN_USE
        return None

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        """Take one input; after :class:`~ring.facts.Leave` there are no more effects."""
        core = self._core
        core.now = now
        if self._gone:
            return []
        if isinstance(event, MessageReceived):
            uid, message = event.uid, event.message
            link = self._links.up.get(uid)
            if link is None:
                return []  # crossed with our own closing of that link
            if type(message) is Heartbeat:
                self._detector.on_heartbeat(uid, now - link.heard_at)
            link.heard_at = now
            changes = self._hood.changes
            self._heard(uid)
            if isinstance(message, Relay):
                arrived = self._detours.on_relay(uid, message)
                if arrived is None:
                    if self._hood.changes != changes:
                        self._settle_down()
                    return core.take()
                uid, message = arrived
                self._links.up[uid].heard_at = now
                self._heard(uid)
            self._on_message[type(message)](uid, message)
            if type(message) in _PASSIVE and self._hood.changes == changes:
                return core.take()
        elif isinstance(event, LinkUp):
            self._on_link_up(event)
        elif isinstance(event, LinkDown):
            if event.uid not in core.detours:
                self._on_link_down(event)
        elif isinstance(event, LinkRefused):
            self._on_link_refused(event)
        else:
            self._on_command(event)
        self._settle_down()
        return core.take()

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
            self._carriers.told(uid, now)

    def handle_timers(self, now: Nanos) -> list[Effect]:
        core = self._core
        core.now = now
        self._detector.forgive_pause(now)
        changes = self._hood.changes
        passive = True
        while (key := core.timers.pop_expired(now)) is not None:
            kind, subject = key
            self._on_timer[kind](subject)
            passive = passive and kind in _PASSIVE_TIMERS
        if not passive or self._hood.changes != changes:
            self._settle_down()
        return core.take()

    def next_deadline(self) -> Nanos | None:
        return self._core.timers.next_deadline()

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    def _on_command(self, command: Command) -> None:
        if isinstance(command, Found):
            self._found(command.ring_id)
        elif isinstance(command, Join):
            self._seeds = command.seeds
            self._newcomer.begin(command.seeds, patient=False)
        elif isinstance(command, Leave):
            self._leave()
        elif isinstance(command, Locate):
            self._locate(command)
        elif isinstance(command, PutRecord):
            self._duties.put(command.key, command.body)
        elif isinstance(command, DropRecord):
            self._duties.drop(command.key)
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

        self._routing.find(command.target, tell, uid=command.uid)

    def _leave(self) -> None:
        """Hand over what we own, then go."""
        if not self._duties.leave():
            self._go()

    def _go(self) -> None:
        core = self._core
        if core.joined:
            for uid in self._links.up:
                core.send(uid, Leaving(core.member))
        self._links.close_all(Closed.LEAVING)
        core.timers.clear()
        core.joined = False
        self._gone = True
        core.notify(Left())

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def _on_link_up(self, event: LinkUp) -> None:
        uid = event.peer.uid
        old = self._links.up.get(uid)
        self._detours.forget(uid)
        self._queries.forget(uid)
        if self._core.detours.pop(uid, None) is not None:
            self._core.notify(DetourEnded(uid, restored=True))
            self._chords.on_link_gone(uid)
        if old is not None and old.peer.incarnation < event.peer.incarnation and old.member:
            self._links.on_down(uid)  # the new link has replaced it: there is nothing to close
            self._depart(old.member)  # it restarted; its old life is over
        self._core.verdicts.on_linked(uid, self._core.now)
        link = self._links.on_up(event)
        self._merge.on_answered(uid, event.url)
        self._greet(link)

    def _greet(self, link: Link) -> None:
        """A link is up: show who we are, and end what waited for it."""
        uid = link.peer.uid
        suspect = self._hood.suspects.get(uid)
        if suspect is not None and link.member is None and suspect.peer == link.peer:
            link.member = suspect  # the same life of it, so it has the same place
        self._merge.on_linked(link.peer)
        self._duties.on_link_up(link.peer)
        self._heard(uid)
        if self._core.joined:
            self._send_view(uid)
        self._newcomer.on_up(uid, link.peer)
        if self._is_alone:
            self._core.send(uid, Knock(self._core.member))

    def _on_link_down(self, event: LinkDown) -> None:
        uid = event.uid
        link = self._links.on_down(uid)
        if link is None:
            return
        if event.reason not in _WITH_A_WORD and not link.detoured:
            self._links.damper.on_lost(uid, link.since, self._core.now)
        held = self._links.damper.held_ns(uid, self._core.now)
        if held and link.member is not None and uid in self._chords.wanted:
            self._queries.begin(link.member, at_once=True)
        self._chords.on_link_gone(uid)
        self._routing.on_link_gone(uid)
        for verdict in self._suspicions.on_witness_lost(uid):
            self._settle(verdict)
        if event.reason is Closed.DECLARED_DEAD:
            self._hood.remember(link.peer)  # who declares others dead is on the ring
            self._outlive(uid)
        elif link.member is None:
            return
        elif event.reason is Closed.LEAVING:
            self._depart(link.member)
        elif uid in self._hood.adjacent and event.reason is not Closed.UNWANTED:
            self._settle(self._suspicions.suspect(link.member, f"link {event.reason.value}"))
        elif uid in self._hood.adjacent:
            self._hood.learn((link.member,))

    def _on_link_refused(self, event: LinkRefused) -> None:
        self._links.on_refused(event)
        if event.reason is Refused.DECLARED_DEAD:
            self._outlive(event.uid)
            return
        self._newcomer.on_refused(event)
        if event.uid in self._core.detours:
            return  # the way round it stands
        if event.uid is not None and event.reason is not Refused.DUPLICATE:
            self._on_test_failed(event.uid, self._tests.on_failed(event.uid))
            if event.uid in self._hood.candidates and event.reason in _NO_WAY_THERE:
                self._detours.begin(self._hood.candidates[event.uid])
            self._hood.shun(event.uid)
            self._runs.on_refused(event.uid)
            self._settle(self._suspicions.on_refused(event.uid))
            for verdict in self._suspicions.on_witness_lost(event.uid):
                self._settle(verdict)
            if event.uid in self._chords.wanted and event.uid not in self._hood.adjacent:
                self._on_chord_refused(event.uid, event.reason)

    # ── ways round failed links ───────────────────────────────────────────────────────────────

    def _on_detour_up(self, peer: Peer, member: Member | None, path: tuple[str, ...]) -> None:
        """Both ends talk along ``path`` from now on: they know that the link failed."""
        core, uid = self._core, peer.uid
        old = self._links.up.get(uid)
        is_new = uid not in core.detours
        if old is not None and old.peer.incarnation < peer.incarnation and old.member:
            core.detours.pop(uid, None)
            self._links.close(uid, Closed.REPLACED)
            self._depart(old.member)
        link = self._links.on_detour_up(peer, path)
        if old is not None and is_new:
            self._chords.on_link_gone(uid)
        case = self._suspicions.open.get(uid)
        member = link.member or member
        if member is not None:
            self._conclude(member, path)
        if case is not None:
            case.link_failed = True
        self._queries.forget(uid)
        core.notify(Detoured(uid, path))
        self._greet(link)

    def _conclude(self, subject: Member, path: tuple[str, ...]) -> None:
        """The link failed, not the broker; the last one on the path to it is witness."""
        if not self._core.verdicts.is_down(subject.uid, subject.incarnation):
            self._core.notify(LinkFailed(subject, path[-2]))

    def _on_detour_down(self, uid: str, reason: Closed) -> None:
        if self._core.detours.pop(uid, None) is not None:
            self._core.notify(DetourEnded(uid, restored=False))
            self._on_link_down(LinkDown(uid, reason))
        elif reason is Closed.DECLARED_DEAD and self._core.joined:
            self._outlive(uid)

    def _on_chord_refused(self, uid: str, reason: Refused) -> None:
        chord = next((member for member in self._chords.levels if member.uid == uid), None)
        if chord is not None and reason in _NO_WAY_THERE:
            self._queries.begin(chord)
        else:
            self._chords.on_dead(uid, None)

    def _on_chords_due(self) -> None:
        self._queries.watch()
        self._chords.on_refresh_due()
        self._merge.stabilise()

    def _on_no_detour(self, subject: Member) -> None:
        """Nobody can pass anything on to it now: only the link itself is left to be tried."""
        self._queries.on_no_way(subject)
        if subject.uid in self._suspicions.open:
            self._links.reopen(subject.peer, subject.uid)

    def _heard(self, uid: str) -> None:
        """Any sign of life: clears suspicion, answers tests."""
        if uid in self._suspicions.open:
            self._suspicions.on_heard(uid)
        self._tests.on_alive(uid)
        self._runs.on_alive(uid)

    # ── small messages ────────────────────────────────────────────────────────────────────────

    def _on_heartbeat(self, uid: str, beat: Heartbeat) -> None:
        view = self._links.up[uid].view
        if view is None or view.version < beat.version:
            self._core.send(uid, ViewRequest())

    def _on_ping(self, uid: str, ping: Ping) -> None:
        self._core.send(uid, Pong(ping.token))

    def _on_pong(self, uid: str, pong: Pong) -> None:
        self._newcomer.on_pong(uid)
        self._detector.on_pong(uid, pong.token)

    def _on_carrier_due(self, uid: str) -> None:
        self._carriers.on_due(uid)
        if uid not in self._links.up:
            self._chords.on_link_gone(uid)

    def _on_view_request(self, uid: str, request: ViewRequest) -> None:
        if self._core.joined:
            self._send_view(uid)

    def _on_peers_request(self, uid: str, request: PeersRequest) -> None:
        core = self._core
        known = self._hood.known() if core.joined else {}
        known.pop(uid, None)
        names = sorted(known)
        drawn = core.rng.sample(names, min(len(names), MAX_PEERS_TOLD - 1))
        ours = (core.member,) if core.joined else ()
        core.send(uid, Peers((*ours, *(known[name] for name in drawn))))

    def _on_route(self, uid: str, route: Route) -> None:
        if route.towards is not Towards.NEAREST:  # there is a gap, and we may stand at its edge
            self._detector.hasten_towards(route.target, route.origin.uid)
        self._routing.on_route(uid, route)

    def _on_record_summary(self, uid: str, summary: RecordSummary) -> None:
        self._duties.replicas.on_summary(uid, summary)
        if summary.leaving:
            self._duties.follow()

    def _on_summary_agreed(self, uid: str, answer: SummaryAgreed) -> None:
        self._duties.backups.on_agreed(uid, answer)
        self._duties.on_answered()

    def _on_offer_answer(self, uid: str, answer: OfferAnswer) -> None:
        self._duties.handover.on_answer(uid, answer)
        self._duties.on_answered()
        if self._duties.has_left:
            self._go()

    # ── membership ────────────────────────────────────────────────────────────────────────────

    def _on_view(self, uid: str, view: View) -> None:
        core = self._core
        link = self._links.up[uid]
        if view.member.uid != uid or view.member.incarnation < link.peer.incarnation:
            return
        if self._hood.is_dead(uid, view.member.incarnation, at_any_time=True):
            return  # we have told it; it answers in a later life
        if view.member.incarnation > link.peer.incarnation:
            link.peer, link.view = view.member.peer, None  # it rejoined while the link was made
        if link.view is not None and view.version < link.view.version:
            return
        self._links.place(uid, view)
        if uid in core.detours:
            self._conclude(view.member, core.detours[uid])  # its place was not known before
        self._hood.candidates.pop(uid, None)
        self._owner.release(uid)
        if core.ring_id is None:
            return
        if core.joined and view.member.ring_id == core.ring_id:
            if uid < core.peer.uid:  # two with one id: the larger uid gives way
                self._rejoin("another broker has the same ring id")
            return
        self._hood.learn((*view.left, *view.right))
        if core.peer in [member.peer for member in (*view.left[:1], *view.right[:1])]:
            self._detector.hasten_towards(view.member.ring_id, self._repair.about)

    def _send_view(self, uid: str) -> None:
        self._core.send(uid, self._hood.view(), self._repair.about)
        self._links.up[uid].sent_version = self._hood.version

    def _on_join_accept(self, uid: str, accept: JoinAccept) -> None:
        if self._newcomer.on_accept(accept):
            self._owner.inherit(accept.reserved)
            for other, link in self._links.up.items():
                if link.member is not None:
                    self._hood.candidates.pop(other, None)

    def _found(self, ring_id: int = FIRST_ID) -> None:
        self._core.ring_id = ring_id
        self._become_member(contact=None, round_trip_ns=None)

    def _on_join_late(self) -> None:
        """Go on trying; but one who was on a ring, and finds none, is alone and goes on serving.

        Else brokers that lost their places at the same time would wait for one another forever.
        """
        if self._had_neighbours and self._newcomer.in_vain >= SEEKS_IN_VAIN:
            self._newcomer.finish()
            self._found()
        elif self._newcomer.phase is not Phase.LINKING or not self._join_round():
            self._newcomer.on_late()

    def _join_round(self) -> bool:
        """Take the place with those neighbours that answer, and look for ways to the others.

        Else a newcomer would never join beside a broker that all others reach, but not itself.
        """
        wanted = self._hood.nearest_wanted()
        missing = [member for uid, member in wanted.items() if uid not in self._links.up]
        for member in missing:
            self._detours.begin(member)
            self._hood.shun(member.uid)
        return len(missing) < len(wanted)

    def _become_member(self, contact: str | None, round_trip_ns: Nanos | None) -> None:
        core = self._core
        core.joined = True
        self._alone = False
        core.notify(Joined(core.member, contact, round_trip_ns))
        self._chords.start()
        self._merge.arm()
        for uid in self._links.up:
            self._send_view(uid)
        self._duties.reclaimer.begin()

    def _rejoin(self, reason: str) -> None:
        """Come back under the same uid with a larger incarnation."""
        core = self._core
        if self._duties.backups.leaving:
            self._go()  # what it has not handed over yet is taken over from its backups
            return
        core.peer = msgspec.structs.replace(core.peer, incarnation=core.peer.incarnation + 1)
        core.notify(Rejoining(core.peer.incarnation, reason))
        self._duties.on_rejoining()
        self._hood.clear()
        known = [peer.url for peer in reversed(self._hood.remembered.values())]
        core.joined, core.ring_id = False, None
        self._detector.clear()
        self._suspicions.clear()
        self._tests.clear()
        self._repair.clear()
        self._chords.clear()
        self._routing.clear()
        self._runs.clear()
        self._carriers.clear()
        self._owner.clear()
        self._detours.clear()
        self._queries.clear()
        self._links.close_all(Closed.LEAVING)
        core.timers.clear()
        self._newcomer.finish()
        self._newcomer.begin(tuple(known[:8]) + self._seeds, patient=True)

    def _on_held_dead(self, uid: str, notice: HeldDead) -> None:
        if notice.incarnation >= self._core.peer.incarnation:
            self._outlive(uid)
        elif self._core.joined:
            self._send_view(uid)

    def _outlive(self, holder: str | None) -> None:
        """``holder`` holds us for dead: go on in a later life.

        A neighbour has closed the ring over us: we come back as a newcomer. To all others we are
        members of another ring, and stay where we are; see :mod:`ring.merge`.
        """
        core, hood = self._core, self._hood
        if not core.joined:
            if self._newcomer.phase is not Phase.IDLE:
                self._rejoin("declared dead by a neighbour")
        elif holder is None or holder in hood.adjacent or not hood.left:
            self._rejoin("declared dead by a neighbour")
        else:
            core.peer = msgspec.structs.replace(core.peer, incarnation=core.peer.incarnation + 1)
            hood.version += 1
            core.notify(Reincarnated(core.member, holder))
            if holder in self._links.up:
                self._send_view(holder)

    def _depart(self, member: Member) -> None:
        """A member left of its own will, or came back under a new incarnation."""
        if member.uid in self._hood.adjacent:
            self._core.notify(Departed(member))
        self._remove(member, None)

    # ── suspicion and repair ──────────────────────────────────────────────────────────────────

    def _on_heartbeat_due(self, uid: str) -> None:
        self._detector.on_heartbeat_due(uid)
        self._repair.exchange_backups()

    def _on_silent(self, uid: str) -> None:
        subject = self._detector.on_silent(uid)
        if subject is not None:
            self._settle(self._suspicions.suspect(subject, "silent"))

    def _on_test_neighbour(self, uid: str, question: TestNeighbour) -> None:
        subject = question.subject
        if subject.uid == self._core.peer.uid:
            return
        self._tests.begin(
            uid, subject, is_dead=self._hood.is_dead(subject.uid, subject.incarnation)
        )

    def _on_test_failed(self, uid: str, failed: Test | None) -> None:
        """A test for others failed: we are cut off from the subject as well, if it lives."""
        if failed is not None and uid in self._hood.adjacent:
            reason = "test failed"
            self._settle(self._suspicions.suspect(failed.subject, reason, failed.askers[0]))

    def _on_tested(self, uid: str, answer: Tested) -> None:
        self._settle(self._suspicions.on_tested(uid, answer))
        case = self._suspicions.open.get(answer.subject.uid)
        if case is not None and case.link_failed:
            self._detours.begin(case.subject, uid)

    def _settle(self, verdict: Verdict | None) -> None:
        """Confirm a death for which there is a verdict."""
        if verdict is None:
            return
        subject, witnesses = verdict
        if self._hood.is_dead(subject.uid, subject.incarnation):
            return
        if subject.uid in self._hood.adjacent:
            self._repair.begin(subject, witnesses)
        self._remove(subject, None)

    def _on_failed(self, uid: str, notice: Failed) -> None:
        subject, core = notice.subject, self._core
        if subject.uid == core.peer.uid:
            if subject.incarnation >= core.peer.incarnation:
                self._outlive(uid)
            return
        if self._hood.is_dead(subject.uid, subject.incarnation):
            return
        link = self._links.up.get(subject.uid)
        if link is not None and link.peer.incarnation > subject.incarnation:
            return  # old news: it is back already
        core.verdicts.note(Confirmed(subject, notice.witnesses), core.now)
        if subject.uid in self._hood.adjacent:
            self._repair.begin(subject, notice.witnesses, is_told=True)
        self._remove(subject, notice.heir)

    def _on_leaving(self, uid: str, notice: Leaving) -> None:
        if notice.member.uid == uid:
            self._depart(notice.member)

    def _remove(self, member: Member, heir: Member | None) -> None:
        """Take a dead or departed broker out of every pointer."""
        uid = member.uid
        self._suspicions.close(uid)
        self._detours.forget(uid)
        self._queries.forget(uid)
        self._links.damper.forget(uid)
        self._hood.bury(member)
        self._chords.on_dead(uid, heir)
        self._links.close(uid, Closed.DECLARED_DEAD)
        self._duties.on_gone(member)

    # ── alone ─────────────────────────────────────────────────────────────────────────────────

    @property
    def _is_alone(self) -> bool:
        hood = self._hood
        return self._core.joined and self._had_neighbours and not hood.left and not hood.candidates

    def _on_knock_due(self) -> None:
        self._merge.on_knock_due(self._seeds, alone=self._is_alone)

    def _on_knock(self, uid: str, knock: Knock) -> None:
        """Somebody lost its ring. Of two that are alone, the larger uid joins the other."""
        link = self._links.up[uid]
        if self._is_alone and uid < self._core.peer.uid:
            self._hood.remember(link.peer)
            self._rejoin("was alone, found another broker that was")
        elif self._core.joined:
            self._core.send(uid, Failed(knock.member, (), None))

    # ── after every input ─────────────────────────────────────────────────────────────────────

    def _settle_down(self) -> None:
        """Bring pointers, links, views and chords up to what the input has changed."""
        core, hood, links = self._core, self._hood, self._links
        for uid in self._detours.broken() if core.detours else ():
            self._on_detour_down(uid, Closed.LOST)
        given_up = self._queries.given_up
        while given_up:
            self._chords.on_dead(given_up.pop(), None)
        if core.joined:
            while hood.refresh():
                self._on_neighbours_changed()
            self._chords.follow()
            self._runs.follow()
        elif self._newcomer.phase is Phase.LINKING and self._newcomer.linked:
            contact, round_trip = self._newcomer.contact, self._newcomer.round_trip_ns
            self._newcomer.finish()
            self._become_member(contact, round_trip)
            hood.refresh()
            self._on_neighbours_changed()
            self._chords.follow()
        self._want_links()
        if core.joined:
            self._notice_solitude()
            if self._shown != (links.generation, hood.version):
                for uid, link in links.up.items():
                    if link.on_ring and link.sent_version < hood.version:
                        self._send_view(uid)
                self._shown = (links.generation, hood.version)
            self._repair.check()
            self._chords.check()
            self._detector.follow(self._repair.about)
            if self._followed != (links.generation, hood.version) or self._duties.is_dirty:
                self._followed = (links.generation, hood.version)
                self._duties.follow()

    def _on_neighbours_changed(self) -> None:
        self._hood.learn_again()
        for verdict in self._suspicions.on_neighbours_changed():
            self._settle(verdict)
        if self._hood.left:
            self._had_neighbours = True
            self._merge.on_neighbours_changed()

    def _notice_solitude(self) -> None:
        alone = self._is_alone
        if alone and not self._alone:
            self._hood.forget_verdicts()
            self._core.notify(Alone())
            self._merge.arm(0)
        self._alone = alone

    def _want_links(self) -> None:
        core = self._core
        wanted: dict[str, tuple[Peer, Purpose]] = {}
        for part in (self._newcomer, self._chords, self._runs):
            for uid, peer in part.wanted.items():
                wanted[uid] = (peer, Purpose.CHORD)
        if core.detours:
            for uid, peer in self._detours.first_hops().items():
                wanted[uid] = (peer, Purpose.CHORD)
        if core.ring_id is not None:
            for uid, member in self._hood.nearest_wanted().items():
                wanted[uid] = (member.peer, Purpose.RING)
        wanted.pop(core.peer.uid, None)
        self._links.want(wanted, self._repair.about)
