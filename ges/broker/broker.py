"""The broker: one machine, one driver, one router and its clients, in one trio nursery."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import structlog
import trio

from ges.access.admission import Admission
from ges.broker.access_watch import AccessWatch
from ges.broker.data_directory import Life, begin_life
from ges.broker.fact_log import tell, tell_incident
from ges.broker.identity_watch import LOOK_SECONDS, IdentityWatch
from ges.broker.live_run import live_run
from ges.broker.recorder import Recorder
from ges.broker.router_timer import RouterTimer
from ges.broker.status import describe
from ges.node import BrokerNode, Misled
from ges.routing.holding import Holding
from ges.routing.router import Router
from ges.sessions.clients import Clients
from ges.topology.revocation_lists import NoticeTaken, Outcome
from ges.wire.event_runs import event_runs
from ges.wire.events import DEFAULT_BUDGET_US, MAX_BUDGET_US
from ges.wire.link_codec import LINK_CODEC
from ges.wire.messages import RevocationNotice, Status
from overlay.address import Address, parse_url
from overlay.driver import Driver
from overlay.errors import ConfigError, ProtocolError
from overlay.ids import NANOS_PER_SECOND, LinkClass, Peer, short
from overlay.limits import LIMITS, Limits
from overlay.links.link import Link
from overlay.links.memory_limit import MemoryLimit
from overlay.machine import Fact
from overlay.multigraph.express_range import DEFAULT_RANGE_NS, check_range
from overlay.multigraph.probes import LinksRead, Reading
from overlay.multigraph.quick_probes import ExpressCame
from overlay.multigraph.weights import LinkKey
from overlay.net.connection import hold_all
from overlay.net.transport import TcpTransport, Wire
from overlay.queues.lanes import Policy
from overlay.queues.resend import Item
from overlay.rng import rng_for
from overlay.security.identity import Role, load_identity
from overlay.security.keyfiles import REVOKED, read_revoked
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec
from overlay.wire.frames import DETOUR, EVENT
from overlay.wire.handshake import Hello, check_overlay
from overlay.wire.versions import DIALECT, Dialect
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule, profile
from ring.errors import JoinFailed
from ring.facts import (
    Alone,
    DetourEnded,
    Found,
    Join,
    Joined,
    JoinRejected,
    Leave,
    Left,
    NeighboursChanged,
    Rejoining,
)

READ_SECONDS = 1.0  #: between two readings of the queues of all links
LEAVE_SECONDS = 3.0  #: for the last messages of a broker that leaves ...
LINK_SECONDS = 1.5  #: ... of which it waits so long for links that events wait for


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker's settings."""

    host: str = "127.0.0.1"
    port: int = 9470  #: 0: any free one
    seeds: tuple[Address, ...] = ()  #: none: found a new ring
    overlay: str = "chordal"  #: name of the overlay; brokers of others are refused
    profile: str = "lan"
    chords: ChordStrategy = ChordStrategy.RANK
    gap_rule: GapRule = GapRule.WIDEST
    backups: int = DEFAULT_BACKUPS  #: ring neighbours that keep copies of this broker's records
    advertise: tuple[str, int | None] | None = None  #: how others reach it; None: as it listens
    directory: Path | None = None  #: None: a new broker each time, and no trace
    identity: Path | None = None
    trace: Path | None = None  #: None: DIRECTORY/trace
    access: Path | None = None  #: rules for clients; None: everything is allowed
    tokens: Path | None = None  #: book of the tokens of clients; None: tokens are not looked at
    limits: Limits = LIMITS  #: on strangers
    look_seconds: float = LOOK_SECONDS  #: between two looks at the identity's folder
    express_ms: float = DEFAULT_RANGE_NS / 1e6  #: express range, one way; 0: no express links
    slow_clients: Policy = Policy.DISCONNECT  #: what becomes of normal events for them
    express_budget_ms: float = DEFAULT_BUDGET_US / 1e3  #: of events whose publisher names none


