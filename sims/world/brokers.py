"""A whole broker in virtual time: control machine, links, events and clients.

The second driver of :class:`ges.stack.Stack`, beside :mod:`ges.broker` on trio. The parts of a
broker are the same code; here is what :mod:`ges.broker.parts`, ``ges.broker.upper`` and
:mod:`overlay.driver` do around it. Not modelled: certificates, rules of access, limits, and queues
that hold readers back.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable

import structlog

from ges.node import BrokerNode
from ges.sessions.absences import Absences
from ges.sessions.explanations import Explanations
from ges.sessions.intake import Intake
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.replies import Replies
from ges.sessions.subscriptions import Subscriptions
from ges.stack import Stack
from ges.units.planner import UnitsConfig
from ges.wire.broker_messages import RevocationNotice
from ges.wire.link_codec import LINK_CODEC
from ges.wire.operator_messages import Operated
from ges.wire.status import Status
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.limits import LIMITS
from overlay.links.counted_log import CountedLog
from overlay.machine import CloseLink, Effect, Fact, Input, Message, Notify, OpenLink, Send
from overlay.multigraph.probes import Pace
from overlay.queues.resend import Item
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.greetings import Hello, LinkTable
from overlay.wire.versions import DIALECT, Agreement
from ring.config import RingConfig
from ring.facts import Joined, Leave, Left, NeighboursChanged, Rejoining
from sims.world.greeting import Acceptor, Caller
from sims.world.links import Link, Links
from sims.world.processes import Network, Process, Socket
from sims.world.sessions import Sessions
from sims.world.world import CrashMode

LEAVE_NS = nanos(3.0)  #: as in :mod:`ges.broker.broker`, and ...
LINK_NS = nanos(1.5)  #: ... so is this
LEAVE_LOOK_NS = nanos(0.01)

_SILENT = structlog.wrap_logger(
    structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class WholeBroker(Process):
    """One broker's process."""

    def __init__(
        self,
        network: Network,
        config: RingConfig,
        peer: Peer,
        rng: random.Random,
        *,
        on_fact: Callable[[str, Fact], None] = lambda uid, fact: None,
        on_sent: Callable[[str | None], None] = lambda about: None,
        pace: Pace | None = None,
        units: UnitsConfig | None = None,
        event_links: tuple[str, ...] = (),
    ) -> None:
        """Begin to run.

        Args:
            network: it stands in.
            config: its timing.
            peer: who it is.
            rng: all that it draws.
            on_fact: told what this broker says, with its uid.
            on_sent: told of each message and call on account of a broker: of whom.
            pace: of link probes.
            units: how many sub-units a unit may have.
            event_links: URLs of brokers, links to which are named for events.
        """
        super().__init__(network, peer.uid, peer.url)
        self._told = on_fact
        self._told_sent = on_sent
        self.is_member = False
        self._machine_due: Nanos | None = None
        self._stack_due: Nanos | None = None
        #: The deadlines above may be out of date.
        self._is_machine_touched = self._is_stack_touched = True
        self._leaves_by: Nanos = 0
        self.counters: Counter[str] = Counter()
        self.sent: Counter[type[Message]] = Counter()  #: control messages, by what they say
        self.node = node = BrokerNode(
            config, peer, rng, pace=pace, units=units, event_links=event_links
        )
        log = CountedLog(self.counters, _SILENT, self.now)
        self.table = table = LinkTable(peer.uid)
        self.links = Links(
            self,
            table,
            LINK_CODEC,
            self,
            give=self.give,
            incarnation=lambda: node.peer.incarnation,
            counted_log=log,
        )
        self._caller = Caller(self, node, table, self.links, LINK_CODEC, self.give)
        self._acceptor = Acceptor(node, table, self.links, self._on_client)
        self.stack = Stack(
            node,
            self.links.up,
            self.links.streams,
            self.counters,
            now=self.now,
            give=self.give,
        )
        self._absences = Absences(config.silence_max_ns)
        self._replies = replies = Replies(self.counters, log, self.now)
        self._parked = ParkedEvents(
            peer.uid, self.stack, self.stack.reach, replies, now=self.now, counters=self.counters
        )
        self._parked.on_due = replies.on_due = self._on_due
        subscriptions = Subscriptions(self.stack, LIMITS, log)
        intake = Intake(
            self.stack,
            subscriptions,
            self._parked,
            replies,
            take_notice=_refuse_notice,
            describe=_no_status,
            explain=Explanations(self.stack, ()).answer,
            operate=lambda session, message: Operated("nobody operates a simulated broker"),
        )
        self.sessions = Sessions(
            self,
            node,
            intake,
            replies,
            is_member=lambda: self.is_member,
            after_batch=self._after_clients,
        )

    def now(self) -> Nanos:
        """Virtual time."""
        return self.timeline.now

    def join(self, command: Input) -> None:
        """Do what the layer above asks: found a ring, join one, leave it."""
        self.step(self.give, command)

    def perform(self, effects: list[Effect]) -> None:
        """Do what the machine has not said: it is a false broker's."""
        self.step(self._perform, effects)

    def link(self, other: WholeBroker) -> None:
        """Let there be a normal link to another broker at once, without a call."""
        near, far = self.network.pair(self, other, secure=False)
        here, there = self.node.peer, other.node.peer
        agreed = Agreement(DIALECT.highest, DIALECT.capabilities)
        number = self.table.call(there.uid, LinkClass.NORMAL)
        other.table.on_hello(here.uid, LinkClass.NORMAL, self.table.next_serial(), here.incarnation)
        self.table.on_welcome(
            there.uid, LinkClass.NORMAL, other.table.next_serial(), there.incarnation, call=number
        )
        for broker, peer, socket in ((other, here, far), (self, there, near)):
            reader = FrameReader()
            broker.step(broker.links.run, peer, peer.url, LinkClass.NORMAL, socket, reader, agreed)

    def leave(self) -> None:
        """Leave the ring in good order, as time passes; clients go first."""
        self._leaves_by = self.now() + LEAVE_NS
        self.step(self._begin_to_leave)

    # ── as a process ──────────────────────────────────────────────────────────────────────────

    def accept(self, socket: Socket) -> None:
        """Somebody has connected."""
        self._acceptor.accept(socket)

    def next_deadline(self) -> Nanos | None:
        """Return when the machine, the events or those parked want attention."""
        if self._is_machine_touched:
            self._is_machine_touched = False
            self._machine_due = self.node.next_deadline()
        if self._is_stack_touched:
            self._is_stack_touched = False
            # As with an alarm on trio: a deadline that is set may come sooner, and never later.
            for each in (
                self.stack.next_deadline(),
                self._parked.next_deadline(),
                self._replies.next_deadline(),
            ):
                if each is not None and (self._stack_due is None or each < self._stack_due):
                    self._stack_due = each
        due, other = self._machine_due, self._stack_due
        return other if due is None or (other is not None and other < due) else due

    def expire(self, now: Nanos) -> None:
        """Run the timers that are due."""
        node = self.node
        self._is_machine_touched = self._is_stack_touched = True
        if (due := node.next_deadline()) is not None and due <= now:
            self._perform(node.handle_timers(now))
        if self._stack_due is not None and self._stack_due <= now:
            self._stack_due = None
            self.stack.expire(now)
            self._parked.release(now)
            if (due := self._replies.next_deadline()) is not None and due <= now:
                self._replies.expire(now)

    # ── the machine ───────────────────────────────────────────────────────────────────────────

    def give(self, event: Input) -> None:
        """Hand an input to the machine and do what it says."""
        self._is_machine_touched = True
        self._perform(self.node.handle(event, self.timeline.now))

    def _perform(self, effects: list[Effect]) -> None:
        is_changed = False
        for effect in effects:
            if isinstance(effect, Send):
                link = self.links.up.get((effect.uid, effect.link_class))
                needs = effect.message.capability
                if link is None or (needs is not None and needs not in link.agreed.capabilities):
                    continue
                frame = LINK_CODEC.encode(effect.message, link.agreed.version)
                self._told_sent(effect.about)
                if effect.message.is_quick:
                    link.connection.send_quick(frame)
                else:
                    link.connection.send(frame)
                self.counters["control_messages_sent"] += 1
                self.sent[type(effect.message)] += 1
            elif isinstance(effect, OpenLink):
                self._told_sent(effect.about)
                is_changed = True
                self.soon(self._caller.call, effect)
            elif isinstance(effect, CloseLink):
                self.links.close(effect)
                is_changed = True
            elif isinstance(effect, Notify):
                self._on_fact(effect.fact)
                is_changed = True
        if is_changed:
            self.on_changes()

    def _on_fact(self, fact: Fact) -> None:
        self.stack.on_fact(fact)
        if (absence := self._absences.on_fact(fact, self.now())) is not None:
            self.sessions.tell_missed(absence)
        if isinstance(fact, Joined):
            self.is_member = True
            self.soon(self.sessions.go_on)
        elif isinstance(fact, Rejoining):
            self.is_member = False
        elif isinstance(fact, NeighboursChanged):
            self.sessions.tell_alternates()
        elif isinstance(fact, Left):
            self.soon(self._end)
        self._told(self.name, fact)

    # ── links: what the layer above does with them ────────────────────────────────────────────

    def on_frames(self, link: Link, run: FrameRun) -> None:
        """Take events, and what goes round a failed link."""
        self._is_stack_touched = True
        for _ in self.stack.take(link, run):
            pass

    def on_batch(self, link: Link) -> None:
        """What came over a link has been handed over."""
        self.stack.heard(link)
        self._after_batch()

    def on_changes(self) -> None:
        """Links or places have changed."""
        self._is_stack_touched = True
        self._parked.stir()
        self.stack.on_changes()

    def on_cut(self, link: Link) -> None:
        """Keep what was under way on a link that broke."""
        self._is_stack_touched = True
        self.stack.on_cut(link.peer.uid, link.link_class)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Find other ways for events that ``peer`` will not get."""
        self._is_stack_touched = True
        self.stack.on_orphans(peer, link_class, items)

    def _after_batch(self) -> None:
        self._parked.notice_changes()
        self.stack.look()
        if self.stack.tell_ring() and not self._is_machine_touched:
            due = self.node.ring.next_deadline()
            if due is not None and (self._machine_due is None or due < self._machine_due):
                self._machine_due = due

    def _after_clients(self) -> None:
        self._is_stack_touched = True
        self._after_batch()

    def _on_due(self) -> None:
        self._is_stack_touched = True

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    def _on_client(self, hello: Hello, socket: Socket, reader: FrameReader) -> None:
        self.sessions.serve(hello, socket, reader)

    # ── leaving ───────────────────────────────────────────────────────────────────────────────

    def _begin_to_leave(self) -> None:
        at = self.now() + self.node.ring.draw_turn()
        self.later(at, self._leave, at + LINK_NS)

    def _leave(self, until: Nanos) -> None:
        if self.stack.keeps_events and self.now() < until:
            self.later(self.now() + LEAVE_LOOK_NS, self._leave, until)
            return
        self.stack.part()
        self.give(Leave(turn=0))
        self.sessions.dismiss()

    def _end(self) -> None:
        """The machine has left: the process ends when its links are drained."""
        if self.links.running and self.now() < self._leaves_by:
            self.later(self.now() + LEAVE_LOOK_NS, self._end)
        else:
            self.crash(CrashMode.KILL)


def _refuse_notice(notice: RevocationNotice) -> str:
    return "there are no identities in the simulator"


def _no_status() -> Status:
    raise ProtocolError("nobody describes a broker in the simulator")
