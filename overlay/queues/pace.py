"""How fast readers take what is queued for them, and how long others wait for slower ones. Pure.

A queue is *crowded* while more than a mark waits in it. From then on its reader's *pace* is
watched: a reader that takes as much as is fast enough, or more, earns time, up to half a second of
it; one that takes less loses time, down to half a second of debt. So a reader that takes too little
is known as slow within a second, whatever it took before. An *allowance* bounds how long a
publisher, or a link, is not read for the sake of readers that are not the fastest.

All times are in seconds.
"""

from __future__ import annotations

from enum import Enum

CROWD_BYTES = 1024 * 1024  #: with more than that in a queue, or half of its limit, it is crowded
QUICK_SHARE = 1 / 4  #: of the limit of a queue; who takes so much in a second is fast enough ...
QUICK_EVENTS = 16_384  #: ... and so is who takes so many events
MOST_SECONDS = 0.5  #: that a reader can have earned, or owe
NEW_SECONDS = 0.25  #: a reader that owes so much is slow
WAIT_SHARE = 1 / 5  #: of the time of a publisher or a link may go to waiting for who lags ...
WAIT_SECONDS = 0.5  #: ... and no more than that at a time


def crowd_bytes(limit_bytes: int) -> int:
    """Return with how many bytes more a queue of that limit is crowded."""
    return min(CROWD_BYTES, limit_bytes // 2)


class Standing(Enum):
    """What is known of a reader whose queue is crowded."""

    FAST = "fast"  #: it has earned time
    NEW = "new"  #: not yet whether it is fast or slow
    SLOW = "slow"  #: it was too slow, and has earned nothing since


class Pace:
    """How fast one reader takes what is queued for it, while that is much."""

    __slots__ = ("_at", "_crowd_bytes", "_events", "_is_slow", "_rate", "_seconds", "is_watched")

    def __init__(self, limit_bytes: int) -> None:
        """Take the limit of its queue."""
        self.is_watched = False  #: its queue is crowded, or was and is still half so
        self._crowd_bytes = crowd_bytes(limit_bytes)
        self._rate = limit_bytes * QUICK_SHARE
        self._seconds = 0.0  #: earned, or owed if negative, at ...
        self._at = 0.0  #: ... this time
        self._events = 0  #: taken until then
        self._is_slow = False

    def took(self, size: int, events: int, waiting: int, now: float, *, is_full: bool) -> None:
        """Note what the reader has taken.

        Args:
            size: bytes since this was called last.
            events: since the beginning.
            waiting: bytes that are still queued.
            now: the time.
            is_full: the kernel takes no more. The reader has not taken the bytes that it keeps, so
                before that nothing is known.
        """
        if not self.is_watched:
            if not is_full or waiting <= self._crowd_bytes:
                return
            if self._seconds < 0:
                # A debt is forgiven in the time in which nothing waited.
                self._seconds = min(0.0, self._seconds + now - self._at)
                self._is_slow = self._is_slow and self._seconds < 0
        else:
            before = self.left(now)
            earned = max(size / self._rate, (events - self._events) / QUICK_EVENTS)
            self._seconds = max(-MOST_SECONDS, min(MOST_SECONDS, before + earned))
            self._is_slow = self._seconds <= 0 and (self._is_slow or before <= -NEW_SECONDS)
        self._at, self._events = now, events
        self.is_watched = waiting > self._crowd_bytes // 2

    def left(self, now: float) -> float:
        """Return the time that it has earned, or owes if negative."""
        return self._seconds - (now - self._at if self.is_watched else 0.0)

    def standing(self, now: float) -> Standing:
        """Say what is known of the reader."""
        left = self.left(now)
        if left > 0:
            return Standing.FAST
        is_slow = self._is_slow or left <= -NEW_SECONDS
        return Standing.SLOW if is_slow else Standing.NEW


class Allowance:
    """How long one publisher, or one link, may still be held up for readers that lag."""

    __slots__ = ("_at", "_seconds")

    def __init__(self) -> None:
        self._seconds = WAIT_SECONDS
        self._at = 0.0

    def left(self, now: float) -> float:
        """Return how long it may wait now."""
        self._seconds = min(WAIT_SECONDS, self._seconds + WAIT_SHARE * (now - self._at))
        self._at = now
        return self._seconds

    def spend(self, seconds: float) -> None:
        """It has waited so long."""
        self._seconds -= seconds
