"""The records that brokers of a scenario own, and those that are lost with the last copy."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from overlay.ids import Nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from overlay.trace_schema import Incident
from ring.facts import Joined
from sims.scenarios.schema import Records
from sims.scenarios.stage import Stage


class Estates:
    """Lets each broker own records from when it has its place, and sees which are lost."""

    def __init__(self, stage: Stage, records: Records, seed: int) -> None:
        self._stage = stage
        self._records = records
        self._seed = seed
        self._owners: set[str] = set()
        self._lost: set[str] = set()
        self._with: dict[tuple[str, Nanos], int] = {}  #: who died when -> records lost
        self._has_begun = False

    @property
    def lost(self) -> list[str]:
        """Keys of the records of which the last broker that had the bytes has died."""
        return sorted(self._lost)

    def begin(self) -> None:
        """Let all brokers that live own their records."""
        self._has_begun = True
        for uid in self._stage.alive:
            self._put(uid)

    def hear(self, uid: str, fact: Fact) -> None:
        """Take what a broker says: a newcomer owns records once it has its place.

        One that comes back owns no more: its heirs have what was its own.
        """
        if self._has_begun and isinstance(fact, Joined) and uid not in self._owners:
            timeline = self._stage.timeline
            timeline.at(timeline.now, self._put, uid)

    def on_crashes(self, uids: tuple[str, ...]) -> None:
        """These brokers die now, one after the other: what nobody else has bytes of is lost."""
        left = set(self._stage.alive)
        for uid in uids:
            if uid not in left:
                continue
            left.remove(uid)
            doomed = set(self._stage.kept(uid))
            for other in left:
                if not doomed:
                    break
                doomed -= self._stage.kept(other)
            self._with[uid, self._stage.timeline.now] = len(doomed)
            self._lost |= doomed

    def noted(self, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        """Return incidents with the number of records that were lost by each death."""
        return tuple(self._noted(incident) for incident in incidents)

    def _noted(self, incident: Incident) -> Incident:
        if incident.failed_ns is None:
            return incident
        lost = self._with.get((incident.subject, incident.failed_ns))
        return msgspec.structs.replace(incident, records_lost=lost)

    def _put(self, uid: str) -> None:
        if uid in self._owners or not self._stage.is_alive(uid):
            return
        self._owners.add(uid)
        body = rng_for(self._seed, "record", uid).randbytes(self._records.size)
        for number in range(self._records.each):
            self._stage.put(uid, f"{uid}/{number}", body)
