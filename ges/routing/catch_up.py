"""Events for brokers that this one comes to know late.

For example, A was cut off and is back. It is linked to C again, but not yet to B, which stands
between A and C. Others know the place of A, and give it a part of the ring to serve. What A passes
on to C comes to all beyond C, but not to B.

So while the ring around a broker is not whole, the broker keeps what it has passed on. Whoever
turns up between it and the nearest broker that it was linked to gets these events, flagged *again*:
they are delivered once, even if they have come another way. Beyond the nearest broker others see to
it that nobody is left out.

The ring may have closed over a broker, so that it now stands at another place. Then what it could
pass on to nobody goes to those that serve its old part of the ring.

Bounded in bytes and in time. Pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from ges.routing.plan import Onward
from ges.routing.plans import Plans
from ges.wire.event_flags import FLOOD_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty
from overlay.ids import LinkClass, Nanos, nanos

UNSURE_NS = nanos(3)  #: after its links changed last, a broker whose ring is not whole holds still
KEPT_NS = nanos(3)  #: a run of events is kept for so long ...
KEPT_BYTES = 4 * 1024 * 1024  #: ... and no more than this of all, the latest


@dataclass(frozen=True, slots=True)
class Passed:
    """Events that were passed on together, to some."""

    run: EventRun
    flags: int
    link_class: LinkClass
    duty: Duty  #: with which they came
    at: Nanos
    instead_of: str = ""  #: uid of the broker that others got them in place of; it may be back

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self.run.data) + 64 * self.run.count + 1024


class CatchUp:
    """What was passed on of late, where somebody may have been left out."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._passed: deque[tuple[Passed, frozenset[str]]] = deque()  #: with uids of those told
        self._bytes = 0
        self._here: int | None = None
        self._known: object = None
        self._is_whole = True
        self._unsure_until: Nanos = 0
        #: each once, however many events went there: as many as the row of links has parts
        self._uids: dict[frozenset[str], frozenset[str]] = {}

    def note(self, here: int | None, known: object, *, is_whole: bool, now: Nanos) -> bool:
        """Say where this broker stands, who is linked, and whether the ring around it is whole.

        ``known``: who is linked, in a form that can be compared.

        Returns:
            Whether others are linked than before: then somebody may have been left out.
        """
        if here is not None:
            self._here = here
        has_changed = known != self._known
        if is_whole:
            self._unsure_until = 0
        elif has_changed or self._is_whole:
            self._unsure_until = now + UNSURE_NS
        self._known, self._is_whole = known, is_whole
        if has_changed:
            self._uids.clear()
        return has_changed

    def move(self, here: int | None, now: Nanos) -> tuple[int, list[Passed]]:
        """Return where we stood, and what went to nobody from there, if we stand elsewhere now.

        Nothing is kept of that time: the parts of the ring that are served from here are others.
        """
        self.forget(now)
        place = self._here
        if here is None or place is None or here == place:
            return 0, []
        left = [passed for passed, told in self._passed if not told]
        self._passed.clear()
        self._bytes = 0
        return place, left

    def keep(
        self, run: EventRun, duty: Duty, flags: int, link_class: LinkClass, now: Nanos
    ) -> None:
        """Remember events that are passed on now, if that may leave somebody out."""
        if now < self._unsure_until:
            onward = self._plans.onward(duty, flags, link_class)
            self._remember(Passed(run.alone(), flags, link_class, duty, now), onward)

    def keep_instead(
        self, run: EventRun, flags: int, link_class: LinkClass, now: Nanos, uid: str
    ) -> None:
        """Remember events that others get in place of the broker ``uid``, which may be back."""
        duty = run.head.duty
        onward = self._plans.onward(duty, flags, link_class)
        told = tuple(entry for entry in onward if entry[0] != uid)
        self._remember(Passed(run.alone(), flags, link_class, duty, now, uid), told)

    def missed(self, now: Nanos) -> list[tuple[Passed, Onward]]:
        """Return what to pass on again, and to whom."""
        self.forget(now)
        found = []
        for at, (passed, told) in enumerate(self._passed):
            onward = self._plans.onward(passed.duty, passed.flags, passed.link_class)
            late = _left_out(passed, told, onward)
            if late:
                told = told.union(uid for uid, _ in late)
                self._passed[at] = (passed, self._uids.setdefault(told, told))
                found.append((passed, late))
        return found

    def _remember(self, passed: Passed, onward: Onward) -> None:
        told = frozenset(uid for uid, _ in onward)
        self._passed.append((passed, self._uids.setdefault(told, told)))
        self._bytes += passed.size
        self.forget(passed.at)

    def next_deadline(self) -> Nanos | None:
        """Return when all that is kept now can be forgotten."""
        return self._passed[-1][0].at + KEPT_NS if self._passed else None

    def forget(self, now: Nanos) -> None:
        """Drop what nobody waits for any more, and the oldest of what is too much."""
        kept = self._passed
        while kept and (self._bytes > KEPT_BYTES or kept[0][0].at <= now - KEPT_NS):
            self._bytes -= kept.popleft()[0].size


def _left_out(passed: Passed, told: frozenset[str], onward: Onward) -> Onward:
    if passed.flags & FLOOD_FLAG:  # such events are for everybody, and go on from nobody twice
        return tuple(entry for entry in onward if entry[0] not in told)
    nearest = tuple(takewhile(lambda entry: entry[0] not in told, onward))
    back = (entry for entry in onward[len(nearest) :] if entry[0] == passed.instead_of)
    return (*nearest, *(entry for entry in back if entry[0] not in told))
