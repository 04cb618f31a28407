"""The broker: it composes its parts, and runs them in one trio nursery until it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import trio

from ges.broker.config import BrokerConfig, check_config
from ges.broker.data_directory import begin_life
from ges.broker.parts import Parts, Version
from ges.broker.upper import BrokerUpper
from ges.discovery.local_network import announce, ip_of
from ges.discovery.targets import LocalTarget
from ges.discovery.watching import Watching
from ges.node import BrokerNode
from ges.sessions.clients import Clients
from ges.stack import Stack
from ges.units.entry_rules import parse_rules
from ges.wire.link_codec import LINK_CODEC
from ges.wire.status import Status
from overlay.address import Address, parse_url
from overlay.driver import Driver
from overlay.errors import ConfigError
from overlay.ids import NANOS_PER_SECOND
from overlay.machine import Fact
from overlay.multigraph.probes import LinksRead, Reading
from overlay.net.transport import MakeTransport, TcpTransport
from overlay.trace_schema import Incident
from overlay.wire.codec import MessageCodec
from overlay.wire.versions import DIALECT, Dialect
from ring.errors import JoinFailed
from ring.facts import Found, Join, Leave, Reseed

#: Settings that can change while a broker runs.
CHANGEABLE = (
    *("access", "tokens", "limits", "slow_clients", "seeds", "targets", "grace_s"),
    *("logs_traces", "admit", "gateways"),
)

READ_SECONDS = 1.0  #: between two readings of the queues of all links
LEAVE_SECONDS = 3.0  #: for the last messages of a broker that leaves ...
LINK_SECONDS = 1.5  #: ... of which it waits so long for links that events wait for


class Broker:
    """A broker process. ``run`` serves until cancelled; ``leave`` ends it with good manners.

    A broker of another version has another machine, codec or dialect.
    """

    machine_type: ClassVar[type[BrokerNode]] = BrokerNode
    codec: ClassVar[MessageCodec] = LINK_CODEC
    dialect: ClassVar[Dialect] = DIALECT

    def __init__(self, config: BrokerConfig, *, transport: MakeTransport = TcpTransport) -> None:
        """Check the settings and begin a life; opens no socket yet.

        ``transport`` makes the connections, with the identity to show, if there is one.

        Raises:
            ConfigError: something the settings name is wrong or not usable.
        """
        self._checked = check_config(config)
        self.config = config
        self.identity = self._checked.identity
        self.transport = transport
        certified = self.identity.uid if self.identity is not None else None
        self._life = begin_life(config.directory, certified_uid=certified)
        self._upper = BrokerUpper()
        self._grace = trio.CancelScope()
        self._discovered: tuple[Address, ...] = ()  #: by targets
        self._has_begun = False  #: to join, or to found
        self._renamed = trio.Event()  #: other targets are named
        self._parts: Parts | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen, join and serve; ``started`` once the broker is on the ring.

        Raises:
            ConfigError: the address cannot be listened on.
            JoinFailed: the ring at the given seeds will not have this broker.
        """
        try:
            parts = self._parts = await self._compose()
            await self._serve(parts, task_status)
        finally:
            if self._life.lock is not None:
                self._life.lock.close()

    async def leave(self) -> None:
        """Tell the neighbours and close all links; ``run`` is then to be cancelled."""
        if not self.is_composed:
            return
        parts = self.parts
        self._upper.is_leaving = True
        parts.log.info("leaving")
        with trio.move_on_after(LEAVE_SECONDS):
            turn = parts.node.ring.draw_turn()
            await trio.sleep(turn / NANOS_PER_SECOND)  # events come meanwhile
            with trio.move_on_after(LINK_SECONDS):
                await parts.router_timer.settled()
            parts.stack.part()
            parts.driver.give(Leave(turn=0))
            await parts.clients.dismiss()
            await self._upper.left.wait()  # links may be down for a moment before that
            await parts.driver.drained()
        parts.recorder.close(parts.driver.sent_about)

    async def reload(self, config: BrokerConfig | None = None) -> None:
        """Read access rules and tokens again; a file that is wrong changes nothing.

        ``config``: take from it what can change while a broker runs: where those files are, the
        limits, what becomes of slow clients, how long they have to go, and the brokers that form
        the ring.
        """
        if not self.is_composed:
            return
        if config is not None:
            before = self.config
            self.config = replace(
                self.config, **{name: getattr(config, name) for name in CHANGEABLE}
            )
            self.parts.limits.become(config.limits)
            self.parts.clients.policy = config.slow_clients
            entry = parse_rules(self.config.admit, self.config.gateways)
            self.node.units.placement.entry = entry
            self.parts.log_traces(wanted=config.logs_traces)
            if config.seeds != before.seeds and self._has_begun:
                self.parts.driver.give(Reseed(self._seeds))
            if config.targets != before.targets:
                self._renamed.set()
        await self.parts.access_watch.reload(self.config.access, self.config.tokens)

    def watch(self, watcher: Callable[[Fact, Incident | None], None]) -> None:
        """Have ``watcher`` told of every fact, and of the incident that it decides, if any."""
        self._upper.watchers.append(watcher)

    def drain(self, grace_s: float | None = None) -> None:
        """Begin to leave: :meth:`drained` goes on then. ``grace_s`` None: as configured."""
        self._upper.drain(grace_s)

    def hurry(self) -> None:
        """Wait no longer for clients that are to go to other brokers."""
        self._grace.cancel()

    async def drained(self) -> None:
        """Wait until this broker is to drain, and for its end: clients have gone, and it has left.

        It takes no new clients, and those that are here are told to go to other brokers while it
        serves on, as a member of the ring. Then it leaves as :meth:`leave` says.
        """
        upper = self._upper
        await upper.drain_wanted.wait()
        if self.is_composed:
            grace_s = self.config.grace_s if upper.grace_s is None else upper.grace_s
            clients = self.parts.clients
            self.parts.log.info("draining", clients=clients.size, grace_s=grace_s)
            with self._grace:
                await clients.send_away(grace_s)
        await self.leave()

    def status(self) -> Status:
        """Describe this broker as it is now."""
        return self._upper.status()

    @property
    def is_leaving(self) -> bool:
        """Whether it has begun to leave the ring."""
        return self._upper.is_leaving

    # ── its parts, once it listens ────────────────────────────────────────────────────────────

    @property
    def is_composed(self) -> bool:
        """Whether it listens, and so has parts."""
        return self._parts is not None

    @property
    def is_draining(self) -> bool:
        """Whether it is to leave, and takes no new clients."""
        return self._upper.drain_wanted.is_set()

    @property
    def parts(self) -> Parts:
        """What it consists of."""
        assert self._parts is not None, "this broker does not listen yet"
        return self._parts

    @property
    def node(self) -> BrokerNode:
        """The protocol's state."""
        return self.parts.node

    @property
    def driver(self) -> Driver:
        """The links."""
        return self.parts.driver

    @property
    def stack(self) -> Stack:
        """The control machine and the way of events."""
        return self.parts.stack

    @property
    def clients(self) -> Clients:
        """Those that are attached."""
        return self.parts.clients

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

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @property
    def _seeds(self) -> tuple[str, ...]:
        """The list that this broker was started with; its own address in it is its own URL."""
        own = (self.url, self.secure_url)
        urls = (seed.url for seed in (*self.config.seeds, *self._discovered))
        return tuple(dict.fromkeys(self.url if url in own else url for url in urls))

    def _on_list(self, addresses: tuple[Address, ...]) -> None:
        """The brokers that were looked for: join by them, or by those that are named now."""
        self._discovered = addresses
        if self._has_begun:
            self.parts.driver.give(Reseed(self._seeds))
        else:
            self._begin(Join(self._seeds, self.config.bootstrap, patient=True))

    def _begin(self, command: Join | Found) -> None:
        self._has_begun = True
        self.parts.driver.give(command)

    async def _look_for_brokers(self) -> None:
        """Watch the targets, and others from when others are named.

        Raises:
            ConfigError: one of those that the broker was started with is wrong from the beginning.
        """
        is_first = True
        while True:
            self._renamed = trio.Event()
            async with trio.open_nursery() as nursery:
                if self.config.targets:
                    keep = self.parts.driver.bulkhead.keep
                    nursery.start_soon(keep, partial(self._watch_targets, is_first), ConfigError)
                elif not is_first:
                    self._on_list(())
                await self._renamed.wait()
                nursery.cancel_scope.cancel()
            is_first = False

    async def _watch_targets(self, is_first: bool) -> None:
        log, overlay = self.parts.log, self.config.overlay
        try:
            await Watching(self.config.targets, overlay, log, self._on_list).run()
        except* ConfigError as errors:
            if is_first:
                raise
            for error in errors.exceptions:
                log.error("cannot look for brokers, the earlier list stays", why=str(error))

    async def _announce(self, target: LocalTarget) -> None:
        address = parse_url(self.url)
        uid, at = self.node.peer.uid, await ip_of(address.host)
        await announce(target, self.config.overlay, uid, address, advertised_at=at)

    async def _compose(self) -> Parts:
        transport = self.transport(self.identity)
        port = await transport.listen(self.config.host, self.config.port)
        address = self.config.own_address(port)
        version = Version(self.machine_type, self.codec, self.dialect)
        parts = Parts.build(self._checked, self._life, transport, address, self._upper, version)
        self._upper.attach(parts)
        return parts

    async def _serve(self, parts: Parts, task_status: trio.TaskStatus[None]) -> None:
        config, on_ring = self.config, parts.on_ring
        for words in config.warnings:
            parts.log.warning(words)
        async with trio.open_nursery() as nursery:
            await nursery.start(parts.driver.run)
            keep = parts.driver.bulkhead.keep
            nursery.start_soon(keep, parts.router_timer.run)
            nursery.start_soon(keep, parts.access_watch.watch_tokens)
            nursery.start_soon(keep, parts.parked_alarm.run)
            nursery.start_soon(keep, parts.confirm_alarm.run)
            if parts.secured is not None:
                nursery.start_soon(keep, parts.secured.identity_watch.run)
            nursery.start_soon(keep, partial(_read_links, parts))
            if parts.drills is not None:
                parts.log.warning("this broker lets drills break it")
                nursery.start_soon(keep, parts.drills.run)
            if config.announce is not None:
                nursery.start_soon(keep, partial(self._announce, config.announce), ConfigError)
            if not config.targets:
                self._begin(Join(self._seeds, config.bootstrap) if config.seeds else Found())
            nursery.start_soon(self._look_for_brokers)
            await on_ring.decided()
            if on_ring.rejection is not None:
                nursery.cancel_scope.cancel()
            else:
                task_status.started()
        if on_ring.rejection is not None:
            raise JoinFailed(on_ring.rejection)


async def _read_links(parts: Parts) -> None:
    """Tell the machine, now and then, what the connections have sent; forget what is too old."""
    while True:
        await trio.sleep(READ_SECONDS)
        readings = (
            Reading(key, via.sent_bytes, via.queued_bytes, via.events)
            for key, via in ((k, link.connection) for k, link in parts.driver.links.items())
        )
        parts.driver.give(LinksRead(tuple(readings)))
        parts.backpressure.look_at_memory()
        parts.stack.look()
