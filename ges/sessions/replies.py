"""What a broker answers when its clients publish: an event is taken, or it is refused, and why."""

from __future__ import annotations

from collections import Counter

from ges.sessions.session import Session
from ges.wire.client_messages import Accepted, EventRefused
from ges.wire.events import Head
from overlay.ids import LinkClass, short
from overlay.links.counted_log import CountedLog


class Replies:
    """Tells clients what has become of their events, and counts the refusals."""

    def __init__(self, counters: Counter[str], counted_log: CountedLog) -> None:
        self._counters = counters
        self._counted_log = counted_log

    def acknowledge(self, session: Session) -> None:
        """Tell the client, once for all it sent together, what has been taken."""
        for link_class, sequence in session.accepted.items():
            session.tell(Accepted(link_class, sequence))
        session.accepted.clear()

    def accept(self, session: Session, head: Head) -> None:
        """Tell a client that its parked events up to this one are taken."""
        session.tell(Accepted(LinkClass.SECURE, head.sequence))

    def refuse(self, session: Session, link_class: LinkClass, sequence: int, problem: str) -> None:
        """Tell a client that an event of its is not taken."""
        self._counters["events_refused"] += 1
        session.tell(EventRefused(link_class, sequence, problem[:500]))

    def note_denied(self, session: Session) -> None:
        """Count and log that the rules do not let a client publish what it wanted to."""
        self._counted_log.note("events_denied", "event denied", client=short(session.uid))
