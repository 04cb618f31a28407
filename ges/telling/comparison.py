"""Ring neighbours compare what they hold, so that whatever was missed is found within 15 s.

For example, a broker missed a change of the table of members as its links were down. 10 s later, at
most, a neighbour tells it the digest of its table, which differs; so it asks for that table.

A broker tells its digests to its nearest linked neighbour on each side 10 s after the two compared
last, and a second after something has changed. One message compares for both: who hears that all
is equal need not tell it, so that of two the one with the larger uid waits a little longer. A room
that holds something registers a :class:`Holding` for its kind.

What is held is about an arc: a cluster, or a context. Neighbours of two clusters hold different
members, and compare only what is about the contexts that they share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from ges.telling.arcs import WHOLE, Arc
from ges.wire.telling_messages import Held, HeldDigest
from overlay.ids import Nanos, nanos
from overlay.machine import Effect, Send

PERIOD_NS = nanos(10)  #: between two comparisons at rest
AFTER_CHANGE_NS = nanos(1)  #: from a change, or a difference, to the next one
LARGER_NS = nanos(0.5)  #: the larger of the two waits so much longer


class Holding(Protocol):
    """Something that all members hold and compare by a digest."""

    @property
    def digest(self) -> int:
        """63 bits that differ, as good as surely, where what is held differs."""

    def on_differs(self, uid: str, now: Nanos) -> list[Effect]:
        """Another broker holds something else: ask it, or tell it."""


class Comparison:
    """What one broker holds, and when it compared that with its neighbours last."""

    def __init__(self, own_uid: str, arc: Callable[[], Arc] = lambda: WHOLE) -> None:
        """``arc``: that of the cluster, as it is now."""
        self.counters: Counter[str] = Counter()
        self._arc = arc
        self._arcs: dict[int, Callable[[], Arc]] = {}
        self._own_uid = own_uid
        self._holdings: dict[int, Holding] = {}
        self._concerns: dict[int, Callable[[str], bool]] = {}  #: who holds that kind at all
        self._due: dict[str, Nanos] = {}  #: neighbours, and when to tell them

    def register(
        self,
        kind: int,
        holding: Holding,
        concerns: Callable[[str], bool] | None = None,
        arc: Callable[[], Arc] | None = None,
    ) -> None:
        """Compare what is held of this kind from now on; ``concerns``: with whom, by uid.

        It is about the cluster, or about that ``arc``.
        """
        self._holdings[kind] = holding
        self._arcs[kind] = arc or self._arc
        if concerns is not None:
            self._concerns[kind] = concerns

    def set_neighbours(self, uids: Iterable[str], now: Nanos) -> None:
        """Compare with these; with new ones in a second."""
        due = self._due
        self._due = {uid: due.get(uid) or self._after(uid, AFTER_CHANGE_NS, now) for uid in uids}

    def touch(self, now: Nanos) -> None:
        """What is held has changed: compare in a second, if nobody does before."""
        for uid, due in self._due.items():
            self._due[uid] = min(due, self._after(uid, AFTER_CHANGE_NS, now))

    def tell(self, uid: str) -> list[Effect]:
        """Tell a broker now, whoever it is."""
        entries = []
        for kind, held in sorted(self._holdings.items()):
            if self._is_held_by(uid, kind):
                arc = self._arcs[kind]()
                entries.append(HeldDigest(kind, held.digest, arc.lo, arc.hi))
        return [Send(uid, Held(tuple(entries)))]

    def on_held(self, uid: str, held: Held, now: Nanos) -> list[Effect]:
        """Compare; what differs is dealt with by whoever holds it."""
        effects: list[Effect] = []
        has_differed = False
        for entry in held.digests:
            holding = self._holdings.get(entry.kind)
            if holding is None or not self._is_held_by(uid, entry.kind):
                continue
            if self._arcs[entry.kind]() != Arc(entry.lo, entry.hi):
                continue
            if holding.digest != entry.digest:
                has_differed = True
                effects += holding.on_differs(uid, now)
        if has_differed:
            self.counters["held_differed"] += 1
        if uid in self._due:
            self._due[uid] = self._after(uid, AFTER_CHANGE_NS if has_differed else PERIOD_NS, now)
        return effects

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Tell those neighbours whose turn it is."""
        effects: list[Effect] = []
        for uid, due in self._due.items():
            if due <= now:
                self._due[uid] = self._after(uid, PERIOD_NS, now)
                effects += self.tell(uid)
        return effects

    def next_deadline(self) -> Nanos | None:
        """Return when a neighbour is to be told next, or None."""
        return min(self._due.values(), default=None)

    def _is_held_by(self, uid: str, kind: int) -> bool:
        concerns = self._concerns.get(kind)
        return concerns is None or concerns(uid)

    def _after(self, uid: str, pause: Nanos, now: Nanos) -> Nanos:
        return now + pause + (LARGER_NS if self._own_uid > uid else 0)
