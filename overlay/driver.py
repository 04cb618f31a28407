"""Runs a machine over real streams and real time, in trio.

The machine is touched from reader tasks, the timer task and the layer above, but trio switches
tasks only at an ``await``, and there is none between an input and the last of its effects: each is
one step, in one process, without a lock or a queue.

Frames that are no control messages go to the layer above as they are, and callers that are no
brokers to ``on_client``; this package knows neither events nor clients.

Here are the machine's effects and timers. ``calling`` and ``accepting`` make links, and
``lifecycle`` keeps them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial

import structlog
import trio

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, short
from overlay.limits import LIMITS, Limits
from overlay.links.accepting import Acceptor
from overlay.links.bulkhead import Bulkhead
from overlay.links.calling import Caller
from overlay.links.counted_log import CountedLog
from overlay.links.first_seen import FirstSeen
from overlay.links.lifecycle import Links
from overlay.links.link import Link, Upper
from overlay.links.severing import Severed
from overlay.machine import Closed, CloseLink, Effect, Input, Machine, Notify, OpenLink, Send
from overlay.net.alarm import Alarm
from overlay.net.precedence import Precedence
from overlay.net.transport import Transport
from overlay.net.turn import Turn
from overlay.queues.streams import Streams
from overlay.wire.codec import MessageCodec
from overlay.wire.greetings import LinkTable
from overlay.wire.versions import DIALECT, Dialect


class Driver:
    """One machine, its links and its timers."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        codec: MessageCodec,
        upper: Upper,
        *,
        overlay: str = "chordal",
        name: str = "",
        dialect: Dialect = DIALECT,
        limits: Limits = LIMITS,
        certified_only: bool = False,
    ) -> None:
        """``certified_only``: links of all classes are made over TLS.

        ``name``: of this broker, for people; the brokers that it is linked to are told of it.
        Whether others may link without it the layer above says (:meth:`Upper.judge_broker`).
        """
        self.machine = machine
        self.counters: Counter[str] = Counter()
        self.sent_about: Counter[str] = Counter()  #: messages by the failure they are about
        self.overlay = overlay
        self._transport = transport
        self._codec = codec
        self._upper = upper
        self._nursery: trio.Nursery | None = None
        self._started = trio.current_time()
        self._alarm = Alarm(machine.next_deadline, self._handle_timers, now=self.now)
        log = structlog.get_logger("chordal.overlay").bind(broker=short(machine.peer.uid))
        self.counted_log = CountedLog(self.counters, log, self.now)
        self.first_seen = FirstSeen(log, self.now)
        self.severed = Severed()
        self.bulkhead = Bulkhead(self.counters, log, self.counted_log, trio.sleep)
        table = LinkTable(machine.peer.uid)
        self._links = Links(
            table,
            codec,
            upper,
            give=self.give,
            now=self.now,
            incarnation=lambda: machine.peer.incarnation,
            bulkhead=self.bulkhead,
            counted_log=self.counted_log,
            first_seen=self.first_seen,
        )
        self._caller = Caller(
            machine,
            transport,
            table,
            self._links,
            overlay=overlay,
            name=name,
            dialect=dialect,
            certified_only=certified_only,
            counted_log=self.counted_log,
            give=self.give,
            is_severed=self._is_severed,
        )
        self._acceptor = Acceptor(
            machine,
            transport,
            table,
            self._links,
            upper,
            overlay=overlay,
            name=name,
            dialect=dialect,
            limits=limits,
            counted_log=self.counted_log,
            now=self.now,
            is_severed=self._is_severed,
        )
        transport.on_no_more_files = self._acceptor.on_no_more_files

    # ── for the layer above ───────────────────────────────────────────────────────────────────

    @property
    def links(self) -> dict[tuple[str, LinkClass], Link]:
        """The links that are up, by uid and class; always the same mapping."""
        return self._links.up

    @property
    def running_links(self) -> Collection[Link]:
        """Links that are up, and those that part yet; always the same collection."""
        return self._links.running.keys()

    @property
    def strangers(self) -> int:
        """Incoming connections that have not greeted yet."""
        return self._acceptor.strangers

    @property
    def has_room(self) -> bool:
        """One more connection may come in, by whatever door."""
        return self._acceptor.has_room

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a connection that has come by a door that is not this one, while it lasts."""
        self._acceptor.beside += 1
        try:
            yield
        finally:
            self._acceptor.beside -= 1

    @property
    def streams(self) -> Streams:
        """Bytes that were sent over links and are not acknowledged."""
        return self._links.streams

    def relieve(self, most_bytes: int) -> None:
        """Keep no more than so many bytes of memory for links that are lost."""
        self._links.relieve(most_bytes)

    def tidy(self) -> None:
        """Have memory that was freed given back to the system before long."""
        self._acceptor.heap_trim.note_freed()

    @property
    def turn(self) -> Turn:
        """The turn that connections of clients take part in as well."""
        return self._links.turn

    @property
    def precedence(self) -> Precedence:
        """Who of the connections of clients goes first, too."""
        return self._links.precedence

    def now(self) -> Nanos:
        """Nanoseconds since the driver was made."""
        return round((trio.current_time() - self._started) * NANOS_PER_SECOND)

    def give(self, event: Input) -> None:
        """Hand an input to the machine and do what it says."""
        self._perform(self.machine.handle(event, self.now()))

    def cut(self, uid: str, link_class: LinkClass, reason: Closed) -> None:
        """End a link at once; the machine is told that it is down."""
        self._links.cut(uid, link_class, reason)

    def sever(self, uid: str, until: Nanos) -> None:
        """End all links to a broker, and make and take none until then."""
        self.severed.sever(uid, until)
        for link_class in LinkClass:
            self.cut(uid, link_class, Closed.LOST)

    def _is_severed(self, uid: str | None) -> bool:
        return self.severed.has(uid, self.now())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            accept = partial(self.bulkhead.contain, self._acceptor.accept)
            await nursery.start(self._transport.serve, accept)
            loops = (self._alarm, self._acceptor.heap_trim)
            for loop in (*loops, self._links.acknowledging, self._links.parting):
                nursery.start_soon(self.bulkhead.keep, loop.run)
            task_status.started()

    async def drained(self) -> None:
        """Wait until no link is left, once the machine has closed all."""
        await self._links.drained()

    # ── effects and timers ────────────────────────────────────────────────────────────────────

    def _perform(self, effects: list[Effect]) -> None:
        """Do what the machine says; what it sends is written in one turn."""
        if self.turn.is_open:
            self._perform_each(effects)
        else:
            with self.turn:
                self._perform_each(effects)
        self.look()

    def look(self) -> None:
        """The machine may be due earlier than before: it was given an input, or told something."""
        self._alarm.look()

    def _perform_each(self, effects: list[Effect]) -> None:
        is_changed = False
        for effect in effects:
            if isinstance(effect, Send):
                link = self.links.get((effect.uid, effect.link_class))
                needs = effect.message.capability
                if link is not None and needs is not None and needs not in link.agreed.capabilities:
                    self.counters["control_messages_not_known_there"] += 1
                elif link is not None:
                    frame = self._codec.encode(effect.message, link.agreed.version)
                    if effect.message.is_quick:
                        link.connection.send_quick(frame)
                    else:
                        link.connection.send(frame)
                    self.counters["control_messages_sent"] += 1
                    if effect.about is not None:
                        self.sent_about[effect.about] += 1
            elif isinstance(effect, OpenLink):
                is_changed = True
                if effect.about is not None:
                    self.sent_about[effect.about] += 1
                assert self._nursery is not None
                self._nursery.start_soon(self.bulkhead.contain, self._caller.call, effect)
            elif isinstance(effect, CloseLink):
                self._links.close(effect)
                is_changed = True
            elif isinstance(effect, Notify):
                self._upper.on_fact(effect.fact)
                is_changed = True
        if is_changed:
            self._upper.on_changes()

    def _handle_timers(self, now: Nanos) -> None:
        self._perform(self.machine.handle_timers(now))
