"""Which part each message and each timer is for, and which of them leave the pointers alone.

A message for one part goes straight to it; what concerns several, to their coordinator. Only what
is too small for either is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.machine import Message
from ring.coordination.deaths import Deaths
from ring.coordination.membership import Membership
from ring.coordination.parts import Parts
from ring.coordination.views import Views
from ring.core import Timer
from ring.wire.messages import (
    Backup,
    BackupRequest,
    ChordAnswer,
    ChordQuery,
    Failed,
    Heartbeat,
    HeldDead,
    Intent,
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Leaving,
    Meet,
    Peers,
    PeersRequest,
    Ping,
    Place,
    Pong,
    Route,
    Routed,
    RouteHeard,
    Tested,
    TestNeighbour,
    Towards,
    View,
    ViewRequest,
)
from ring.wire.record_messages import (
    Claims,
    Dispute,
    Fence,
    Forget,
    IndexRequest,
    Offer,
    OfferAnswer,
    Reclaim,
    ReclaimAnswer,
    RecordIndex,
    RecordRequest,
    RecordSummary,
    Replicate,
    SummaryAgreed,
)

#: Most of what happens in a quiet ring; it moves no pointer of a member unless the neighbourhood
#: says so.
PASSIVE: frozenset[type[Message]] = frozenset(
    {
        Heartbeat,
        Ping,
        Pong,
        Intent,
        ViewRequest,
        Backup,
        BackupRequest,
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
        Dispute,
        Offer,
        Reclaim,
        ReclaimAnswer,
        Claims,
    }
)
PASSIVE_TIMERS = frozenset({Timer.HEARTBEAT, Timer.SILENT, Timer.COPY, Timer.RECONCILE})
DOUBTFUL_TIMERS = frozenset({Timer.CHORDS})  #: as passive as their handler says

MessageHandlers = dict[type[Message], Callable[[str, Any], None]]
#: One of :data:`DOUBTFUL_TIMERS` returns whether anything may have changed.
TimerHandlers = dict[Timer, Callable[[str], object]]


class Dispatch:
    """The tables of handlers of one node."""

    def __init__(self, parts: Parts, views: Views, membership: Membership, deaths: Deaths) -> None:
        self._parts = parts
        self._membership = membership
        self._deaths = deaths
        duties = parts.duties
        self.messages: MessageHandlers = {
            Heartbeat: views.on_heartbeat,
            Ping: self._on_ping,
            Pong: self._on_pong,
            Intent: parts.links.on_intent,
            View: membership.on_view,
            Place: membership.on_place,
            ViewRequest: views.on_request,
            Backup: parts.link_backups.on_backup,
            BackupRequest: parts.link_backups.on_request,
            PeersRequest: membership.on_peers_request,
            Peers: parts.newcomer.on_peers,
            JoinRequest: parts.owner.on_request,
            JoinAccept: membership.on_accept,
            JoinRefuse: lambda uid, refuse: parts.newcomer.on_refuse(refuse),
            TestNeighbour: deaths.on_test_neighbour,
            Tested: deaths.on_tested,
            Failed: self._on_failed,
            Leaving: deaths.on_leaving,
            ChordQuery: parts.chords.on_query,
            ChordAnswer: parts.chords.on_answer,
            Route: self._on_route,
            RouteHeard: parts.routing.on_heard,
            Routed: parts.routing.on_routed,
            Meet: parts.merge.on_meet,
            HeldDead: membership.on_held_dead,
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
            ReclaimAnswer: duties.on_reclaim_answer,
            Claims: duties.homes.on_claims,
        }
        self.timers: TimerHandlers = {
            Timer.HEARTBEAT: self._on_heartbeat_due,
            Timer.SILENT: deaths.on_silent,
            Timer.TEST: deaths.on_no_answer,
            Timer.SHOW: lambda _: views.show(),
            Timer.PROBE: deaths.on_probe_due,
            Timer.LINGER: parts.links.on_linger,
            Timer.RETRY: parts.links.on_retry,
            Timer.CHORDS: lambda _: self._on_chords_due(),
            Timer.MEASURE: lambda _: parts.newcomer.on_measured(),
            Timer.JOIN: lambda _: membership.on_late(),
            Timer.WAITS: lambda _: parts.newcomer.on_waits_due(),
            Timer.RESERVED: parts.owner.release,
            Timer.KNOCK: lambda _: membership.on_knock_due(),
            Timer.ROUTE: parts.routing.on_late,
            Timer.HEARD: parts.routing.on_unheard,
            Timer.DETOUR: parts.detours.on_late,
            Timer.QUERY: parts.chord_queries.ask,
            Timer.GAP: parts.dead_runs.on_due,
            Timer.DOUBT: parts.dead_runs.on_doubt_due,
            Timer.CARRIER: self._on_carrier_due,
            Timer.COPY: duties.on_copy,
            Timer.RECONCILE: lambda _: duties.on_reconcile(),
            Timer.DUTIES: lambda _: duties.on_watch(),
            Timer.LEAVE: lambda _: membership.on_leave_due(),
            Timer.RECLAIM: lambda _: duties.reclaimer.on_late(),
        }

    # ── messages for two parts ────────────────────────────────────────────────────────────────

    def _on_ping(self, uid: str, ping: Ping) -> None:
        self._parts.core.send(uid, Pong(ping.token, self._parts.link_backups.news(uid)))

    def _on_pong(self, uid: str, pong: Pong) -> None:
        self._parts.newcomer.on_pong(uid)
        self._parts.detours.on_pong(uid)
        self._parts.detector.on_pong(uid, pong.token)
        if pong.links is not None:
            self._parts.link_backups.on_backup(uid, pong.links)

    def _on_failed(self, uid: str, notice: Failed) -> None:
        if notice.heir is not None and notice.heir.uid == uid:
            self._membership.on_place(uid, Place(notice.heir))  # it does not tell it apart
        self._deaths.on_failed(uid, notice)

    def _on_route(self, uid: str, route: Route) -> None:
        if self._parts.core.joined and route.towards is not Towards.NEAREST:
            # There is a gap, and we may stand at its edge.
            self._parts.detector.hasten_towards(route.target, route.origin.uid)
        self._parts.routing.on_route(uid, route)

    def _on_record_summary(self, uid: str, summary: RecordSummary) -> None:
        duties = self._parts.duties
        duties.replicas.on_summary(uid, summary)
        if summary.leaving:
            duties.follow()

    def _on_summary_agreed(self, uid: str, answer: SummaryAgreed) -> None:
        duties = self._parts.duties
        duties.backups.on_agreed(uid, answer)
        duties.on_answered()

    def _on_offer_answer(self, uid: str, answer: OfferAnswer) -> None:
        duties = self._parts.duties
        duties.handover.on_answer(uid, answer)
        duties.on_answered()

    # ── timers for two parts ──────────────────────────────────────────────────────────────────

    def _on_heartbeat_due(self, uid: str) -> None:
        self._parts.detector.on_heartbeat_due(uid, self._parts.link_backups.tell)
        self._parts.link_backups.exchange()

    def _on_chords_due(self) -> bool:
        """Refresh the chords; say whether that may have changed anything that others follow."""
        parts = self._parts
        parts.chord_queries.watch()
        is_done = parts.chords.on_refresh_due()
        parts.merge.stabilise()
        return not is_done or bool(parts.hood.candidates)

    def _on_carrier_due(self, uid: str) -> None:
        parts = self._parts
        parts.event_links.on_due(uid)
        if uid not in parts.links.up:
            parts.chords.on_link_gone(uid)
