"""The parts that one broker consists of, and which of them each is built upon.

Each part knows only the parts handed to it here. What concerns several of them at once is in
:class:`~ges.broker.upper.BrokerUpper`: the driver brings it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import time_ns
from typing import Protocol

import structlog
from structlog.typing import FilteringBoundLogger as Log

from ges.broker.access_watch import AccessWatch
from ges.broker.certified_peers import CertifiedPeers
from ges.broker.config import BrokerConfig, CheckedConfig
from ges.broker.data_directory import Life
from ges.broker.drills import Drills
from ges.broker.identity_watch import IdentityWatch
from ges.broker.memory_budget import MemoryBudget
from ges.broker.memory_pools import PORTION, filter_bytes, memory_budget
from ges.broker.recorder import Recorder, live_run
from ges.broker.revocation_watch import RevocationWatch
from ges.broker.router_timer import RouterTimer
from ges.broker.trace_log import TraceLog
from ges.node import BrokerNode
from ges.sessions.absences import Absences
from ges.sessions.backpressure import Backpressure
from ges.sessions.clients import Clients
from ges.sessions.explanations import Explanations
from ges.sessions.intake import Intake
from ges.sessions.on_ring import OnRing
from ges.sessions.operators import Operators
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.reader import ClientReader
from ges.sessions.replies import Replies
from ges.sessions.session import Session
from ges.sessions.subscriptions import Subscriptions
from ges.stack import Stack
from ges.wire.broker_messages import RevocationNotice
from ges.wire.drill_messages import Question
from ges.wire.operator_messages import UnitJoin, UnitJoining, UnitJoinQuestion
from ges.wire.status import Status
from overlay.address import Address
from overlay.driver import Driver
from overlay.ids import Nanos, Peer, short
from overlay.limits import Limits
from overlay.links.link import Link, Upper
from overlay.links.memory_limit import MemoryLimit
from overlay.machine import Message
from overlay.net.alarm import Alarm
from overlay.net.transport import ProcessTransport
from overlay.rng import rng_for
from overlay.security.credentials import Credentials
from overlay.wire.codec import MessageCodec
from overlay.wire.versions import Dialect


class Above(Upper, Protocol):
    """The layer above the driver: it is made before the parts, and gets all of them later."""

    def status(self) -> Status:
        """Describe the broker as it is now."""

    def drain(self, grace_s: float | None) -> None:
        """An operator wants the broker to leave, after its clients; None: as configured."""

    def join_unit(self, question: UnitJoin | UnitJoinQuestion) -> UnitJoining:
        """An operator wants this broker's unit to join another context, or asks about it."""

    def drill(self, question: Question, asker: str, waiting: Callable[[], int]) -> Message:
        """A drill asks this broker to break itself, or what it has seen."""


