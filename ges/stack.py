"""One broker without I/O: the control machine, the way of events, and what each tells the other.

Trio drives it in a process (:mod:`ges.broker`), the simulator in virtual time (:mod:`sims.world`).
Its driver owns the links: it hands in their frames and what became of them, and finds what is to be
sent in their queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ges.delivery.interests import Interests
from ges.delivery.subscriber import Subscriber
from ges.directory.directory_part import (
    NamesActive,
    NamesAnswered,
    NamesAsked,
    NamesMissed,
    NamesWrong,
)
from ges.node import BrokerNode
from ges.order.recalls import Outbound
from ges.retained.retained_part import ValuesAsked
from ges.routing.holding import Holding
from ges.routing.known import Known
from ges.routing.outlets import EventLines, Line, Lines
from ges.routing.parts import ExpressRules, RoutingParts
from ges.routing.strays import Strays
from ges.statements.statements_part import ActiveIn
from ges.telling.mailbox import AllAsked, AskAll, Mailed
from ges.telling.post import ANYBODY, Mail
from ges.units.facts import Addressed, UnitsChanged
from ges.wire.asked import Ask
from ges.wire.client_messages import Level
from ges.wire.directory_messages import Holder, NameWrong
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import DEFAULT_BUDGET_US, Head
from ges.wire.recall_messages import PastDone, PastWanted
from ges.wire.topics import KnownTopics
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import Fact, Input, Message
from overlay.multigraph.quick_probes import ExpressCame
from overlay.multigraph.weights import LinkKey
from overlay.queues.resend import Item
from overlay.queues.streams import Streams
from overlay.rng import rng_for
from overlay.wire.codec import FrameRun
from overlay.wire.frames import EVENT
from ring.facts import DetourEnded, Joined, Rejoining


class Timed(Protocol):
    """Something above the stack that has its own deadlines."""

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""

    def expire(self, now: Nanos) -> None:
        """Do what has come due."""


class Stack:
    """Both halves of one broker."""

    def __init__(
        self,
        node: BrokerNode,
        lines: Lines,
        streams: Streams,
        counters: Counter[str],
        *,
        now: Callable[[], Nanos],
        give: Callable[[Input], None],
        wall_ns: Callable[[], int] | None = None,
        budget_us: int = DEFAULT_BUDGET_US,
    ) -> None:
        """Compose the way of events beside a control machine.

        Args:
            node: the control machine.
            lines: the links that are up; the driver changes them in place.
            streams: of these links: what was sent and is not acknowledged.
            counters: of the driver.
            now: the driver's time.
            give: hands an input to the machine, and has done what it says.
            wall_ns: returns unix time in nanoseconds; None: the driver's time is taken for it.
            budget_us: microseconds an express event may take whose publisher does not say.
        """
        self.node = node
        self.counters = counters
        self.now = now
        declared = node.declared
        self._lines = EventLines(lines, declared.is_declared, declared.is_named)
        self._give = give
        self._topics = KnownTopics()
        self.interests = Interests(give)
        #: Told of subscriptions that are active now, and how far.
        self.on_active: Callable[[Iterable[tuple[Any, int]], Level], None] = lambda keys, level: (
            None
        )
        #: Told of events with attributes as they are published here, or come; None: nobody is.
        self.on_event: Callable[[str, EventRun], None] | None = None
        #: Told when something was found out of names that were asked for.
        self.on_names: Callable[[], None] = lambda: None
        self._timed: list[Timed] = []
        survey, peer = node.survey, node.peer
        routing = RoutingParts.build(
            self._lines,
            Holding(streams, node.ring.is_dead, declared.has_failed),
            Known(
                node.gateways,
                node.mask_of,
                node.profiles.index.groups,
                node.statements,
                node.statements,
                self.holders,
            ),
            self.interests,
            counters,
            ExpressRules(budget_us, survey.express_range.is_inside, self._one_way_us),
            values=node.retained.values,
            rng=rng_for(peer.uid, "via", peer.incarnation),
            now=now,
            wall_ns=wall_ns,
        )
        self.router = routing.router
        self._answers = routing.answers
        self._strays = Strays(routing.router, routing.recalls.log, self.holders, counters)
        self.passing = routing.passing
        self.deliveries = routing.deliveries
        self.replays = routing.deliveries.replays  #: kept events, for clients that move here
        self.retaining = routing.deliveries.retaining
        self.watch(self.retaining.first)
        routing.deliveries.named.on_nobody = self._say_wrong
        self.express = routing.express
        self.recalls = routing.recalls
        self.ordering = routing.recalls.ordering
        self.flow_tables = routing.flow_tables
        self._past = routing.past
        self._past.wanted_here = self._wanted_here
        self._off_since: Nanos | None = None  #: off the ring
        self.reach = routing.reach

    # ── events ────────────────────────────────────────────────────────────────────────────────

    def watch(self, timed: Timed) -> None:
        """Have the deadlines of something above this served with those here."""
        self._timed.append(timed)

    def publish(self, client: Subscriber, run: EventRun) -> None:
        """Take events that a client publishes; :meth:`why_not` has said that they can go."""
        if run.head.attribute_bytes and self.on_event is not None:
            self.on_event("event published", run)
        self.router.publish(client, run, self.now())
        if run.head.retain:
            self.retaining.values.charge(run.head, client.source)
        if self.ordering.has_questions:
            self._ask()

    def why_not(self, client: Subscriber, head: Head) -> str | None:
        """Return why an event from a client cannot be taken, or None."""
        return self.reach.why_not(client, head)

    def holders(self, name: str) -> Sequence[Holder] | None:
        """Return which brokers have clients of a name; None: nobody has been asked of late.

        Where a way leads to some of them, those without one are left out: they have died, or left.
        """
        leads_to = self.router.named_sending.leads_to
        found = self.node.directory.holders(name, self.now(), leads_to)
        return found and (tuple(filter(leads_to, found)) or found)

    def ask_for_names(self, names: Iterable[str]) -> None:
        """Find out where the clients of some names are; :attr:`on_names` is told."""
        self._give(NamesAsked(tuple(names)))

    def follow_holders(self) -> None:
        """Send events that went to a member that is gone again, to where its clients are."""
        if self._strays.follow(self.now()):
            self._correct()

    def has_nobody_for(self, head: Head) -> bool:
        """Say whether it is known that nobody in its realm has subscribed to an event.

        Where not all brokers have a slot, or something is not known of one, it is not.
        """
        matter = head.matter
        return not (
            not self.node.gateways.is_for_all
            or self.node.mask_of(matter)
            or self.deliveries.sharing.choosing.of(matter)
            or self.deliveries.wants(matter)
        )

    def has_line(self, uid: str, link_class: LinkClass) -> bool:
        """Say whether a link of that class to a broker is up."""
        return (uid, link_class) in self._lines

    def has_come(self, head: Head) -> bool:
        """Say whether an event that its publisher sends again has come here by another broker."""
        return self.router.has_come(head)

    def take(self, line: Line, frames: FrameRun) -> Iterator[None]:
        """Relay events; between two steps others may go first.

        All that a frame says is read here, before it is passed on or held. So a frame that makes no
        sense ends the link that brought it, and no other.

        Raises:
            ProtocolError: a frame of another kind, one that makes no sense, or a secure event on
                a link that is not.
        """
        if frames.kind != EVENT:
            raise ProtocolError("a delivery from a broker")
        for run in event_runs(frames.data, frames.bounds):
            self._take_run(line, run)
            yield

    def _take_run(self, line: Line, run: EventRun) -> None:
        if run.head.secure and not line.link_class.is_secret:
            raise ProtocolError("a secure event on a link that is not")
        if run.head.secure and not run.head.duty.shape and not run.head.recalled:
            raise ProtocolError("a secure event that names no broker")
        if not run.head.express and (known := line.arrived(run.count)):
            self.counters["events_received_twice"] += known
            if known == run.count:
                return
            run = run.part(known, run.count)
        if self._topics.problem(run.head.topic) is not None:
            self._refuse(run.head, run.count)
            return
        if run.head.attribute_bytes and self.on_event is not None:
            self.on_event("event came", run)
        self.router.relay(line, run, self.now())
        if self.ordering.has_questions:
            self._ask()

    # ── links, places, facts ──────────────────────────────────────────────────────────────────

    def heard(self, line: Line) -> None:
        """Frames over a normal link are a sign of life."""
        if line.link_class.is_base:
            self.node.ring.heard(line.peer.uid, self.now())

    def on_changes(self) -> None:
        """Links or places have changed: plan anew."""
        ring = self.node.ring
        self.recalls.follow(self.now())
        self.router.update(ring.member, ring.linked, ring.expected, now=self.now())
        self.follow_holders()

    def on_cut(self, uid: str, link_class: LinkClass) -> None:
        """A link broke: events for the broker at its other end wait for what comes of it."""
        self.passing.on_cut(uid, link_class, self.now())

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Find other ways for events that ``peer`` will not get."""
        self.passing.on_orphans(peer, link_class, items, self.now())

    def on_fact(self, fact: Fact) -> None:
        """The machine says something that concerns events or subscriptions."""
        match fact:
            case DetourEnded(uid, restored=False):  # events wait for the link
                self.on_cut(uid, LinkClass.NORMAL)
            case Rejoining() if self._off_since is None:
                self._off_since = self.now()
            case Joined() if self._off_since is not None:
                self._past.came_back(self._off_since, self.now())
                self._off_since = None
            case Addressed() | UnitsChanged():
                self.recalls.follow(self.now())
            case ActiveIn(level, keys):
                self.on_active(self.interests.activated(keys, level), level)
            case ValuesAsked(uid, secure, marks):
                values = self.retaining.answer(marks, secure=secure)
                self._answers.tell_values(uid, values, self.now())
            case NamesActive(keys):
                self.on_active(self.interests.activated(keys, Level.SYSTEM), Level.SYSTEM)
            case NamesAnswered():
                self._correct()
                self.on_names()
            case NamesWrong(uid, wrong):
                self._strays.told(uid, wrong, self.now())
                self._correct()
            case Mailed(uid, message):
                self._on_mailed(uid, message)
            case AllAsked(number):
                self._past.on_all_asked(number, self.now())

    def tell_ring(self) -> bool:
        """Tell the ring to whom events went, as these need no heartbeats, but must be heard.

        Returns:
            Whether there were any: then the machine may be due sooner.
        """
        told = self.passing.told()
        if not told:
            return False
        now = self.now()
        for uid in told:
            self.node.ring.told(uid, now)
        return True

    def part(self) -> None:
        """Before this broker leaves: send on what waits for links, over those that are up."""
        self.passing.part(self.now())

    @property
    def keeps_events(self) -> bool:
        """Events wait here for a link."""
        return self.passing.keeps_events

    def look(self) -> None:
        """Forget events that are kept no longer. Called now and then, even if no event comes."""
        self.replays.look()
        self.recalls.log.forget(self.now())
        self.retaining.forget()

    # ── time ──────────────────────────────────────────────────────────────────────────────────

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        # Asked after each batch, mostly when nothing is due at all.
        ends = [
            self.recalls.next_deadline(),
            self.replays.next_deadline(),
            self._past.next_deadline(),
            self._strays.next_deadline(),
            self.passing.next_deadline(self.now()) if self.passing.has_deadlines else None,
            *(timed.next_deadline() for timed in self._timed),
        ]
        return min((end for end in ends if end is not None), default=None)

    def expire(self, now: Nanos) -> None:
        """Give up links and events that do not come; go on with what has waited for them."""
        self.on_changes()
        self.passing.expire(now)
        self._send(self.recalls.expire(now), now)
        self._send(self._past.expire(now), now)
        self._ask()
        self.replays.go_on(now)
        for timed in self._timed:
            timed.expire(now)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _wanted_here(self) -> Iterable[Ask]:
        """Return what the clients of this broker want."""
        return self.node.profiles.exchange.asks_by_key.values()

    def _ask(self) -> None:
        now = self.now()
        self._send(self.recalls.questions(now), now)

    def _on_mailed(self, uid: str, message: Message) -> None:
        now = self.now()
        if isinstance(message, PastWanted):
            self._send(self._past.on_wanted(uid, message, now), now)
        elif isinstance(message, PastDone):
            self._past.on_done(uid, message, now)
            self._ask()
        else:
            self._send(self.recalls.on_message(uid, message, now), now)
            self._ask()

    def _say_wrong(self, head: Head, names: tuple[str, ...]) -> None:
        """Tell a source, and the registrars, that there are no clients of these names here."""
        wrong = NameWrong(names, *head.flow, head.sequence)
        self._give(Mail(ANYBODY, wrong, head.source))
        self._give(NamesMissed(names))

    def _correct(self) -> None:
        """Send events that came to the wrong broker to where their clients are now."""
        unknown = self._strays.correct(self.now())
        if unknown:
            self.ask_for_names(unknown)

    def _send(self, out: Outbound, now: Nanos) -> None:
        self._answers.send_answers(out, now)
        for mail in out.mail:
            self._give(mail)
        for wanted in out.to_all:
            self._give(AskAll(wanted))

    def _refuse(self, head: Head, count: int) -> None:
        """Drop events that an older broker has taken, and whose topic no broker takes any more.

        The link stays. If it ended, they would be sent again over the next one, and a publisher at
        an older broker could put an end to all its links.
        """
        self.counters["events_topic_refused"] += count
        self.router.lose(head)

    def _one_way_us(self, key: LinkKey, kernel_us: int) -> int:
        """An express event has come: have its link sounded, and say how long that takes."""
        survey = self.node.survey
        if survey.wants_express(key, self.now()):
            self._give(ExpressCame(key))
        return survey.one_way_ns(key, 1000 * kernel_us) // 1000
