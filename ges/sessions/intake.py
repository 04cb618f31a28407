"""What clients send: events, subscriptions and questions, taken in the order they came.

Called from reader tasks, in slices; never waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial

from ges.sessions.event_lookup import look_up
from ges.sessions.named_events import NamedEvents, why_never
from ges.sessions.operators import Operating
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.replies import Replies
from ges.sessions.session import Session
from ges.sessions.subscriptions import Subscriptions
from ges.stack import Stack
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Dropped,
    KeepAlive,
    Resubscribe,
    RevocationTaken,
    StatusRequest,
    Subscribe,
    Unsubscribe,
)
from ges.wire.event_flags import CLIENT_FLAGS, GROUPS_FLAG, LEVELS_FLAG, TIMED_FLAGS
from ges.wire.event_runs import EventRun, attribute_problem, event_runs
from ges.wire.events import MAX_PAYLOAD_BYTES, NO_DUTY
from ges.wire.names import ROOT
from ges.wire.status import Status
from ges.wire.status_pages import status_frames
from ges.wire.topics import KnownTopics
from ges.wire.why import Why, WhyRequest
from ges.wire.why_event import WhyEventRequest
from overlay.errors import ProtocolError
from overlay.limits import LIMITS, Limits
from overlay.machine import Message
from overlay.wire.codec import FrameRun
from overlay.wire.frames import CONTROL, EVENT

LONG_RUN_BYTES = 16 * 1024  #: a shorter run is taken in one piece, however many want it
BROKER_FLAGS = GROUPS_FLAG | LEVELS_FLAG  #: of what brokers add behind an event
NAMES_BELOW = f"{ROOT}/".encode()
TOO_LARGE = "a payload of "  #: how the reason begins for which an event is refused for its size


class Intake:
    """Takes what the clients of one broker send, and answers."""

    def __init__(
        self,
        stack: Stack,
        subscriptions: Subscriptions,
        parked: ParkedEvents,
        replies: Replies,
        *,
        take_notice: Callable[[RevocationNotice], str | None],
        describe: Callable[[], Status],
        explain: Callable[[Session, WhyRequest], Why],
        operate: Callable[[Session, Operating], Message],
        limits: Limits = LIMITS,
        look_at_memory: Callable[[], None] = lambda: None,
        portion_bytes: int = sys.maxsize,
    ) -> None:
        """Take to whom what clients send is handed.

        ``take_notice`` returns why a list of revoked identities is not taken, or None;
        ``describe`` says how the broker is, ``explain`` what it would do with an event; ``operate``
        does what an operator asks, and answers;
        ``look_at_memory`` is called where much is queued: behind each ``portion_bytes``.
        """
        self._stack = stack
        self._subscriptions = subscriptions
        self._parked = parked
        self._replies = replies
        self._take_notice = take_notice
        self._describe = describe
        self._limits = limits
        self._look_at_memory = look_at_memory
        self._portion_bytes = portion_bytes
        self._explain = explain
        self._operate = operate
        self._topics = KnownTopics()
        self._named = NamedEvents(stack, self._take_now, replies.settle)

    def steps(self, session: Session, runs: list[FrameRun]) -> Generator[None, None, None]:
        """Take what a client sent; yields where others may have their turn."""
        session.status = None
        for run in runs:
            if session.only_looks and run.kind != CONTROL:
                raise ProtocolError("an event from a client that only looks")
            if run.kind == EVENT:
                for events in self._apart(event_runs(run.data, run.bounds, with_attributes=False)):
                    for part in self._portions(events):
                        self._take_events(session, part)
                        yield
            elif run.kind == CONTROL:
                for body in run.bodies():
                    self._take_message(session, CLIENT_CODEC.decode(body))
                    yield
            else:
                raise ProtocolError("a delivery from a client")

    def has_subscription(self, runs: Iterable[FrameRun]) -> bool:
        """Say whether a client wants to subscribe.

        Raises:
            ProtocolError: what it sends makes no sense.
        """
        return any(
            isinstance(CLIENT_CODEC.decode(body), (Subscribe, Resubscribe))
            for run in runs
            if run.kind == CONTROL
            for body in run.bodies()
        )

    def judge_anew(self, session: Session) -> None:
        """The rights of the client have changed: end what it may not have any more."""
        self._parked.judge_anew(session)
        self._subscriptions.judge_anew(session)

    def confirm(self, session: Session) -> None:
        """Tell the client now what has been taken."""
        self._replies.acknowledge(session)

    def end_subscriptions(self, session: Session) -> None:
        """Let the client get nothing more."""
        self._subscriptions.forget(session)

    def forget(self, session: Session) -> None:
        """The client is gone."""
        self._subscriptions.forget(session)
        self._parked.forget(session)
        self._named.forget(session)
        self._replies.forget(session)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _take_message(self, session: Session, message: Message) -> None:
        if session.only_looks and not isinstance(message, KeepAlive | StatusRequest):
            raise ProtocolError(f"{type(message).__name__} from a client that only looks")
        if isinstance(message, Subscribe):
            self._subscriptions.subscribe(session, message)
            if message.values:
                self._stack.retaining.first.begin(session, message.number)
            self._parked.stir()  # who is alone may publish to its own subscribers
        elif isinstance(message, Resubscribe):
            serve = partial(self._subscriptions.subscribe, session)
            self._stack.replays.take(session, message, serve)
            self._parked.stir()
        elif isinstance(message, Unsubscribe):
            self._subscriptions.unsubscribe(session, message.number)
        elif isinstance(message, KeepAlive):
            if not message.answer:
                session.is_asking = True
                session.tell(KeepAlive(message.token, answer=True))
            if session.dropped != session.told_dropped:
                session.told_dropped = session.dropped
                session.tell(Dropped(*session.dropped))
        elif isinstance(message, RevocationNotice):
            session.answer(RevocationTaken(self._take_notice(message)))
        elif isinstance(message, StatusRequest):
            if session.status is None:
                session.status = b"".join(status_frames(self._describe()))
            session.connection.send(session.status)
        elif isinstance(message, WhyRequest):
            session.tell(self._explain(session, message))
        elif isinstance(message, WhyEventRequest):
            session.tell(look_up(self._stack, session, message))
        elif isinstance(message, Operating):
            session.answer(self._operate(session, message))
        else:
            raise ProtocolError(f"{type(message).__name__} from a client")

    def _portions(self, run: EventRun) -> Iterable[EventRun]:
        """Cut a run for many clients, which may all be slow, where it would queue too much at once.

        The memory is looked at in between.
        """
        size = run.bounds[-1] - run.bounds[0]
        if size < LONG_RUN_BYTES or run.count == 1:
            return (run,)
        head = run.head
        wanted = len(self._stack.deliveries.audience.of(head.matter))
        portions = -(-size * wanted // self._portion_bytes)
        return self._cut(run, -(-run.count // portions)) if portions > 1 else (run,)

    def _cut(self, run: EventRun, count: int) -> Iterable[EventRun]:
        for first in range(0, run.count, max(1, count)):
            yield run.part(first, min(run.count, first + max(1, count)))
            self._look_at_memory()

    def _take_events(self, session: Session, run: EventRun) -> None:
        head = run.head
        session.published += run.count
        if (head.publisher, head.incarnation) != (session.publisher, session.incarnation):
            raise ProtocolError("an event in somebody else's name")
        if head.flags & BROKER_FLAGS:
            raise ProtocolError("an event from a client that says which brokers it is for")
        if not self._named.must_wait(session, run):
            self._take_now(session, run)
        elif (full := self._named.keep(session, run)) is not None:
            self._refuse(session, run, full)

    def _take_now(self, session: Session, run: EventRun) -> None:
        """Take events for which nothing need be asked any more."""
        head = run.head
        park_ms = head.park_ms  # it is not in the event as that goes on
        if head.hops or head.duty != NO_DUTY or head.flags & ~CLIENT_FLAGS:
            run = run.unpatched()
        problem = self._topics.problem(head.topic) or self._why_unfit(run)
        if head.is_named:
            problem = problem or why_never(head)
        if head.topic.startswith(NAMES_BELOW):
            problem = problem or f"nothing is published below {ROOT}: these are names of clients"
        if head.flags & TIMED_FLAGS:
            problem = problem or self._why_not_retained(session, run)
            run = self._stack.retaining.stamped(run)
            head = run.head
        if problem is None and (problem := session.why_not(head.topic)) is not None:
            self._replies.note_denied(session)
        elif problem is None:
            problem = self._stack.why_not(session, head)
            if head.secure and session.secure:
                if problem is None:
                    self._parked.let_go()
                if problem or self._parked.holds(session):
                    self._park(session, run, problem, park_ms)
                    return
        if problem is None and head.is_named:
            problem = self._named.why_not(run)
        if problem is not None:
            self._refuse(session, run, problem)
            return
        if (
            head.is_request
            and not head.is_named
            and not head.again
            and self._stack.has_nobody_for(head)
        ):
            self._replies.say_nobody(session, head)
        self._stack.publish(session, run)
        session.accepted[head.link_class] = head.sequence + run.count - 1
        session.unsaid += run.count

    def _refuse(self, session: Session, run: EventRun, problem: str) -> None:
        for sequence in range(run.head.sequence, run.head.sequence + run.count):
            self._replies.refuse(session, run.head.link_class, sequence, problem)

    def _apart(self, runs: Iterable[EventRun]) -> Iterator[EventRun]:
        """Yield the runs; one by one the events of a run that cannot all be taken."""
        for run in runs:
            if self._why_unfit(run) is None:
                yield run
            else:
                yield from run.split()

    def _why_unfit(self, run: EventRun) -> str | None:
        """Return why an event of a run is larger than this broker takes, or malformed; or None."""
        if (problem := attribute_problem(run)) is not None:
            return problem
        limit = self._limits.payload_bytes
        if limit >= MAX_PAYLOAD_BYTES or (size := run.largest_payload) <= limit:
            return None
        return f"{TOO_LARGE}{size} bytes; this broker takes {limit} at most"

    def _why_not_retained(self, session: Session, run: EventRun) -> str | None:
        most = self._limits.retained
        problem = self._stack.retaining.why_not(run, session.source, most)
        if problem is not None:
            self._replies.note_not_retained(session)
        return problem

    def _park(self, session: Session, run: EventRun, problem: str | None, park_ms: int) -> None:
        """Park secure events that cannot go now, as far as their publisher wants that."""
        for head, body in run.singles():
            if self._stack.has_come(head) and not self._parked.holds(session):
                session.accepted[head.link_class] = head.sequence
                continue
            refusal = self._parked.take(session, head, body, problem, park_ms)
            if refusal is not None:
                self._replies.refuse(session, head.link_class, head.sequence, refusal)
