"""The broker: one machine, one driver, one router and its clients, in one trio nursery."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import structlog
import trio

from ges.attendance import Attendance
from ges.events import DEFAULT_BUDGET_US, MAX_BUDGET_US
from ges.gate import Gate
from ges.guard import Guard
from ges.holding import Holding
from ges.home import Home, open_home
from ges.link_status import link_statuses, way_statuses
from ges.messages import MeasuredLinks, RevocationNotice, SecureState, Status, VerdictStatus
from ges.node import BrokerNode
from ges.notices import NoticeTaken, Outcome
from ges.recorder import Recorder
from ges.relief import Relief
from ges.router import Router
from ges.runs import event_runs
from ges.software import software_version
from ges.warden import LOOK_SECONDS, Warden
from overlay.address import Address, parse_url
from overlay.codec import DETOUR, EVENT, FrameReader, MessageCodec, Run
from overlay.driver import Driver
from overlay.errors import ConfigError, ProtocolError
from overlay.express_range import DEFAULT_RANGE_NS, check_range
from overlay.gauges import LinkEcho, LinkProbe, LinksRead, Reading
from overlay.handshake import Goodbye, Hello, check_overlay
from overlay.identity import Role, load_identity
from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, Peer, short
from overlay.lanes import Policy
from overlay.limits import LIMITS, Limits
from overlay.link import Link
from overlay.machine import Fact, Message
from overlay.resend import STREAM_MESSAGES, Item
from overlay.rng import rng_for
from overlay.trace import Incident, Source, Verdict
from overlay.trace import Run as TraceRun
from overlay.transport import TcpTransport, Wire
from overlay.versions import DIALECT, Dialect
from overlay.weights import LinkKey
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule, profile
from ring.errors import JoinFailed
from ring.facts import (
    Alone,
    Confirmed,
    Departed,
    Detoured,
    DetourEnded,
    Found,
    Join,
    JoinDelayed,
    Joined,
    JoinRejected,
    Leave,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Reincarnated,
    Rejoining,
    Suspected,
    Undecided,
)
from ring.wire import RING_MESSAGES

#: What brokers say to each other.
LINK_MESSAGES: tuple[type[Message], ...] = (
    *RING_MESSAGES,
    *STREAM_MESSAGES,
    SecureState,
    RevocationNotice,
    MeasuredLinks,
    LinkProbe,
    LinkEcho,
    Goodbye,
)
LINK_CODEC = MessageCodec(*LINK_MESSAGES)

READ_SECONDS = 1.0  #: between two readings of the queues of all links
LEAVE_SECONDS = 3.0  #: for the last messages of a broker that leaves


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
        check_overlay(config.overlay)
        self.gate = Gate(config.access, config.tokens, time.time)
        self._express_range_ns = check_range(round(config.express_ms * 1e6))
        if not 0 < round(config.express_budget_ms * 1000) <= MAX_BUDGET_US:
            raise ConfigError(
                f"an express budget of {config.express_budget_ms:g} ms; it is above 0, and under "
                "an hour"
            )
        self._ring_config = replace(
            profile(config.profile),
            chords=config.chords,
            gap_rule=config.gap_rule,
            backups=config.backups,
        )
        certified = self.identity.uid if self.identity is not None else None
        self._home: Home = open_home(config.directory, certified_uid=certified)
        self._composed = False
        self._joined = trio.Event()
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
        with trio.move_on_after(LEAVE_SECONDS):
            self.driver.give(Leave())
            await self.attendance.dismiss()
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
        ring, router = self.node.ring, self.router
        counters = Counter(self.driver.counters)
        counters["events_lost"] = router.sequencer.lost
        counters += self.attendance.dropped
        survey, ways = self.node.survey, self.node.ways
        counters["path_changes"] = ways.choice.changes
        counters["express_demotions"] = survey.express_range.demotions
        counters["express_promotions"] = survey.express_range.promotions
        counters["weights_told"] = survey.told
        return Status(
            uid=self.node.peer.uid,
            incarnation=self.node.peer.incarnation,
            url=self.url,
            overlay=self.config.overlay,
            version=software_version(),
            secure=self.identity is not None,
            member=ring.member,
            left=ring.left,
            right=ring.right,
            chords=ring.chords,
            suspects=ring.suspects,
            links=link_statuses(
                self.driver.links,
                self.node,
                self.driver.now(),
                router.express.misses,
                self.warden.expires_in_s if self.warden is not None else lambda peer: None,
            ),
            clients=self.attendance.size,
            subscriptions=router.subscriptions,
            counters=dict(sorted(counters.items())),
            uptime_s=round(self.driver.now() / NANOS_PER_SECOND, 3),
            verdicts=self._verdict_statuses(),
            backups=ring.backups,
            records=len(ring.records),
            backups_wanted=self._ring_config.backups,
            parked=self.attendance.parked.size,
            identity=self.warden.status() if self.warden is not None else None,
            ways=way_statuses(self.node),
            express_range_ms=survey.express_range.range_ns / 1e6,
        )

    def take_notice(self, notice: RevocationNotice) -> str | None:
        """Take a list of revoked identities from a client; returns why not, or None."""
        if self.warden is None:
            return "this broker has no identity and cannot check the list; hand it to one that has"
        return self.warden.take(notice)

    async def on_ring(self) -> None:
        """Wait until this broker is a member."""
        await self._joined.wait()

    # ── what the driver brings ────────────────────────────────────────────────────────────────

    def on_frames(self, link: Link, run: Run) -> Iterator[None]:
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
        if link.link_class is LinkClass.NORMAL:
            self.node.ring.heard(link.peer.uid, self.driver.now())
        await self.after_batch()

    def on_links_changed(self) -> None:
        self._update_router()

    def on_cut(self, link: Link) -> None:
        self.router.on_cut(link.peer.uid, link.link_class)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        self.router.on_orphans(peer, link_class, items)

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        await self.attendance.serve(hello, wire, reader)

    def on_fact(self, fact: Fact) -> None:
        self._tell(fact)
        if isinstance(fact, NoticeTaken):
            self._on_notice(fact)
            return
        incident = self.recorder.on_fact(fact, self.driver.now(), self.driver.sent_about)
        if incident is not None:
            self._tell_incident(incident)
        if isinstance(fact, Joined):
            self._first_join = False
            self._joined.set()
        elif isinstance(fact, JoinRejected) and self._first_join:
            self._failed = JoinFailed(fact.reason)
            self._joined.set()
        elif isinstance(fact, Rejoining):
            self._joined = trio.Event()
        elif isinstance(fact, NeighboursChanged):
            self.attendance.tell_alternates()
        elif isinstance(fact, DetourEnded) and not fact.restored:
            self.router.on_cut(fact.uid, LinkClass.NORMAL)
        moved = Joined | Rejoining | Reincarnated | NeighboursChanged | Confirmed | Departed
        if isinstance(fact, moved | Detoured | DetourEnded):
            self._update_router()

    async def after_batch(self) -> None:
        """Wait a little for crowded queues: readers slow down rather than queues grow."""
        self.attendance.parked.notice_changes()
        deadline = self.router.next_deadline()
        if deadline is not None and (self._expires is None or deadline < self._expires):
            self._expiry.set()
        told = self.router.told
        if told:  # who gets events needs no heartbeats, but must be heard
            now = self.driver.now()
            for uid in told:
                self.node.ring.told(uid, now)
            told.clear()
        crowded = tuple(self.router.crowded)
        self.router.crowded.clear()
        if crowded:
            self.attendance.relief.look()
            self._links_relief.look()
        for connection in crowded:
            await connection.hold()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        config = self.config
        transport = TcpTransport(self.identity)
        port = await transport.listen(config.host, config.port)
        self._compose(transport, self._own_address(port))
        async with trio.open_nursery() as nursery:
            await nursery.start(self.driver.run)
            nursery.start_soon(self._expire_events)
            if config.tokens is not None:
                nursery.start_soon(self.guard.watch_tokens)
            nursery.start_soon(self.attendance.parked.run)
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
            self._ring_config,
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
        )
        self.attendance = Attendance(self)
        self._links_relief = Relief(self.driver.links.values(), config.limits.link_bytes_total)
        self.guard = Guard(self.gate, self.attendance, self.driver.notices, self._log)
        self.warden: Warden | None = None
        if credentials is not None:
            # Without a folder of data: a list forgotten would let those in that are on it.
            store = config.directory or credentials.identity.directory
            self.warden = Warden(self, credentials, store=store)
        trace = config.trace
        if trace is None and config.directory is not None:
            trace = config.directory / "trace"
        run = TraceRun(
            run_id=f"live-{short(home.uid)}-{home.incarnation}",
            source=Source.LIVE,
            scenario="live",
            nodes=None,
            seed=None,
            profile=config.profile,
            version=software_version(),
            started_unix_ns=wall_clock_ns(),
            duration_ns=None,
            parameters="{}",
        )
        self.recorder = Recorder(run, home.uid, trace)
        self._expiry = trio.Event()
        self._expires: Nanos | None = None  #: when events are given up next; None: nothing waits
        self._composed = True

    def _own_address(self, port: int) -> Address:
        advertise = self.config.advertise
        if advertise is None:
            return Address(self.config.host, port)
        return Address(advertise[0], advertise[1] or port)

    def _on_notice(self, fact: NoticeTaken) -> None:
        self.driver.counters[f"revocation_lists_{fact.outcome.value}"] += 1
        self.attendance.parked.stir()
        if fact.outcome is Outcome.NEWS and self.warden is not None:
            self.warden.enforce()
            self.attendance.tell_revocations()

    def _one_way_us(self, key: LinkKey) -> int | None:
        weights = self.node.survey.weights(key, self.driver.now())
        return weights.rtt_ns // 2000 if weights is not None and weights.rtt_ns else None

    def _update_router(self) -> None:
        self.attendance.parked.stir()
        ring = self.node.ring
        self.router.update(ring.member, ring.linked, (*ring.left, *ring.right))

    async def _expire_events(self) -> None:
        """Give up, in time, events that others wait for."""
        while True:
            self._expires = self.router.next_deadline()
            self._expiry = trio.Event()
            if self._expires is None:
                await self._expiry.wait()
                continue
            pause = max(0, self._expires - self.driver.now()) / NANOS_PER_SECOND
            with trio.move_on_after(pause):
                await self._expiry.wait()  # something else is given up sooner
                continue
            self.router.expire()

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

    def _verdict_statuses(self) -> tuple[VerdictStatus, ...]:
        return tuple(
            VerdictStatus(
                uid=ruling.uid,
                incarnation=ruling.incarnation,
                verdict=ruling.verdict,
                witnesses=ruling.witnesses,
                at_s=round(ruling.at_ns / NANOS_PER_SECOND, 3),
                path=ruling.path,
                restored_s=(
                    None
                    if ruling.restored_ns is None
                    else round(ruling.restored_ns / NANOS_PER_SECOND, 3)
                ),
            )
            for ruling in self.node.ring.verdicts
        )

    def _tell(self, fact: Fact) -> None:
        log = self._log
        match fact:
            case Joined(member, contact):
                log.info("joined", ring_id=member.ring_id, contact=short(contact or "nobody"))
            case JoinDelayed(reason, retry_ns):
                log.warning("not joined yet", why=reason, retry_in_s=round(retry_ns / 1e9, 2))
            case JoinRejected(reason):
                log.error("join rejected", why=reason)
            case Suspected(subject, reason):
                log.warning("suspected", peer=short(subject.uid), why=reason)
            case Confirmed(subject, witnesses):
                log.warning(
                    "confirmed dead", peer=short(subject.uid), witnesses=[*map(short, witnesses)]
                )
            case LinkFailed(subject, witness):
                log.warning("link failed", peer=short(subject.uid), witness=short(witness))
            case Detoured(uid, path):
                log.info(
                    "going round a failed link", peer=short(uid), via=[*map(short, path[1:-1])]
                )
            case DetourEnded(uid, restored):
                log.info("way round a failed link ended", peer=short(uid), restored=restored)
            case Undecided(subject):
                log.warning("cannot be reached, link or broker", peer=short(subject.uid))
            case Refuted(subject):
                log.info("lives after all", peer=short(subject.uid))
            case Departed(member):
                log.info("left the ring", peer=short(member.uid))
            case Rejoining(incarnation, reason):
                log.warning("joining anew", incarnation=incarnation, why=reason)
            case Reincarnated(member, holder):
                log.warning(
                    "held for dead by another ring: merging",
                    holder=short(holder),
                    incarnation=member.incarnation,
                )
            case Alone():
                log.warning("alone: nobody can be reached; serving on, and knocking")
            case _:
                pass

    def _tell_incident(self, incident: Incident) -> None:
        if incident.verdict is Verdict.BROKER_FAILED:
            assert incident.repaired_ns is not None
            since = incident.suspected_ns or incident.confirmed_ns or incident.repaired_ns
            self._log.info(
                "ring repaired",
                peer=short(incident.subject),
                took_ms=round((incident.repaired_ns - since) / 1e6, 1),
                messages=incident.messages,
            )


def wall_clock_ns() -> int:
    """Return the time of day, for the trace."""
    return time.time_ns()
