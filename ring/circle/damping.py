"""Links that flap are used again only after a pause that grows (on paper 004, section 3.4.2).

A link that breaks soon after it came up is worth little: each change costs messages, and what was
under way may be lost. While there is a way round it, that is used. The second loss in a row that
comes within the steady time is forgiven; each further one doubles the pause before the link is
used again, up to a limit; a link that has held for the steady time starts anew. (As in the damping
of routes, RFC 2439, with doubling in place of a penalty that decays.) Departs from the paper, which
says nothing of links that flap.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from overlay.ids import Nanos
from ring.config import RingConfig

FORGIVEN = 2  #: losses in a row without a pause
STEADY = 25  #: a link that has held for that many silences is steady: 26 s on a LAN
FIRST_PAUSE = 8  #: the first pause, in silences: 8 s on a LAN ...
MAX_DOUBLINGS = 5  #: ... and the longest is 2^5 times that
MAX_WATCHED = 256


@dataclass(slots=True)
class _Record:
    losses: int = 0  #: in a row
    lost_at: Nanos = 0
    held_until: Nanos = 0


class Damper:
    """How the links to others have behaved, by uid; the least recently lost are forgotten."""

    def __init__(self, config: RingConfig) -> None:
        self._silence_ns = config.silence_ns
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def on_lost(self, uid: str, since: Nanos, now: Nanos) -> None:
        """The link to ``uid``, up since ``since``, is lost."""
        record = self._records.pop(uid, None) or _Record()
        self._records[uid] = record
        if now - since >= STEADY * self._silence_ns:
            record.losses = 0
        record.losses += 1
        record.lost_at = now
        beyond = record.losses - FORGIVEN
        if beyond > 0:
            pause = FIRST_PAUSE * self._silence_ns << min(beyond - 1, MAX_DOUBLINGS)
            record.held_until = now + pause
        if len(self._records) > MAX_WATCHED:
            self._records.popitem(last=False)

    def held_ns(self, uid: str, now: Nanos) -> Nanos:
        """Return for how long the link is not to be used yet; 0: it may be."""
        record = self._records.get(uid)
        return max(0, record.held_until - now) if record is not None else 0

    def down_ns(self, uid: str, now: Nanos) -> Nanos:
        """Return how long ago the link was lost; 0 if that is not known."""
        record = self._records.get(uid)
        return now - record.lost_at if record is not None else 0

    def release(self, uid: str) -> None:
        """There is no way round: the link may be used at once."""
        if uid in self._records:
            self._records[uid].held_until = 0

    def forget(self, uid: str) -> None:
        """That life of the broker is over."""
        self._records.pop(uid, None)
