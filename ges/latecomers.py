"""Events for brokers that this one comes to know late.

A broker may be given a part of the ring to serve before it knows who stands beside it, as one that
is back from a cut: whoever links it knows its place at once. It leaves out those in that part that
it is not linked to yet. So while the ring around it is not whole it keeps what it has passed on,
and whoever turns up in the part of the ring that an event came with gets it then, *again* as it
were: delivered once, should it have come another way.

Bounded in bytes and in time. Sans-IO.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ges.events import Head
from overlay.ids import LinkClass, Nanos, nanos

UNSURE_NS = nanos(3)  #: after its links changed last, a broker whose ring is not whole holds still
KEPT_NS = nanos(3)  #: an event is kept for so long ...
KEPT_BYTES = 4 * 1024 * 1024  #: ... and no more than this of all, the latest

Onward = tuple[tuple[str, int], ...]  #: (uid, limit) of those to pass an event to


@dataclass(frozen=True, slots=True)
class Passed:
    """An event that was passed on, to some."""

    head: Head
    body: bytes
    flags: int
    link_class: LinkClass
    limit: int  #: of the part of the ring that it came with
    told: set[str]  #: uids of those it was passed to
    at: Nanos
    size: int  #: bytes of memory


class Latecomers:
    """What was passed on of late, where somebody may have been left out."""

    def __init__(self) -> None:
        self._passed: deque[Passed] = deque()
        self._bytes = 0
        self._unsure_until: Nanos = 0

    def note(self, *, is_whole: bool, now: Nanos) -> None:
        """Links or places have changed; say whether the ring around us is whole."""
        self._unsure_until = 0 if is_whole else now + UNSURE_NS

    def is_unsure(self, now: Nanos) -> bool:
        """Say whether what is passed on now may leave somebody out."""
        return now < self._unsure_until

    def keep(self, passed: Passed) -> None:
        """Remember an event that was passed on."""
        self._passed.append(passed)
        self._bytes += passed.size
        self.forget(passed.at)

    def missed(
        self, now: Nanos, onward: Callable[[Passed], Sequence[tuple[str, int]]]
    ) -> Iterator[tuple[Passed, Onward]]:
        """Yield what is to be passed on again, and to whom; ``onward``: to whom it would go now."""
        self.forget(now)
        for passed in list(self._passed):
            late = tuple((uid, limit) for uid, limit in onward(passed) if uid not in passed.told)
            if late:
                passed.told.update(uid for uid, _ in late)
                yield passed, late

    def next_deadline(self) -> Nanos | None:
        """Return when there is something to forget."""
        return self._passed[0].at + KEPT_NS if self._passed else None

    def forget(self, now: Nanos) -> None:
        """Drop what nobody waits for any more, and the oldest of what is too much."""
        kept = self._passed
        while kept and (self._bytes > KEPT_BYTES or kept[0].at <= now - KEPT_NS):
            self._bytes -= kept.popleft().size
