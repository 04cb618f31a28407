"""What clients send: events, subscriptions and questions, taken in the order they came.

Called from reader tasks, in slices; never waits.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from ges.errors import TopicError
from ges.matching.topics import check_topic
from ges.sessions.parked_events import ParkedEvents
from ges.sessions.session import Session
from ges.sessions.subscriptions import Subscriptions
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import Head
from ges.wire.messages import (
    CLIENT_CODEC,
    Accepted,
    Dropped,
    EventRefused,
    KeepAlive,
    RevocationNotice,
    RevocationTaken,
    StatusRequest,
    Subscribe,
    Unsubscribe,
)
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, short
from overlay.machine import Message
from overlay.wire.codec import FrameRun
from overlay.wire.frames import CONTROL, EVENT

if TYPE_CHECKING:
    from ges.broker import Broker

MAX_KNOWN_TOPICS = 16384


class Intake:
    """Takes what the clients of one broker send, and answers."""

    def __init__(self, broker: Broker, subscriptions: Subscriptions) -> None:
        self.parked = ParkedEvents(broker, self)
        self._broker = broker
        self._subscriptions = subscriptions
        self._notices = broker.driver.counted_log
        self._topics: set[bytes] = set()  #: topics found to be well-formed

    def steps(self, session: Session, runs: list[FrameRun]) -> Generator[None, None, None]:
        """Take what a client sent; yields where others may have their turn."""
        session.status = None
        for run in runs:
            if run.kind == EVENT:
                for events in event_runs(run.data, run.bounds):
                    self._take_events(session, events)
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
            isinstance(CLIENT_CODEC.decode(body), Subscribe)
            for run in runs
            if run.kind == CONTROL
            for body in run.bodies()
        )

    def acknowledge(self, session: Session) -> None:
        """Tell the client, once for all it sent together, what has been taken."""
        for link_class, sequence in session.accepted.items():
            session.tell(Accepted(link_class, sequence))
        session.accepted.clear()

    def refuse(self, session: Session, link_class: LinkClass, sequence: int, problem: str) -> None:
        """Tell a client that an event of its is not taken."""
        self._broker.driver.counters["events_refused"] += 1
        session.tell(EventRefused(link_class, sequence, problem[:500]))

    def note_denied(self, session: Session) -> None:
        """Count and log that the rules do not let a client publish what it wanted to."""
        self._notices.note("events_denied", "event denied", client=short(session.uid))

    def accept(self, session: Session, head: Head) -> None:
        """Tell a client that its parked events up to this one are taken."""
        session.tell(Accepted(LinkClass.SECURE, head.sequence))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _take_message(self, session: Session, message: Message) -> None:
        if isinstance(message, Subscribe):
            self._subscriptions.subscribe(session, message)
            self.parked.stir()  # who is alone may publish to its own subscribers
        elif isinstance(message, Unsubscribe):
            self._subscriptions.unsubscribe(session, message.number)
        elif isinstance(message, KeepAlive):
            if not message.answer:
                session.tell(KeepAlive(message.token, answer=True))
            if session.dropped != session.told_dropped:
                session.told_dropped = session.dropped
                session.tell(Dropped(*session.dropped))
        elif isinstance(message, RevocationNotice):
            session.answer(RevocationTaken(self._broker.take_notice(message)))
        elif isinstance(message, StatusRequest):
            if session.status is None:
                session.status = CLIENT_CODEC.encode(self._broker.status())
            session.connection.send(session.status)
        else:
            raise ProtocolError(f"{type(message).__name__} from a client")

    def _take_events(self, session: Session, run: EventRun) -> None:
        head = run.head
        if (head.publisher, head.incarnation) != (session.publisher, session.incarnation):
            raise ProtocolError("an event in somebody else's name")
        if head.attribute_bytes:
            run.check_attributes()
        if head.hops or head.limit:
            run = run.unpatched()
        router = self._broker.router
        problem = self._topic_problem(head)
        if problem is None and (problem := session.why_not(head.topic)) is not None:
            self.note_denied(session)
        elif problem is None:
            problem = router.why_not(session, head)
            if head.secure and session.secure and (problem or self.parked.holds(session)):
                self._park(session, run, problem, head.limit)
                return
        if problem is not None:
            for sequence in range(head.sequence, head.sequence + run.count):
                self.refuse(session, head.link_class, sequence, problem)
            return
        router.publish_run(session, run)
        session.accepted[head.link_class] = head.sequence + run.count - 1

    def _park(self, session: Session, run: EventRun, problem: str | None, park_ms: int) -> None:
        """Park secure events that cannot go now, as far as their publisher wants that."""
        for head, body in run.singles():
            if self._broker.router.has_come(head) and not self.parked.holds(session):
                session.accepted[head.link_class] = head.sequence
                continue
            refusal = self.parked.take(session, head, body, problem, park_ms)
            if refusal is not None:
                self.refuse(session, head.link_class, head.sequence, refusal)

    def _topic_problem(self, head: Head) -> str | None:
        topic = head.topic
        if topic in self._topics:
            return None
        try:
            check_topic(topic.decode())
        except UnicodeDecodeError:
            return "the topic is not UTF-8"
        except TopicError as error:
            return str(error)
        if len(self._topics) >= MAX_KNOWN_TOPICS:
            self._topics.clear()
        self._topics.add(topic)
        return None
