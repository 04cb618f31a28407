"""The parts that one broker consists of, and which of them each is built upon.

Each part knows only the parts handed to it here. What concerns several of them at once is in
:class:`~ges.broker.upper.BrokerUpper`: the driver brings it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import structlog
from structlog.typing import FilteringBoundLogger as Log

from ges.broker.access_watch import AccessWatch
from ges.broker.certified_peers import CertifiedPeers
from ges.broker.config import BrokerConfig, CheckedConfig
from ges.broker.data_directory import Life
from ges.broker.identity_watch import IdentityWatch
from ges.broker.recorder import Recorder, live_run
from ges.broker.revocation_watch import RevocationWatch
from ges.broker.router_timer import RouterTimer
from ges.node import BrokerNode
from ges.routing.holding import Holding
from ges.routing.router import Router
from ges.sessions.backpressure import Backpressure
from ges.sessions.clients import Clients
from ges.sessions.intake import Intake
from ges.sessions.on_ring import OnRing
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.reader import ClientReader
from ges.sessions.replies import Replies
from ges.sessions.session import Session
from ges.sessions.subscriptions import Subscriptions
from ges.topology.survey_part import Misled
from ges.wire.broker_messages import RevocationNotice
from ges.wire.status import Status
from overlay.address import Address
from overlay.driver import Driver
from overlay.ids import Peer, short
from overlay.links.link import Upper
from overlay.links.memory_limit import MemoryLimit
from overlay.multigraph.quick_probes import ExpressCame
from overlay.multigraph.weights import LinkKey
from overlay.net.transport import ProcessTransport
from overlay.rng import rng_for
from overlay.security.credentials import Credentials
from overlay.wire.codec import MessageCodec
from overlay.wire.versions import Dialect


class Above(Upper, Protocol):
    """The layer above the driver: it is made before the parts, and gets all of them later."""

    def status(self) -> Status:
        """Describe the broker as it is now."""


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
    node: BrokerNode
    driver: Driver
    router: Router
    router_timer: RouterTimer
    on_ring: OnRing
    replies: Replies
    parked: ParkedEvents
    link_limit: MemoryLimit
    backpressure: Backpressure
    intake: Intake
    reader: ClientReader
    clients: Clients
    access_watch: AccessWatch
    secured: Secured | None

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
        config, limits = checked.config, checked.config.limits
        log: Log = structlog.get_logger("chordal.broker").bind(broker=short(life.uid))
        credentials = transport.credentials
        node = version.machine_type(
            checked.ring,
            Peer(life.uid, life.incarnation, address.url, checked.identity is not None),
            # The seed is the identity: runs need not be repeatable here, only streams distinct.
            rng_for(life.uid, "node", life.incarnation),
            credentials.revocations if credentials is not None else None,
            express_range_ns=checked.express_range_ns,
        )
        driver = Driver(
            node,
            transport,
            version.codec,
            above,
            overlay=config.overlay,
            dialect=version.dialect,
            limits=limits,
        )
        router = _router(node, driver, checked.express_budget_us)
        router_timer = RouterTimer(router, driver.now, refresh=above.on_changes)
        revocation_watch = None
        if credentials is not None:
            # Without a folder of data: a list forgotten would let those in that are on it.
            store = config.directory or credentials.identity.directory
            revocation_watch = RevocationWatch(driver, credentials, store)
        on_ring = OnRing()
        replies = Replies(driver.counters, driver.counted_log)
        parked = ParkedEvents(
            life.uid,
            router,
            node.secure_graph,
            replies,
            now=driver.now,
            counters=driver.counters,
        )
        sessions: set[Session] = set()
        client_limit = MemoryLimit(sessions, limits.client_bytes_total)
        link_limit = MemoryLimit(driver.running_links, limits.link_bytes_total)
        backpressure = Backpressure(
            router,
            driver,
            told=node.ring.told,
            memory_limits=(client_limit, link_limit),
            looks=(parked.notice_changes, router_timer.look),
        )
        intake = Intake(
            router,
            Subscriptions(router, limits, driver.counted_log),
            parked,
            replies,
            take_notice=revocation_watch.take if revocation_watch is not None else _refuse_notice,
            describe=above.status,
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
        return cls(
            config=config,
            log=log,
            recorder=Recorder(live_run(life, config.profile), life.uid, config.trace_directory),
            node=node,
            driver=driver,
            router=router,
            router_timer=router_timer,
            on_ring=on_ring,
            replies=replies,
            parked=parked,
            link_limit=link_limit,
            backpressure=backpressure,
            intake=intake,
            reader=reader,
            clients=clients,
            access_watch=AccessWatch(checked.admission, clients, driver.counted_log, log),
            secured=secured,
        )


def _router(node: BrokerNode, driver: Driver, budget_us: int) -> Router:
    survey = node.survey

    def one_way_us(key: LinkKey, kernel_us: int) -> int:
        """An express event has come: have its link sounded, and say how long that takes."""
        if survey.wants_express(key, driver.now()):
            driver.give(ExpressCame(key))
        return survey.one_way_ns(key, 1000 * kernel_us) // 1000

    return Router(
        driver.links,
        node.secure_graph,
        driver.counters,
        driver.now,
        node.ring.detours,
        node.relay_paths.relays,
        path=node.relay_paths.path,
        holding=Holding(driver.streams, node.ring.is_dead),
        budget_us=budget_us,
        is_express=survey.express_range.is_inside,
        one_way_us=one_way_us,
        on_misled=lambda uid: driver.give(Misled(uid)),
    )


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
