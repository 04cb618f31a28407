"""How long a client waits for a broker that is silent before it holds it for lost.

A broker that is gone is to be left soon, one that is only slow is not to be left: a client that
moves costs itself and its next broker some work. So the limit follows the broker: where its answers
to keep-alives have been slow of late, as on a machine with far too much to do, it is given more
time. Any bytes that come end the silence, not the answers alone. And time in which this process
itself did not run is no silence of the broker's.

For example, events come until a broker freezes at 10.0 s. Keep-alives go out at 10.3, 10.8 and
11.2 s at the latest, and nothing comes: the broker is lost at 11.2 s.

No clock: times are handed in, in seconds.
"""

from __future__ import annotations

KEEP_ALIVE_SECONDS = 0.5  #: between two keep-alives, and two looks, at most
SILENCE_SECONDS = 1.2  #: a broker silent for so long is lost ...
TIMES_SLOWEST = 4  #: ... or for so many times its slowest answer of late ...
SILENCE_MAX_SECONDS = 10.0  #: ... but for so long in any case
HALF_LIFE_SECONDS = 30.0  #: a slow answer counts half after this
OWN_FAULT_SECONDS = 0.1  #: a look that comes so late shows that this process stood still
LEAST_PAUSE_SECONDS = 0.01  #: between two looks


class Keepalive:
    """The silence of the broker that a client is attached to."""

    __slots__ = ("_asked", "_at", "_due", "_silent_since", "_slowest", "heard_at")

    def __init__(self, now: float) -> None:
        self.heard_at = now  #: when anything came from it
        self._silent_since = now  #: the same, later by the time in which we did not run
        self._due = now + KEEP_ALIVE_SECONDS  #: when to look next
        self._asked: tuple[int, float] | None = None  #: the oldest keep-alive without an answer
        self._slowest = 0.0
        self._at = now  #: when the slowest answer was reckoned

    def pause(self, now: float) -> float:
        """Return the seconds until the next look: at the next keep-alive, or when it is over."""
        end = max(now + LEAST_PAUSE_SECONDS, self._silent_since + self.limit)
        self._due = min(now + KEEP_ALIVE_SECONDS, end)
        return self._due - now

    @property
    def limit(self) -> float:
        """Seconds of silence after which the broker is lost, as things stand."""
        return max(SILENCE_SECONDS, min(TIMES_SLOWEST * self._slowest, SILENCE_MAX_SECONDS))

    def heard(self, now: float) -> None:
        """Something has come from the broker."""
        self.heard_at = self._silent_since = now

    def asked(self, token: int, now: float) -> None:
        """A keep-alive is on its way."""
        if self._asked is None:
            self._asked = (token, now)

    def answered(self, token: int, now: float) -> None:
        """The answer to a keep-alive has come; the answer to a later one is one to the oldest."""
        if self._asked is not None and token >= self._asked[0]:
            self._slowest = max(self._faded(now), now - self._asked[1])
            self._at = now
            self._asked = None

    def is_over(self, now: float) -> bool:
        """Look, after each :meth:`pause`; says whether the broker is lost."""
        late = now - self._due
        if late > OWN_FAULT_SECONDS:
            self._silent_since = min(now, self._silent_since + late)
            if self._asked is not None:
                self._asked = (self._asked[0], min(now, self._asked[1] + late))
        self._slowest, self._at = self._faded(now), now
        return now >= self._silent_since + self.limit

    def _faded(self, now: float) -> float:
        return float(self._slowest * 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS))
