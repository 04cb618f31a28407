"""Tells clients that their subscriptions are active.

A subscription is *active* when every broker of the overlay sends here what it asks for
(:mod:`ges.profiles.activity`, :mod:`ges.statements`). Its client hears that it is accepted at the
same time, or after a second where some broker does not answer: so nothing is missed that is
published after ``subscribe`` has returned, while nothing fails. Before that it hears that it is
active in the cluster, in the super-cluster and so on, as soon as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ges.sessions.session import Session
from ges.wire.client_messages import Active, Level, Subscribed
from overlay.ids import Nanos, nanos

PATIENCE_NS = nanos(1.0)  #: for the brokers of the overlay, before a subscription is accepted

#: A client, and the number of one of its subscriptions.
Key = tuple[Session, int]


class ActiveNotices:
    """Subscriptions that are served here, and of which not all brokers know yet."""

    def __init__(self) -> None:
        self._unsaid: dict[Key, Nanos] = {}  #: not accepted yet, and when they will be; rising

    def begin(self, session: Session, number: int, now: Nanos) -> None:
        """A subscription is about to be served here; it may be active at once."""
        key = session, number
        self._unsaid.pop(key, None)  # those that are due first stand first
        self._unsaid[key] = now + PATIENCE_NS

    def on_active(self, keys: Iterable[Key], level: Level) -> None:
        """These are active now, so far."""
        for key in keys:
            if level is Level.SYSTEM and self._unsaid.pop(key, None) is not None:
                self._accept(key)
            self._tell(key, level)

    def end(self, session: Session, number: int) -> None:
        """A subscription has ended."""
        if self._unsaid.pop((session, number), None) is not None:
            self._accept((session, number))

    def forget(self, session: Session) -> None:
        """The client is gone."""
        for number in session.asks:
            self._unsaid.pop((session, number), None)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return next(iter(self._unsaid.values()), None)

    def expire(self, now: Nanos) -> None:
        """Accept what others are slow to hear of."""
        while self._unsaid and (key := next(iter(self._unsaid))) and self._unsaid[key] <= now:
            del self._unsaid[key]
            self._accept(key)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _accept(key: Key) -> None:
        session, number = key
        if not session.is_detached:
            session.tell(Subscribed(number))

    @staticmethod
    def _tell(key: Key, level: Level) -> None:
        session, number = key
        if number in session.asks and not session.is_detached:
            session.tell(Active(number, level))