@dataclass(frozen=True, slots=True)
class Version:
    """What differs in a broker of another protocol version."""

    machine_type: type[BrokerNode]
    codec: MessageCodec
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Secured:
    """The parts that only a broker with an identity has."""

    revocation_watch: RevocationWatch
    peers: CertifiedPeers
    identity_watch: IdentityWatch


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one broker."""

    config: BrokerConfig
    log: Log
    recorder: Recorder
    limits: Limits  #: in force; changed in place
    node: BrokerNode
    driver: Driver
    stack: Stack
    router_timer: RouterTimer
    on_ring: OnRing
    absences: Absences
    replies: Replies
    confirm_alarm: Alarm
    parked: ParkedEvents
    parked_alarm: Alarm
    link_limit: MemoryLimit[Link]
    budget: MemoryBudget
    backpressure: Backpressure
    intake: Intake
    reader: ClientReader
    clients: Clients
    access_watch: AccessWatch
    secured: Secured | None
    drills: Drills | None  #: None: it takes part in none

    def log_traces(self, *, wanted: bool) -> None:
        """Have the debug log tell of events that belong to a trace, or not any more."""
        self.stack.on_event = TraceLog(self.log).note if wanted else None

    @classmethod
    def build(
        cls,
        checked: CheckedConfig,
        life: Life,
        transport: ProcessTransport,
        address: Address,
        above: Above,
        version: Version,
    ) -> Parts:
        """Return new parts; ``address``: where others are to call this broker.

        Raises:
            ConfigError: the trace cannot be written.
        """
        config = checked.config
        limits = replace(config.limits)  # of this broker alone: they may change while it runs
        log: Log = structlog.get_logger("chordal.broker").bind(broker=short(life.uid))
        credentials = transport.credentials
        node = version.machine_type(
            checked.ring,
            Peer(
                life.uid,
                life.incarnation,
                address.url,
                secure=checked.identity is not None,
                declared=config.declared,
            ),
            # The seed is the identity: runs need not be repeatable here, only streams distinct.
            rng_for(life.uid, "node", life.incarnation),
            credentials.revocations if credentials is not None else None,
            express_range_ns=checked.express_range_ns,
            units=checked.units,
            event_links=config.event_links,
            level_costs=config.level_costs,
        )
        driver = Driver(
            node,
            transport,
            version.codec,
            above,
            overlay=config.overlay,
            name=config.name,
            dialect=version.dialect,
            limits=limits,
            certified_only=config.require_identity,
        )
        stack = Stack(
            node,
            driver.links,
            driver.streams,
            driver.counters,
            now=driver.now,
            give=driver.give,
            wall_ns=time_ns,
            budget_us=checked.express_budget_us,
        )
        router_timer = RouterTimer(stack)
        revocation_watch = None
        if credentials is not None:
            # Without a folder of data: a list forgotten would let those in that are on it.
            store = config.directory or credentials.identity.directory
            revocation_watch = RevocationWatch(driver, credentials, store)
        on_ring = OnRing()
        replies = Replies(driver.counters, driver.counted_log, driver.now)

        def confirm(now: Nanos) -> None:
            with driver.turn:
                replies.expire(now)

        confirm_alarm = Alarm(replies.next_deadline, confirm, now=driver.now)
        replies.on_due = confirm_alarm.look
        parked = ParkedEvents(
            life.uid,
            stack,
            stack.reach,
            replies,
            now=driver.now,
            counters=driver.counters,
        )
        parked_alarm = Alarm(parked.next_deadline, parked.release, now=driver.now)
        parked.on_due = parked_alarm.look
        sessions: set[Session] = set()
        client_limit = MemoryLimit(sessions, lambda: limits.client_bytes_total)
        link_limit = MemoryLimit(
            driver.running_links,
            lambda: limits.link_bytes_total,
            is_needed=lambda link: link.peer.uid in above.needed,
        )
        budget = memory_budget(config, driver, stack, parked, client_limit, link_limit)
        backpressure = Backpressure(
            stack,
            driver,
            memory_limits=(client_limit, link_limit, budget),
            looks=(parked.notice_changes, router_timer.look, budget.look),
        )
        intake = Intake(
            stack,
            Subscriptions(stack, limits, driver.counted_log, most_bytes=filter_bytes(budget)),
            parked,
            replies,
            take_notice=revocation_watch.take if revocation_watch is not None else _refuse_notice,
            describe=above.status,
            limits=limits,
            look_at_memory=budget.look,
            portion_bytes=round(budget.limit * PORTION),
            explain=Explanations(stack, sessions).answer,
            operate=Operators(
                sessions,
                driver.counted_log,
                driver.now,
                drain=above.drain,
                drill=above.drill,
                join_unit=above.join_unit,
                is_certified=checked.identity is not None,
            ).take,
        )
        reader = ClientReader(
            driver,
            intake,
            replies,
            on_ring,
            backpressure,
            limits=limits,
            memory_limit=client_limit,
        )
        clients = Clients(
            sessions,
            driver,
            node,
            checked.admission,
            intake,
            reader,
            limits=limits,
            policy=config.slow_clients,
        )
        secured = None
        if credentials is not None and revocation_watch is not None:
            secured = _secured(config, driver, credentials, clients, revocation_watch)
        parts = cls(
            config=config,
            log=log,
            limits=limits,
            recorder=Recorder(live_run(life, config.profile), life.uid, config.trace_directory),
            node=node,
            driver=driver,
            stack=stack,
            router_timer=router_timer,
            on_ring=on_ring,
            absences=Absences(checked.ring.silence_max_ns),
            replies=replies,
            confirm_alarm=confirm_alarm,
            parked=parked,
            parked_alarm=parked_alarm,
            link_limit=link_limit,
            budget=budget,
            backpressure=backpressure,
            intake=intake,
            reader=reader,
            clients=clients,
            access_watch=AccessWatch(
                checked.admission,
                clients,
                driver.counted_log,
                log,
                certified_only=config.require_identity,
            ),
            secured=secured,
            drills=Drills(driver, config.profile, has_process=config.has_process)
            if config.drills
            else None,
        )
        parts.log_traces(wanted=config.logs_traces)
        return parts


def _secured(
    config: BrokerConfig,
    driver: Driver,
    credentials: Credentials,
    clients: Clients,
    revocation_watch: RevocationWatch,
) -> Secured:
    peers = CertifiedPeers(driver, clients)
    identity_watch = IdentityWatch(
        driver, credentials, peers, revocation_watch, look_seconds=config.look_seconds
    )
    return Secured(revocation_watch, peers, identity_watch)


def _refuse_notice(notice: RevocationNotice) -> str:
    return "this broker has no identity and cannot check the list; hand it to one that has"
