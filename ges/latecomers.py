"""Events for brokers that this one comes to know late.

A broker may be given a part of the ring to serve before it knows who stands beside it, as one that
is back from a cut: whoever links it knows its place at once. Those between it and the nearest that
it is linked to get nothing then. So while the ring around it is not whole it keeps what it has
passed on, and whoever turns up in that gap gets it, *again* as it were: delivered once, should it
have come another way. Beyond the nearest the others see to it that nobody is left out.

Bounded in bytes and in time. Sans-IO.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from ges.events import FLOOD_FLAG, Head
from overlay.ids import LinkClass, Nanos, nanos

UNSURE_NS = nanos(3)  #: after its links changed last, a broker whose ring is not whole holds still
KEPT_NS = nanos(3)  #: an event is kept for so long ...
KEPT_BYTES = 4 * 1024 * 1024  #: ... and no more than this of all, the latest

Onward = tuple[tuple[str, int], ...]  #: (uid, limit) of those to pass an event to, going right


@dataclass(frozen=True, slots=True)
class Passed:
    """An event that was passed on, to some."""

    head: Head
    body: bytes
    flags: int
    link_class: LinkClass
    limit: int  #: of the part of the ring that it came with
    at: Nanos
    size: int  #: bytes of memory
    instead_of: str = ""  #: uid of the broker that others got it in place of; it may be back


class Latecomers:
    """What was passed on of late, where somebody may have been left out."""

    def __init__(self) -> None:
        self._passed: deque[tuple[Passed, frozenset[str]]] = deque()  #: with uids of those told
        self._bytes = 0
        self._known: object = None
        self._is_whole = True
        self._unsure_until: Nanos = 0
        self._uids: dict[Onward, frozenset[str]] = {}  #: each once, however many events went there

    def note(self, known: object, *, is_whole: bool, now: Nanos) -> bool:
        """Say who is linked, in a form that can be compared, and if the ring around us is whole.

        Returns:
            Whether others are linked than before: then somebody may have been left out.
        """
        has_changed = known != self._known
        if is_whole:
            self._unsure_until = 0
        elif has_changed or self._is_whole:
            self._unsure_until = now + UNSURE_NS
        self._known, self._is_whole = known, is_whole
        if has_changed:
            self._uids.clear()
        return has_changed

    def is_unsure(self, now: Nanos) -> bool:
        """Say whether what is passed on now may leave somebody out."""
        return now < self._unsure_until

    def keep(self, passed: Passed, onward: Onward) -> None:
        """Remember an event that was passed on, to these."""
        told = self._uids.get(onward)
        if told is None:
            told = self._uids[onward] = frozenset(uid for uid, _ in onward)
        self._passed.append((passed, told))
        self._bytes += passed.size
        self.forget(passed.at)

    def missed(self, now: Nanos, onward: Callable[[Passed], Onward]) -> list[tuple[Passed, Onward]]:
        """Return what to pass on again, and to whom; ``onward``: to whom it would go now."""
        self.forget(now)
        found = []
        for at, (passed, told) in enumerate(self._passed):
            late = _left_out(passed, told, onward(passed))
            if late:
                self._passed[at] = (passed, told.union(uid for uid, _ in late))
                found.append((passed, late))
        return found

    def next_deadline(self) -> Nanos | None:
        """Return when all that is kept now can be forgotten."""
        return self._passed[-1][0].at + KEPT_NS if self._passed else None

    def forget(self, now: Nanos) -> None:
        """Drop what nobody waits for any more, and the oldest of what is too much."""
        kept = self._passed
        while kept and (self._bytes > KEPT_BYTES or kept[0][0].at <= now - KEPT_NS):
            self._bytes -= kept.popleft()[0].size


def _left_out(passed: Passed, told: frozenset[str], onward: Onward) -> Onward:
    if passed.flags & FLOOD_FLAG:  # such an event is for everybody, and goes on from nobody twice
        return tuple(entry for entry in onward if entry[0] not in told)
    nearest = tuple(takewhile(lambda entry: entry[0] not in told, onward))
    back = (entry for entry in onward[len(nearest) :] if entry[0] == passed.instead_of)
    return (*nearest, *(entry for entry in back if entry[0] not in told))
