"""The times in which this broker's clients may have missed events, as its place was in doubt. Pure.

A broker that was held for dead, rightly or not, gets no events for a while: they go to the brokers
that stand in for it. Its clients stay with it, so nothing else tells them.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.ids import Nanos
from overlay.machine import Fact
from ring.facts import Confirmed, Joined, Reincarnated, Rejoining

#: Before a broker learns that it was held for dead: others notice and settle it in that time.
BEFORE_SILENCES = 2
MAX_LOST = 256  #: brokers that this one holds for dead, remembered with the time


class Absences:
    """Turns what the ring says of this broker's place into times that clients are told of."""

    def __init__(self, silence_ns: Nanos) -> None:
        """``silence_ns``: a neighbour is suspected at the latest after that."""
        self._before = BEFORE_SILENCES * silence_ns
        self._since: Nanos | None = None  #: off the ring
        self._lost: OrderedDict[str, Nanos] = OrderedDict()  #: uid -> since when we hold it dead

    def on_fact(self, fact: Fact, now: Nanos) -> Nanos | None:
        """Return how long an absence was, if one ends now; it began that long ago."""
        match fact:
            case Confirmed(subject):
                self._lost[subject.uid] = self._lost.pop(subject.uid, now)
                if len(self._lost) > MAX_LOST:
                    self._lost.popitem(last=False)
            case Rejoining() if self._since is None:
                self._since = now - self._before
            case Joined() if self._since is not None:
                since, self._since = self._since, None
                return now - since
            case Reincarnated(_, holder) if self._since is None:
                # Of two parts of a ring each held the other for dead; or only the holder was wrong.
                return now - self._lost.pop(holder, now) + self._before
        return None
