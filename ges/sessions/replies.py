"""What a broker answers when its clients publish: an event is taken, or it is refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.sessions.session import Session
from ges.wire.client_messages import Accepted, EventRefused, NoResponder
from ges.wire.events import Head
from overlay.ids import LinkClass, Nanos, nanos
from overlay.links.counted_log import CountedLog

CONFIRM_NS = nanos(0.02)  #: events are confirmed after this at the latest ...
CONFIRM_EVENTS = 4096  #: ... or when so many are not


class Replies:
    """Tells clients what has become of their events, and counts the refusals.

    Each confirmation costs both ends a system call and a task switch, and mostly no publisher waits
    for it. So a client that says that it waits is told at once, and any other before long. A client
    of MQTT cannot say so, and is always told at once.
    """

    def __init__(
        self, counters: Counter[str], counted_log: CountedLog, now: Callable[[], Nanos]
    ) -> None:
        #: Called when :meth:`next_deadline` is earlier than before.
        self.on_due: Callable[[], None] = lambda: None
        self._counters = counters
        self._counted_log = counted_log
        self._now = now
        self._unsaid: dict[Session, None] = {}  #: clients that are told before long
        self._due: Nanos | None = None

    def settle(self, session: Session) -> None:
        """Tell the client what has been taken: at once if it waits for that, or before long."""
        if not session.accepted:
            session.is_asking = False
            return
        is_waited_for = session.is_asking or session.always_waits
        if (
            is_waited_for
            or session.unsaid >= CONFIRM_EVENTS
            or LinkClass.EXPRESS in session.accepted
        ):
            self.acknowledge(session)
            return
        self._unsaid[session] = None
        if self._due is None:
            self._due = self._now() + CONFIRM_NS
            self.on_due()

    def acknowledge(self, session: Session) -> None:
        """Tell the client, once for all it sent together, what has been taken."""
        for link_class, sequence in session.accepted.items():
            session.tell(Accepted(link_class, sequence))
        session.accepted.clear()
        session.unsaid = 0
        session.is_asking = False
        self._unsaid.pop(session, None)

    def forget(self, session: Session) -> None:
        """The client is gone."""
        self._unsaid.pop(session, None)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return self._due

    def expire(self, now: Nanos) -> None:
        """Tell all clients what has been taken."""
        self._due = None
        for session in list(self._unsaid):
            self.acknowledge(session)

    def accept(self, session: Session, head: Head) -> None:
        """Tell a client that its parked events up to this one are taken."""
        session.tell(Accepted(LinkClass.SECURE, head.sequence))

    def refuse(self, session: Session, link_class: LinkClass, sequence: int, problem: str) -> None:
        """Tell a client that an event of its is not taken."""
        self._counters["events_refused"] += 1
        session.tell(EventRefused(link_class, sequence, problem[:500]))

    def say_nobody(self, session: Session, head: Head) -> None:
        """Tell a client that nobody is there to answer its request."""
        self._counters["requests_without_responder"] += 1
        session.tell(NoResponder(head.link_class, head.sequence))

    def note_denied(self, session: Session) -> None:
        """Count and log that the rules do not let a client publish what it wanted to."""
        self._counted_log.note("events_denied", "event denied", **session.who)

    def note_not_retained(self, session: Session) -> None:
        """Count and log that there is no room to retain what a client publishes."""
        of = session.source.name
        self._counted_log.note("retained_refused", "no room to retain an event", of=of)
