"""Who keeps copies of a broker's records, and how far each of them is (paper 004, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from overlay.ids import NANOS_PER_SECOND, Nanos
from ring.wire.messages import Member

BURST_BYTES = 256 * 1024  #: sent to one neighbour at once, after a quiet time


@dataclass(slots=True)
class Target:
    """A neighbour that is told of our records."""

    uid: str
    holder: bool = False  #: it keeps copies; else it knows the claims
    releasing: bool = False  #: it keeps copies only until the new holders have theirs
    told: bool = False  #: it has heard of us at all
    pending: dict[str, None] = field(default_factory=dict)  #: keys to push, oldest first
    index_after: str | None = None  #: it waits for our index from there on
    asked: int = -1  #: change up to which the latest summary goes
    agreed: int = -1  #: change up to which it has everything
    holder_since: int = 0  #: what it agreed to before this change were claims without copies
    tokens: int = BURST_BYTES
    refilled_at: Nanos = 0

    def restart(self) -> None:
        """Nothing of what was sent may have arrived."""
        self.asked = self.agreed = -1
        self.index_after = None

    def refill(self, now: Nanos, rate: int) -> None:
        """Let the bucket fill at ``rate`` bytes per second."""
        earned = (now - self.refilled_at) * rate // NANOS_PER_SECOND
        self.tokens = min(self.tokens + earned, BURST_BYTES)
        self.refilled_at = now

    def wait_ns(self, rate: int) -> Nanos:
        """Return how long it takes until something may be sent, at ``rate`` bytes per second."""
        return max(0, 1 - self.tokens) * NANOS_PER_SECOND // rate + 1


class BackupStatus(msgspec.Struct, frozen=True):
    """One broker that keeps our records."""

    uid: str
    acknowledged: bool  #: it has the latest version of everything


def holders_among(
    left: Sequence[Member], right: Sequence[Member], backups: int
) -> dict[str, Member]:
    """Return who keeps copies: with us they stand in a row on the ring.

    1: right; 2: and left; 3: and right-right; 4: and left-left. In small rings, and where somebody
    leaves, others of the four fill up.
    """
    rows = (right[:1], left[:1], right[1:2], left[1:2])
    ordered = [member for row in rows for member in row]
    return dict([(member.uid, member) for member in dict.fromkeys(ordered)][:backups])
