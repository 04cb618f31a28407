"""Waits for the next deadline of something that does not wait itself, and tells it when it is due.

A router, say, knows that it gives up an event at second 7, and has no task to wait in. Its alarm
sleeps until then. When a deadline sooner than that is set meanwhile, its setter calls
:meth:`Alarm.look`, and the alarm sleeps shorter.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from overlay.ids import NANOS_PER_SECOND, Nanos


class Alarm:
    """Calls ``expire`` each time that the deadline which ``next_deadline`` returns has come."""

    def __init__(
        self,
        next_deadline: Callable[[], Nanos | None],
        expire: Callable[[Nanos], None],
        *,
        now: Callable[[], Nanos],
    ) -> None:
        """Take who says what is due when, who does it, and the clock of both, in nanoseconds.

        ``next_deadline`` returns None where nothing waits. ``expire`` is handed the time, which is
        never before the deadline; it is to do all that is due by then, or it is called again.
        """
        self._next_deadline = next_deadline
        self._expire = expire
        self._now = now
        self._armed: Nanos | None = None  #: the deadline that is waited for; None: none
        self._sooner = trio.Event()

    def look(self) -> None:
        """The next deadline may be sooner than it was."""
        deadline = self._next_deadline()
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._sooner.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            self._armed = self._next_deadline()
            self._sooner = trio.Event()
            if self._armed is None:
                await self._sooner.wait()
                continue
            with trio.move_on_after(max(0, self._armed - self._now()) / NANOS_PER_SECOND):
                await self._sooner.wait()
                continue
            # The clock is a float of seconds and the deadline a number of nanoseconds, so after
            # the sleep the clock may show a nanosecond less than the deadline. Whoever compared
            # the two would then find nothing due, and we would spin until the clock has moved.
            # Sleeping longer would make all that is due late. The deadline itself is a time that
            # has come for certain, so it is the least that is handed on.
            self._expire(max(self._now(), self._armed))
