"""Times in which a client may have missed events. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which events may have been missed.

    Either there was no broker: what the next one did not keep of that time was missed. Or, where
    ``lost`` and ``found`` are the same, the broker itself was off the ring, or held for dead there.
    """

    lost: str  #: URL of the broker that was lost
    found: str  #: URL of the one attached to then
    seconds: float


class Gaps:
    """All gaps so far, oldest first; what is told in parts, as it goes on, is one gap."""

    def __init__(self) -> None:
        self.noted: list[Gap] = []
        self._noted_at = -math.inf

    def note(self, lost: str, found: str, seconds: float, now: float) -> Gap:
        """Note a gap that has lasted so long at ``now``; returns it, or the one it belongs to."""
        last_at, self._noted_at = self._noted_at, now
        gap = Gap(lost, found, seconds)
        last = self.noted[-1] if self.noted else None
        if lost == found and last is not None and last.lost == last.found == found:
            since_last = now - last_at
            if since_last <= seconds:
                self.noted.pop()
                gap = Gap(lost, found, max(seconds, last.seconds + since_last))
        self.noted.append(gap)
        return gap
