"""Tells clients that their subscriptions are active.

A subscription is *active* when every broker of the cluster sends here what it asks for
(:mod:`ges.profiles.activity`). Its client hears that it is accepted at the same time, or after a
second where some broker does not answer: so nothing is missed that is published after ``subscribe``
has returned, while nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from ges.sessions.session import Session
from ges.wire.client_messages import Active, Subscribed
from overlay.ids import Nanos, nanos

CLUSTER = 1  #: level of the unit that is all of the overlay, as long as there is one cluster
PATIENCE_NS = nanos(1.0)  #: for the brokers of the cluster, before a subscription is accepted

#: A client, and the number of one of its subscriptions.
Key = tuple[Session, int]


class ActiveNotices:
    """Subscriptions that are served here, and of which the cluster does not know yet."""

    def __init__(self) -> None:
        self._unsaid: dict[Key, Nanos] = {}  #: not accepted yet, and when they will be; rising

    def begin(self, session: Session, number: int, now: Nanos, *, is_active: bool) -> None:
        """A subscription is served here from now on."""
        key = session, number
        self._unsaid.pop(key, None)
        if is_active:
            self._accept(key)
            self._tell(key)
        else:
            self._unsaid[key] = now + PATIENCE_NS

    def on_active(self, keys: Iterable[Key]) -> None:
        """These are active now."""
        for key in keys:
            if self._unsaid.pop(key, None) is not None:
                self._accept(key)
            self._tell(key)

    def end(self, session: Session, number: int) -> None:
        """A subscription has ended."""
        if self._unsaid.pop((session, number), None) is not None:
            self._accept((session, number))

    def forget(self, session: Session) -> None:
        """The client is gone."""
        for number in (*session.filters, *session.queues, *session.names):
            self._unsaid.pop((session, number), None)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return next(iter(self._unsaid.values()), None)

    def expire(self, now: Nanos) -> None:
        """Accept what the cluster is slow to hear of."""
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
    def _tell(key: Key) -> None:
        session, number = key
        if (
            session.hears_active
            and session.filter_of(number) is not None
            and not session.is_detached
        ):
            session.tell(Active(number, CLUSTER))
