"""Events that wait as no way leads to a destination: the tables of brokers differ for a moment.

For example, the only broker that links two parts of a cluster has died. The ring closes within
seconds, the next hops follow, and what has waited goes on. Bounded in bytes and in time; what is
given up is found missing at its destination when a later event comes, and asked for
(:mod:`ges.order.flow_order`). Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from overlay.ids import LinkClass, Nanos, nanos

WAIT_NS = nanos(20)  #: an event waits no longer than that
AGAIN_NS = nanos(0.25)  #: it is tried again after this, should nothing have changed here
TRACED_NS = nanos(0.5)  #: after this it may go back to where it has been: tables agree by then
MAX_BYTES = 16 * 1024 * 1024
RUN_BYTES = 512  #: of memory for a run, beside its own bytes


@dataclass(frozen=True, slots=True)
class Waiting:
    """Events for the destinations of a duty."""

    run: EventRun
    duty: Duty
    flags: int
    link_class: LinkClass
    until: Nanos

    def duty_at(self, now: Nanos) -> Duty:
        """Return the duty with which the events may go on now."""
        if now < self.until - WAIT_NS + TRACED_NS:
            return self.duty
        return self.duty._replace(trace=0)

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self.run.data) + RUN_BYTES


class Stuck:
    """What waits at one broker, oldest first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._waiting: deque[Waiting] = deque()
        self._try_at: Nanos = 0
        self._version = -1  #: of the tables when it was tried last

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def keep(
        self, run: EventRun, duty: Duty, flags: int, link_class: LinkClass, now: Nanos
    ) -> list[Waiting]:
        """Let events wait; return those that are given up for want of room."""
        return self.put(Waiting(run.alone(), duty, flags, link_class, now + WAIT_NS), now)

    def put(self, waiting: Waiting, now: Nanos) -> list[Waiting]:
        """Let events wait (again); return those that are given up for want of room."""
        if not self._waiting:
            self._try_at = now + AGAIN_NS
        self._waiting.append(waiting)
        self.bytes += waiting.size
        given_up = []
        while self.bytes > MAX_BYTES:
            given_up.append(self._waiting.popleft())
            self.bytes -= given_up[-1].size
        return given_up

    def take(self, version: int, now: Nanos) -> tuple[list[Waiting], list[Waiting]]:
        """Return what is to be tried, and what has waited too long; both leave.

        ``version``: of the tables by which events go.
        """
        if not self._waiting or (version == self._version and now < self._try_at):
            return [], []
        self._version, self._try_at = version, now + AGAIN_NS
        waiting = list(self._waiting)
        self._waiting.clear()
        self.bytes = 0
        return [w for w in waiting if now < w.until], [w for w in waiting if now >= w.until]

    def next_deadline(self) -> Nanos | None:
        """Return when to try again, or None."""
        return self._try_at if self._waiting else None