class Broker:
    """A broker process. ``run`` serves until cancelled; ``leave`` ends it with good manners.

    A broker of another version has another machine, codec or dialect.
    """

    machine_type: ClassVar[type[BrokerNode]] = BrokerNode
    codec: ClassVar[MessageCodec] = LINK_CODEC
    dialect: ClassVar[Dialect] = DIALECT

    def __init__(self, config: BrokerConfig) -> None:
        """Check the settings and begin a life; opens no socket yet.

        Raises:
            ConfigError: something the settings name is wrong or not usable.
        """
        self.config = config
        self.identity = load_identity(config.identity) if config.identity is not None else None
        if self.identity is not None and self.identity.role is not Role.BROKER:
            raise ConfigError(f"{config.identity} is a client's identity; issue one with --broker")
        if config.host in ("0.0.0.0", "::") and config.advertise is None:
            raise ConfigError(
                f"--listen {config.host} is every address of this machine; "
                "say with --advertise HOST which one others are to use"
            )
        if self.identity is None:
            for seed in config.seeds:
                if seed.tls:
                    raise ConfigError(
                        f"joining by {seed.url} needs an identity; give --identity DIR"
                    )
        check_overlay(config.overlay)
        self.gate = Admission(config.access, config.tokens, time.time)
        self._express_range_ns = check_range(round(config.express_ms * 1e6))
        if not 0 < round(config.express_budget_ms * 1000) <= MAX_BUDGET_US:
            raise ConfigError(
                f"an express budget of {config.express_budget_ms:g} ms; it is above 0, and under "
                "an hour"
            )
        self.ring_config = replace(
            profile(config.profile),
            chords=config.chords,
            gap_rule=config.gap_rule,
            backups=config.backups,
        )
        if self.identity is not None:
            for folder in filter(None, (self.identity.directory, config.directory)):
                read_revoked(folder / REVOKED)  # whom a damaged list names would be let in
        certified = self.identity.uid if self.identity is not None else None
        self._home: Life = begin_life(config.directory, certified_uid=certified)
        self._composed = False
        self._joined = trio.Event()
        self._left = trio.Event()
        self._is_leaving = False
        self._failed: JoinFailed | None = None
        self._first_join = True
        self.driver: Driver
        self.node: BrokerNode
        self._log = structlog.get_logger("chordal.broker").bind(broker=short(self._home.uid))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen, join and serve; ``started`` once the broker is on the ring.

        Raises:
            ConfigError: the address cannot be listened on.
            JoinFailed: the ring at the given seeds will not have this broker.
        """
        try:
            await self._run(task_status)
        finally:
            if self._home.lock is not None:
                self._home.lock.close()

    async def leave(self) -> None:
        """Tell the neighbours and close all links; ``run`` is then to be cancelled."""
        if not self._composed:
            return
        self._is_leaving = True
        self._log.info("leaving")
        with trio.move_on_after(LEAVE_SECONDS):
            await trio.sleep(self.node.ring.draw_turn() / NANOS_PER_SECOND)  # events come meanwhile
            with trio.move_on_after(LINK_SECONDS):
                await self._expiry.settled()
            self.router.part()
            self.driver.give(Leave(turn=0))
            await self.attendance.dismiss()
            await self._left.wait()  # links may be down for a moment before that
            await self.driver.drained()
        self.recorder.close(self.driver.sent_about)

    async def reload(self) -> None:
        """Read access rules and tokens again; a file that is wrong changes nothing."""
        if self._composed:
            await self.guard.reload()

    @property
    def url(self) -> str:
        """How others reach this broker."""
        return self.node.peer.url

    @property
    def secure_url(self) -> str | None:
        """The same over TLS; None without an identity."""
        if self.identity is None:
            return None
        address = parse_url(self.url)
        return Address(address.host, address.port, tls=True).url

    def status(self) -> Status:
        """Describe this broker as it is now."""
        return describe(self)

    def take_notice(self, notice: RevocationNotice) -> str | None:
        """Take a list of revoked identities from a client; returns why not, or None."""
        if self.warden is None:
            return "this broker has no identity and cannot check the list; hand it to one that has"
        return self.warden.take(notice)

    @property
    def is_on_ring(self) -> bool:
        """Whether this broker has become a member."""
        return self._joined.is_set()

    async def on_ring(self) -> None:
        """Wait until this broker is a member."""
        await self._joined.wait()

    # ── what the driver brings ────────────────────────────────────────────────────────────────

    def on_frames(self, link: Link, run: FrameRun) -> Iterator[None]:
        """Relay events and what goes round a failed link; between two runs others have their turn.

        Raises:
            ProtocolError: a frame of another kind, one that makes no sense, or a secure event on
                a link that is not.
        """
        if run.kind == EVENT:
            for events in event_runs(run.data, run.bounds):
                if events.head.secure and link.link_class is not LinkClass.SECURE:
                    raise ProtocolError("a secure event on a link that is not")
                if not events.head.express and (known := link.arrived(events.count)):
                    self.driver.counters["events_received_twice"] += known
                    if known == events.count:
                        continue
                    events = events.without(known)
                self.router.relay_run(link, events)
                yield
        elif run.kind == DETOUR:
            for body in run.bodies():
                self.router.pass_on(link, body)
                yield
        else:
            raise ProtocolError("a delivery from a broker")

    async def on_batch(self, link: Link) -> None:
        """What came over a normal link is a sign of life; then wait for crowded queues."""
        if link.link_class is LinkClass.NORMAL:
            self.node.ring.heard(link.peer.uid, self.driver.now())
        if link.reader is not None and link.reader.has_begun:
            self._links_relief.look()
        await self.after_batch()

    def on_changes(self) -> None:
        """Links or places have changed: tell the router, and try parked events again."""
        self.attendance.intake.parked.stir()
        ring = self.node.ring
        self.router.update(ring.member, ring.linked, ring.expected, is_whole=ring.is_whole)
        self._expiry.look()

    def on_cut(self, link: Link) -> None:
        """Keep what was under way on a link that broke."""
        self.router.on_cut(link.peer.uid, link.link_class)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Find other ways for events that ``peer`` will not get."""
        self.router.on_orphans(peer, link_class, items)

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        """Serve a client until it goes."""
        await self.attendance.serve(hello, wire, reader)

    def on_fact(self, fact: Fact) -> None:
        """Write to the log and the trace what the machine says, and act upon it."""
        if not (self._is_leaving and isinstance(fact, Alone)):  # it does not serve on
            tell(self._log, fact)
        if isinstance(fact, NoticeTaken):
            self._on_notice(fact)
            return
        incident = self.recorder.on_fact(fact, self.driver.now(), self.driver.sent_about)
        if incident is not None:
            tell_incident(self._log, incident)
        if isinstance(fact, Joined):
            self._first_join = False
            self._joined.set()
        elif isinstance(fact, JoinRejected) and self._first_join:
            self._failed = JoinFailed(fact.reason)
            self._joined.set()
        elif isinstance(fact, Rejoining):
            self._joined = trio.Event()
        elif isinstance(fact, Left):
            self._left.set()
        elif isinstance(fact, NeighboursChanged):
            self.attendance.tell_alternates()
        elif isinstance(fact, DetourEnded) and not fact.restored:
            self.router.on_cut(fact.uid, LinkClass.NORMAL)

    async def after_batch(self) -> None:
        """Wait a little for crowded queues: readers slow down rather than queues grow."""
        self.attendance.intake.parked.notice_changes()
        self._expiry.look()
        told = self.router.told
        if told:  # who gets events needs no heartbeats, but must be heard
            now = self.driver.now()
            for uid in told:
                self.node.ring.told(uid, now)
            told.clear()
            self.driver.look()
        crowded = tuple(self.router.crowded)
        self.router.crowded.clear()
        if crowded:
            self.attendance.relief.look()
            self._links_relief.look()
            await hold_all(crowded)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        config = self.config
        transport = TcpTransport(self.identity)
        port = await transport.listen(config.host, config.port)
        self._compose(transport, self._own_address(port))
        async with trio.open_nursery() as nursery:
            await nursery.start(self.driver.run)
            nursery.start_soon(self._expiry.run)
            if config.tokens is not None:
                nursery.start_soon(self.guard.watch_tokens)
            nursery.start_soon(self.attendance.intake.parked.run)
            if self.warden is not None:
                nursery.start_soon(self.warden.run)
            nursery.start_soon(self._read_links)
            own = self.node.peer.url
            seeds = tuple(seed.url for seed in config.seeds if seed.url != own)
            self.driver.give(Join(seeds) if seeds else Found())
            await self._joined.wait()
            if self._failed is not None:
                nursery.cancel_scope.cancel()
            else:
                task_status.started()
        if self._failed is not None:
            raise self._failed

    def _compose(self, transport: TcpTransport, address: Address) -> None:
        config, home = self.config, self._home
        peer = Peer(home.uid, home.incarnation, address.url, self.identity is not None)
        # The seed is the identity: runs need not be repeatable here, only streams distinct.
        rng = rng_for(home.uid, "node", home.incarnation)
        credentials = transport.credentials
        self.node = self.machine_type(
            self.ring_config,
            peer,
            rng,
            credentials.revocations if credentials is not None else None,
            express_range_ns=self._express_range_ns,
        )
        self.driver = Driver(
            self.node,
            transport,
            self.codec,
            self,
            overlay=config.overlay,
            dialect=self.dialect,
            limits=config.limits,
            judge_broker=lambda wire: self.guard.judge_broker(wire),
        )
        self.router = Router(
            self.driver.links,
            self.node.secure_graph,
            self.driver.counters,
            self.driver.now,
            self.node.ring.detours,
            self.node.ways.relays,
            path=self.node.ways.path,
            holding=Holding(self.driver.streams, self.node.ring.is_dead),
            budget_us=round(config.express_budget_ms * 1000),
            is_express=self.node.survey.express_range.is_inside,
            one_way_us=self._one_way_us,
            on_misled=lambda uid: self.driver.give(Misled(uid)),
        )
        self.attendance = Clients(self)
        self._links_relief = MemoryLimit(self.driver.running_links, config.limits.link_bytes_total)
        self.guard = AccessWatch(self.gate, self.attendance, self.driver.counted_log, self._log)
        self.warden: IdentityWatch | None = None
        if credentials is not None:
            # Without a folder of data: a list forgotten would let those in that are on it.
            store = config.directory or credentials.identity.directory
            self.warden = IdentityWatch(self, credentials, store=store)
        trace = config.trace
        if trace is None and config.directory is not None:
            trace = config.directory / "trace"
        run = live_run(home, config.profile)
        self.recorder = Recorder(run, home.uid, trace)
        self._expiry = RouterTimer(self.router, self.driver.now, refresh=self.on_changes)
        self._composed = True

    def _own_address(self, port: int) -> Address:
        advertise = self.config.advertise
        if advertise is None:
            return Address(self.config.host, port)
        return Address(advertise[0], advertise[1] or port)

    def _on_notice(self, fact: NoticeTaken) -> None:
        self.driver.counters[f"revocation_lists_{fact.outcome.value}"] += 1
        self.attendance.intake.parked.stir()
        if fact.outcome is Outcome.NEWS and self.warden is not None:
            self.warden.enforce()
            self.attendance.tell_revocations()

    def _one_way_us(self, key: LinkKey, kernel_us: int) -> int:
        """An express event has come: have its link sounded, and say how long that takes."""
        survey = self.node.survey
        if survey.wants_express(key, self.driver.now()):
            self.driver.give(ExpressCame(key))
        return survey.one_way_ns(key, 1000 * kernel_us) // 1000

    async def _read_links(self) -> None:
        """Tell the machine, now and then, what the connections have sent and have queued."""
        while True:
            await trio.sleep(READ_SECONDS)
            readings = (
                Reading(key, via.sent_bytes, via.queued_bytes, via.events)
                for key, via in ((k, link.connection) for k, link in self.driver.links.items())
            )
            self.driver.give(LinksRead(tuple(readings)))
            self.attendance.relief.look()
            self._links_relief.look()
