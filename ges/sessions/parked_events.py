"""Keeps parked events moving: parks them, lets them go when a path appears, ends them in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import structlog

from ges.routing.reach import UNSURE
from ges.sessions.parking import Parking
from ges.sessions.replies import Replies
from ges.sessions.session import Session
from ges.stack import Stack
from ges.wire.event_runs import EventRun
from ges.wire.events import Head
from overlay.ids import NANOS_PER_SECOND, Nanos, nanos, short

NANOS_PER_MILLI = 1_000_000
UNSURE_NS = nanos(20)  #: a secure event waits so long for a mask, whatever its publisher allows


class Versioned(Protocol):
    """Something that changes."""

    @property
    def version(self) -> object:
        """Something else after each change."""


class ParkedEvents:
    """The parked events of one broker."""

    def __init__(
        self,
        uid: str,
        stack: Stack,
        reach: Versioned,
        replies: Replies,
        *,
        now: Callable[[], Nanos],
        counters: Counter[str],
    ) -> None:
        """``uid``: of this broker, for its log; ``reach``: who can be reached."""
        self._stack = stack
        self._reach = reach
        self._replies = replies
        self._now = now
        self._counters = counters
        self._parking: Parking[Session] = Parking(lambda session: session.source)
        #: Called when :meth:`next_deadline` may be earlier than before.
        self.on_due: Callable[[], None] = lambda: None
        self._is_stirred = False  #: something has changed since it was last looked what may go
        self._version: object = None  #: of what is known of who can be reached, when last looked at
        self._log = structlog.get_logger("chordal.parked").bind(broker=short(uid))

    @property
    def size(self) -> int:
        """How many events are parked."""
        return self._parking.size

    @property
    def memory(self) -> int:
        """Bytes of memory that all take."""
        return self._parking.memory

    def shed(self, most_bytes: int) -> None:
        """Refuse what clients have parked, of those first that have most, until so much is left."""
        reason = "it was parked, and this broker has no memory left for it"
        while self.memory > most_bytes and (session := self._parking.most()) is not None:
            refused = self._parking.withdraw(session, lambda head: reason)
            for parked, _ in refused:
                head = parked.head
                told = in_doubt(head, reason)
                self._replies.refuse(session, head.link_class, head.sequence, told)
            self._counters["events_parked_expired"] += len(refused)

    def holds(self, session: Session) -> bool:
        """Say whether events of this client wait; later ones must then not overtake them."""
        return self._parking.holds(session)

    def take(
        self, session: Session, head: Head, body: bytes, problem: str | None, park_ms: int
    ) -> str | None:
        """Park a secure event for as long as it may wait; returns why it is refused, or None.

        ``problem`` is why it cannot go now; None: only that earlier ones wait.
        """
        wait_ns = max(park_ms * NANOS_PER_MILLI, UNSURE_NS if problem == UNSURE else 0)
        problem = problem or "earlier events of this client are parked"
        if not wait_ns:
            return in_doubt(head, problem)
        full = self._parking.park(session, head, body, self._now(), wait_ns)
        if full is not None:
            return in_doubt(head, f"{problem}; not parked: {full}")
        self._counters["events_parked"] += 1
        self.stir()
        return None

    def stir(self) -> None:
        """Something has changed by which parked events may go."""
        self._is_stirred = True
        self.on_due()

    def let_go(self) -> None:
        """Release what has waited for something that has changed by now."""
        if self._parking.size:
            self.notice_changes()
            if self._is_stirred:
                self.release(self._now())

    def notice_changes(self) -> None:
        """Look whether others can be reached than before."""
        version = self._reach.version
        if version != self._version:
            self._version = version
            self.stir()

    def judge_anew(self, session: Session) -> None:
        """The rules have changed: refuse what the publisher may not publish by those of now."""
        stack = self._stack

        def why_denied(head: Head) -> str | None:
            return None if stack.has_come(head) else session.why_not(head.topic)

        for parked, reason in self._parking.withdraw(session, why_denied):
            head = parked.head
            self._replies.note_denied(session)
            self._replies.refuse(session, head.link_class, head.sequence, in_doubt(head, reason))
        self.stir()  # what waited behind them may go

    def forget(self, session: Session) -> None:
        """The publisher is gone: so is what it had parked."""
        lost = self._parking.forget(session)
        if lost:
            self._counters["events_parked_dropped"] += lost
            self._log.warning("parked events dropped", events=lost, **session.who)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`release` has something to do."""
        return 0 if self._is_stirred else self._parking.next_deadline()

    def release(self, now: Nanos) -> None:
        """Let go what can go now, and refuse what has waited too long."""
        self._is_stirred = False
        free, over = self._parking.release(now, self._why_not)
        for session, parked in free:
            head = parked.head
            run = self._stack.retaining.restamped(EventRun.of(head, parked.body))
            full = self._stack.retaining.why_not(run, session.source)
            if full is not None:  # others have taken the room since
                self._replies.note_not_retained(session)
                self._replies.refuse(session, head.link_class, head.sequence, full)
                continue
            self._stack.publish(session, run)
            self._replies.accept(session, parked.head)
            self._counters["events_parked_sent"] += 1
        for session, parked, problem in over:
            seconds = parked.wait_ns / NANOS_PER_SECOND
            self._replies.refuse(
                session,
                parked.head.link_class,
                parked.head.sequence,
                f"expired, parked for {seconds:g} s: {in_doubt(parked.head, problem)}",
            )
            self._counters["events_parked_expired"] += 1
        if over:
            self._log.warning("parked events expired", events=len(over))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _why_not(self, session: Session, head: Head) -> str | None:
        """Return why an event waits on; None: it may go.

        One that has come here by another broker may go in any case. Its publisher had it parked at
        that broker, and the event left there just as the publisher's connection broke.
        """
        stack = self._stack
        return None if stack.has_come(head) else stack.why_not(session, head)


def in_doubt(head: Head, problem: str) -> str:
    """Return why an event is refused, and what cannot be known of one that is sent again.

    The broker that it was sent to before may have passed it on, where nobody hears of it here.
    """
    if not head.again:
        return problem
    return f"{problem}; the broker that was lost may have delivered it"
