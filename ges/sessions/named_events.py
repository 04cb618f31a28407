"""Events for named clients that wait until it is known where these are.

Mostly it is known, as an answer is good for 30 s. If not, the event waits for some milliseconds,
and what its publisher sends after it waits behind it, so that order is kept. If one of the names is
not that of an attached client, the event is refused, and nobody gets it. Never waits itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ges.sessions.session import Session
from ges.stack import Stack
from ges.wire.event_runs import EventRun
from ges.wire.events import Head
from ges.wire.realms import Realm
from overlay.ids import Nanos
from overlay.shares import Shares

MAX_WAITING_BYTES = 1024 * 1024  #: of one client ...
MAX_ALL_BYTES = 16 * 1024 * 1024  #: ... and of all
MAX_NAMED = 8  #: names in one refusal
NO_SUCH_CLIENT = "no such client"


def why_never(head: Head) -> str | None:
    """Return why an event can be for no named clients, wherever these are; or None."""
    if not head.link_class.is_base:
        return "an event to named clients is of class normal"
    if head.retain or head.realm < Realm.ALL:
        return "an event to named clients is not retained, and has no realm"
    return None


class NamedEvents:
    """What waits at one broker for answers."""

    def __init__(
        self,
        stack: Stack,
        take: Callable[[Session, EventRun], None],
        settle: Callable[[Session], None],
    ) -> None:
        """``take`` takes events whose names are known; ``settle`` then tells their publisher."""
        self._stack = stack
        self._take = take
        self._settle = settle
        self._waiting: dict[Session, deque[EventRun]] = {}
        self._bytes: dict[Session, int] = {}
        self._all = Shares(MAX_ALL_BYTES)
        self._is_stirred = False
        stack.on_names = self._stir
        stack.watch(self)

    def must_wait(self, session: Session, run: EventRun) -> bool:
        """Say whether events wait: for answers, or behind those that do."""
        if run.head.is_named:
            self._stack.follow_holders()  # what went to a dead broker is sent again before these
        return session in self._waiting or self._is_open(run)

    def keep(self, session: Session, run: EventRun) -> str | None:
        """Keep events that must wait; returns why not, or None."""
        size, waiting = run.bounds[-1] - run.bounds[0], self._bytes.get(session, 0)
        if waiting > MAX_WAITING_BYTES:
            return f"{waiting} bytes of this client wait for answers where named clients are"
        full = self._all.why_not(session.source, size, "bytes of events for named clients")
        if full is not None:
            return full
        self._waiting.setdefault(session, deque()).append(run.alone())
        self._bytes[session] = waiting + size
        self._all.take(session.source, size)
        return None

    def why_not(self, run: EventRun) -> str | None:
        """Return why an event whose names are known cannot be taken, or None."""
        missing = [name for name in run.names() if not self._stack.holders(name)]
        if not missing:
            return None
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        return f"{NO_SUCH_CLIENT}: {', '.join(missing[:MAX_NAMED])}{more}"

    def forget(self, session: Session) -> None:
        """The publisher is gone: it publishes again, elsewhere, what was not confirmed."""
        self._waiting.pop(session, None)
        self._all.free(session.source, self._bytes.pop(session, 0))

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        return 0 if self._is_stirred else None

    def expire(self, now: Nanos) -> None:
        """Take what waits no longer."""
        if not self._is_stirred:
            return
        self._is_stirred = False
        for session, runs in [*self._waiting.items()]:
            ready: list[EventRun] = []
            while runs and not self._is_open(runs[0]):
                ready.append(runs.popleft())
            if not runs:
                self.forget(session)
            for run in ready:
                self._take(session, run)
            if ready:
                self._settle(session)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _stir(self) -> None:
        self._is_stirred = bool(self._waiting)

    def _is_open(self, run: EventRun) -> bool:
        """Say whether it is not known yet where the clients of some name are; then ask."""
        unknown = [name for name in run.names() if self._stack.holders(name) is None]
        if unknown:
            self._stack.ask_for_names(unknown)
        return any(self._stack.holders(name) is None for name in unknown)
