"""Secure events that wait for an all-secure path, where their publisher has asked for it.

An event is parked in memory alone, and only when it came over a secure hop. Events of one publisher
keep their order: while one waits, the next secure one waits behind it, or is refused if it may not.
The events held are bounded, for each client, for each source (:mod:`overlay.shares`) and in all. An
event whose time is over is refused with what was in its way; one whose publisher goes is dropped,
as nobody is left to be told.

No I/O and no clock: the time is handed in, and what is to be done is returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ges.wire.events import Head
from overlay.ids import Nanos
from overlay.shares import NOWHERE, Shares, Source

MAX_PARKED = 1_000  #: events of one client
MAX_PARKED_BYTES = 8 * 1024 * 1024  #: of one client
MAX_ALL_PARKED = 20_000  #: events of all clients
MAX_ALL_PARKED_BYTES = 64 * 1024 * 1024
PARKED_BYTES = 512  #: of memory for a parked event, beside its own bytes

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Parked:
    """One event that waits."""

    head: Head
    body: bytes
    until: Nanos
    wait_ns: Nanos  #: that its publisher has allowed


class Parking(Generic[S]):
    """All that waits at one broker, by the session it came from."""

    def __init__(self, source_of: Callable[[S], Source] = lambda session: NOWHERE) -> None:
        """``source_of`` returns to whom a session counts."""
        self._source_of = source_of
        self._numbers, self._sizes = Shares(MAX_ALL_PARKED), Shares(MAX_ALL_PARKED_BYTES)
        self._waiting: dict[S, deque[Parked]] = {}
        self._bytes: dict[S, int] = {}
        self.size = 0
        self.bytes = 0

    @property
    def memory(self) -> int:
        """Bytes of memory that all take."""
        return self.bytes + PARKED_BYTES * self.size

    def holds(self, session: S) -> bool:
        """Say whether events of this session wait; later ones must then not overtake them."""
        return session in self._waiting

    def park(self, session: S, head: Head, body: bytes, now: Nanos, wait_ns: Nanos) -> str | None:
        """Hold an event for ``wait_ns``; returns why not, or None."""
        count, size = len(self._waiting.get(session, ())), self._bytes.get(session, 0)
        if count >= MAX_PARKED or size + len(body) > MAX_PARKED_BYTES:
            return f"{count} events of this client are parked already, {size} bytes"
        source = self._source_of(session)
        full = self._numbers.why_not(source, 1, "parked events")
        full = full or self._sizes.why_not(source, len(body), "bytes of parked events")
        if full is not None:
            return full
        self._waiting.setdefault(session, deque()).append(
            Parked(head, body, now + wait_ns, wait_ns)
        )
        self._count(session, 1, len(body))
        return None

    def release(
        self, now: Nanos, why_not: Callable[[S, Head], str | None]
    ) -> tuple[list[tuple[S, Parked]], list[tuple[S, Parked, str]]]:
        """Return what may go now, and what has expired with what was in its way; each in order."""
        free: list[tuple[S, Parked]] = []
        over: list[tuple[S, Parked, str]] = []
        for session, waiting in list(self._waiting.items()):
            kept: deque[Parked] = deque()
            for parked in waiting:
                problem = why_not(session, parked.head)
                if kept:
                    problem = problem or "earlier events were in its way"
                if problem is None:
                    free.append((session, parked))
                elif parked.until <= now:
                    over.append((session, parked, problem))
                else:
                    kept.append(parked)
                    continue
                self._count(session, -1, -len(parked.body))
            if kept:
                self._waiting[session] = kept
            else:
                self._drop(session)
        return free, over

    def withdraw(
        self, session: S, why_denied: Callable[[Head], str | None]
    ) -> list[tuple[Parked, str]]:
        """Take out what its publisher may publish no longer; returns it with the reasons."""
        denied: list[tuple[Parked, str]] = []
        kept: deque[Parked] = deque()
        for parked in self._waiting.get(session, ()):
            reason = why_denied(parked.head)
            if reason is None:
                kept.append(parked)
            else:
                denied.append((parked, reason))
                self._count(session, -1, -len(parked.body))
        if kept:
            self._waiting[session] = kept
        else:
            self._drop(session)
        return denied

    def most(self) -> S | None:
        """Return whose parked events take most; None: none are parked."""
        return max(self._bytes, key=lambda session: self._bytes[session], default=None)

    def forget(self, session: S) -> int:
        """The publisher is gone; returns how many events went with it."""
        waiting = self._waiting.get(session, ())
        lost = len(waiting)
        self._count(session, -lost, -sum(len(parked.body) for parked in waiting))
        self._drop(session)
        return lost

    def next_deadline(self) -> Nanos | None:
        """Return when the first event expires."""
        return min((p.until for waiting in self._waiting.values() for p in waiting), default=None)

    def _count(self, session: S, events: int, size: int) -> None:
        self.size += events
        self.bytes += size
        source = self._source_of(session)
        self._numbers.take(source, events)
        self._sizes.take(source, size)
        self._bytes[session] = self._bytes.get(session, 0) + size

    def _drop(self, session: S) -> None:
        self._waiting.pop(session, None)
        self._bytes.pop(session, None)
