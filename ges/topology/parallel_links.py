"""Links of one class beside the normal ones: express or secure (paper 004, section 3.3).

Both sets are subsets of the normal links: a companion is made only where a normal link is, by the
end with the smaller uid, and goes with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    OpenLink,
    TimerTable,
)

RETRY_NS = nanos(0.5)
RETRY_MAX_NS = nanos(30.0)


class ParallelLinks:
    """The links of one class that are up, and those that are tried."""

    def __init__(
        self, link_class: LinkClass, rng: random.Random, wanted: Callable[[str], Peer | None]
    ) -> None:
        """``wanted`` returns the peer to which this end is to make a link, or None."""
        self.up: set[str] = set()  #: uids at the other end
        self._class = link_class
        self._rng = rng
        self._wanted = wanted
        self._calling: set[str] = set()
        self._retries: TimerTable[str] = TimerTable()
        self._failures: dict[str, int] = {}

    def seek(self, uid: str) -> list[Effect]:
        """Ask for a link to ``uid`` if it is wanted and there is none, nor a try under way."""
        if uid in self.up or uid in self._calling or uid in self._retries:
            return []
        return self._call(uid)

    def handle(self, event: Input, now: Nanos) -> None:
        """Take note of a link of this class that came up, went down or was refused."""
        if isinstance(event, LinkUp):
            uid = event.peer.uid
            self.up.add(uid)
            self._calling.discard(uid)
            self._failures.pop(uid, None)
            self._retries.cancel(uid)
        elif isinstance(event, LinkDown):
            self.up.discard(event.uid)
            self._retry(event.uid, now)
        elif isinstance(event, LinkRefused) and event.uid is not None:
            self._calling.discard(event.uid)
            self._retry(event.uid, now)

    def drop(self, uid: str, reason: Closed) -> list[Effect]:
        """The normal link to ``uid`` is gone: so goes the one beside it."""
        self._failures.pop(uid, None)
        self._calling.discard(uid)
        self._retries.cancel(uid)
        if uid not in self.up:
            return []
        self.up.discard(uid)
        return [CloseLink(uid, reason, self._class)]

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Try again what is due."""
        effects: list[Effect] = []
        while (uid := self._retries.pop_expired(now)) is not None:
            effects += self._call(uid)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when the first link is to be tried again, or None."""
        return self._retries.next_deadline()

    def _call(self, uid: str) -> list[Effect]:
        peer = self._wanted(uid)
        if peer is None:
            return []
        self._calling.add(uid)
        return [OpenLink(peer.url, uid, link_class=self._class)]

    def _retry(self, uid: str, now: Nanos) -> None:
        if self._wanted(uid) is not None and uid not in self.up:
            failures = self._failures[uid] = self._failures.get(uid, 0) + 1
            pause = min(RETRY_NS << min(failures, 16), RETRY_MAX_NS)
            self._retries.set(uid, now + pause // 2 + self._rng.randrange(pause))
