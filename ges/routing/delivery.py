"""Who gets an event here, and its last hop: to the clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ges.matching.filter_tree import FilterTree
from ges.routing.replays import Replays
from ges.sessions.session import Session, Targets
from ges.wire.delivered import MAX_MATCHES, pack_matches
from overlay.ids import LinkClass, Nanos
from overlay.net.connection import Connection
from overlay.wire.frames import DELIVERY, EVENT, frame, frame_start

MAX_CACHED_TOPICS = 16384


class Deliveries:
    """The subscriptions of all clients, and what goes to them."""

    def __init__(
        self, counters: Counter[str], crowded: set[Connection], now: Callable[[], Nanos]
    ) -> None:
        self._counters = counters
        self._crowded = crowded
        self.replays = Replays(counters, now, self._forget_targets)
        self._filters: FilterTree[tuple[Session, int]] = FilterTree()
        self._targets: dict[LinkClass, dict[bytes, Targets]] = {each: {} for each in LinkClass}

    def subscribe(self, session: Session, number: int, text: str, only: LinkClass | None) -> None:
        """Serve a checked filter; the same number again replaces the earlier one."""
        self.unsubscribe(session, number)
        session.filters[number] = (text, only)
        self.replays.joined(session, number)
        self._filters.add(text, (session, number))
        self._forget_targets()

    def unsubscribe(self, session: Session, number: int) -> None:
        """Serve a filter no longer; a number that is not in use changes nothing."""
        entry = session.filters.pop(number, None)
        if entry is not None:
            self._filters.remove(entry[0], (session, number))
            self._forget_targets()

    def forget(self, session: Session) -> None:
        """The client is gone."""
        self.replays.forget(session)
        for number in list(session.filters):
            self.unsubscribe(session, number)

    @property
    def subscriptions(self) -> int:
        """How many filters are served."""
        return self._filters.size

    def deliver(self, topic: bytes, body: bytes, secure: bool) -> None:
        """Send one event that is not express to all who want it."""
        self.replays.keep(topic, body, secure)
        targets = self.targets_of(LinkClass.SECURE if secure else LinkClass.NORMAL, topic)
        if targets:
            self.send(targets, frame(EVENT, body), 1, keep=secure)

    def targets_of(self, link_class: LinkClass, topic: bytes) -> Targets:
        """Return who wants events of that class and topic."""
        known = self._targets[link_class]
        targets = known.get(topic)
        if targets is None:
            if len(known) >= MAX_CACHED_TOPICS:
                known.clear()
            targets = known[topic] = self._match(link_class, topic)
        return targets

    def _forget_targets(self) -> None:
        for known in self._targets.values():
            known.clear()

    def send(self, targets: Targets, frames: bytes, count: int, *, keep: bool = False) -> None:
        """Send event frames that are not express, ``count`` of them; ``keep``: none is dropped."""
        for session, matches in targets:
            connection = session.connection
            start = frame_start(DELIVERY, len(matches) + len(frames)) + matches
            connection.send(start + frames, 0 if keep else count)
            if connection.crowded:
                self._crowded.add(connection)
        self._counters["events_delivered"] += count * len(targets)

    def _match(self, link_class: LinkClass, topic: bytes) -> Targets:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return ()
        numbers: dict[Session, list[int]] = {}
        for session, number in self._filters.matches(text):
            if session.wants(number, link_class) and not self.replays.holds(session, link_class):
                numbers.setdefault(session, []).append(number)
        return tuple(
            (session, pack_matches(tuple(sorted(found)[:MAX_MATCHES])))
            for session, found in numbers.items()
        )
