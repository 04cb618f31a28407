"""The adversary: it watches what brokers say, and crashes a broker in the middle of something."""

from __future__ import annotations

import random

from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from ring.facts import Confirmed, Joined, NeighboursChanged, Suspected
from sims.scenarios.deeds import Deed, Deeds
from sims.scenarios.schema import Adversary, Middle

MERGE_S = 60.0  #: after a partition has healed two rings become one for so long at most
_DEEDS = {
    Middle.JOIN: Deed.AMID_JOIN,
    Middle.REPAIR: Deed.AMID_REPAIR,
    Middle.MERGE: Deed.AMID_MERGE,
}


def lie_in_wait(deeds: Deeds, rng: random.Random, fault: Adversary) -> None:
    """Begin to watch."""
    deeds.watchers.append(_Waiting(deeds, rng, fault).watch)


class _Waiting:
    def __init__(self, deeds: Deeds, rng: random.Random, fault: Adversary) -> None:
        self._deeds = deeds
        self._rng = rng
        self._fault = fault
        self._struck = 0
        self._not_before: Nanos = 0

    def watch(self, uid: str, fact: Fact | None) -> None:
        """A broker says something, or is started."""
        deeds, fault = self._deeds, self._fault
        now = deeds.stage.timeline.now
        if deeds.is_over or self._struck >= fault.count or now < self._not_before:
            return
        found = self._middle(uid, fact, now)
        if found is None or found[0] not in fault.during:
            return
        middle, parties = found
        self._struck += 1
        self._not_before = now + nanos(fault.every_s)
        delay = self._rng.random() * fault.within_ms / 1000
        deeds.after(delay, self._strike, _DEEDS[middle], self._rng.choice(parties))

    def _middle(self, uid: str, fact: Fact | None, now: Nanos) -> tuple[Middle, list[str]] | None:
        """Return what is going on, and who is in it."""
        match fact:
            case None:
                return Middle.JOIN, [uid]
            case Joined(_, contact):
                return Middle.JOIN, [uid] if contact is None else [uid, contact]
            case Suspected():
                return Middle.REPAIR, [uid]
            case Confirmed(_, witnesses):
                return Middle.REPAIR, [uid, *witnesses]
            case NeighboursChanged() if self._is_merging(now):
                return Middle.MERGE, [uid]
        return None

    def _is_merging(self, now: Nanos) -> bool:
        healed = self._deeds.healed_at
        return healed is not None and now < healed + nanos(MERGE_S)

    def _strike(self, what: Deed, uid: str) -> None:
        deeds, fault = self._deeds, self._fault
        if deeds.crash(uid, fault.mode, what) and fault.back_after_s is not None:
            deeds.mend(fault.back_after_s, deeds.back, uid, self._rng)
