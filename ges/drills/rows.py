"""Joins what all brokers saw of one step into incidents, by the simulator's rules. Pure.

As in the simulator's ledger, a failure is suspected and confirmed when the first broker does so,
and the ring is whole when the pointers of the two live brokers on each side of the dead one are
those of the ideal ring. What the simulator knows and nobody sees in a live ring, the moment of
death, here the drill knows: it has done it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ges.drills.plan import Means
from ges.wire.drill_messages import Seen, Sight
from overlay.ids import Nanos
from overlay.trace_schema import Incident, Verdict
from ring.invariants import ideal_pointers

REACH = 2  #: live brokers on each side of a death that must point right


@dataclass(frozen=True, slots=True)
class Place:
    """A broker as it was just before the step."""

    uid: str
    incarnation: int
    ring_id: int
    degree: int  #: links to other brokers


@dataclass(frozen=True, slots=True)
class Struck:
    """One thing that was done, by the clock of the drill."""

    means: Means
    uid: str
    other: str
    began_ns: Nanos
    ended_ns: Nanos | None  #: None: it does not end, or nobody has seen it end
    uncertainty_ns: Nanos  #: of ``began_ns``


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one broker saw, by the clock of the drill."""

    at_ns: Nanos
    observer: str
    seen: Seen


@dataclass(slots=True)
class _Open:
    place: Place
    failed_ns: Nanos | None = None
    suspected_ns: Nanos | None = None
    confirmed_ns: Nanos | None = None
    repaired_ns: Nanos | None = None
    chords_repaired_ns: Nanos | None = None
    said_repaired_ns: Nanos | None = None  #: the last broker that said so
    chord_holders: set[str] = field(default_factory=set)
    chords_lost: bool = False
    verdict: Verdict = Verdict.OPEN
    witnesses: dict[str, None] = field(default_factory=dict)


class Joined:
    """One step: who stood where, what was done, and what all saw."""

    def __init__(
        self, ring: Sequence[Place], struck: Iterable[Struck], sightings: Iterable[Sighting]
    ) -> None:
        """``ring`` is in ring order, and was whole."""
        self._places = {place.uid: place for place in ring}
        self._alive = [place.uid for place in ring]
        self._pointers = {
            uid: ideal_pointers(self._alive, at) for at, uid in enumerate(self._alive)
        }
        self._open: dict[str, _Open] = {}
        self._moved = False  #: somebody has left its place, and has another one
        deaths = [each for each in struck if each.means is Means.KILL]
        self._n = len(self._alive)
        events: list[tuple[Nanos, int, Struck | Sighting]] = [
            *((each.began_ns, 0, each) for each in deaths),
            *((each.at_ns, 1, each) for each in sightings),
        ]
        for _, _, event in sorted(events, key=lambda each: each[:2]):
            if isinstance(event, Struck):
                self._on_death(event)
            else:
                self._on_sight(event)

    @property
    def chords_missing(self) -> list[str]:
        """Uids of those to whom somebody held a chord that is not replaced yet."""
        return [uid for uid, entry in self._open.items() if entry.chord_holders]

    def incidents(self, run_id: str, sent: Mapping[str, int]) -> list[Incident]:
        """Return a row for each broker that was struck and noticed, or suspected for no reason.

        ``sent``: messages on account of each uid.
        """
        rows = [self._row(run_id, entry, sent.get(uid, 0)) for uid, entry in self._open.items()]
        return sorted(rows, key=lambda row: (row.failed_ns or row.suspected_ns or 0, row.subject))

    def _row(self, run_id: str, entry: _Open, messages: int) -> Incident:
        place = entry.place
        repaired = entry.repaired_ns
        if repaired is None and entry.failed_ns is not None and self._moved:
            repaired = entry.said_repaired_ns
        chords = entry.chords_repaired_ns if entry.chords_lost else repaired
        return Incident(
            run_id=run_id,
            incident_id=f"{place.uid}/{place.incarnation}",
            verdict=entry.verdict,
            subject=place.uid,
            subject_ring_id=place.ring_id,
            observer=None,
            n=self._n,
            degree=place.degree if entry.failed_ns is not None else None,
            failed_ns=entry.failed_ns,
            suspected_ns=entry.suspected_ns,
            confirmed_ns=entry.confirmed_ns,
            repaired_ns=repaired,
            chords_repaired_ns=None if entry.chord_holders else chords,
            messages=messages,
            witnesses=tuple(entry.witnesses),
        )

    def _on_death(self, death: Struck) -> None:
        entry = self._entry(death.uid)
        if entry is None:
            return
        entry.failed_ns = death.began_ns
        self._alive.remove(death.uid)
        for other in self._open.values():  # its own repairs ended with it
            other.chord_holders.discard(death.uid)
        self._look(death.began_ns)

    def _on_sight(self, sighting: Sighting) -> None:
        seen, now = sighting.seen, sighting.at_ns
        if seen.what is Sight.POINTERS:
            self._pointers[sighting.observer] = (seen.left, seen.right)
            self._look(now)
            return
        if seen.what is Sight.REJOINING:
            self._moved = True
            return
        entry = self._open.get(seen.uid)
        match seen.what:
            case Sight.SUSPECTED:
                if (entry := self._entry(seen.uid)) is not None and entry.suspected_ns is None:
                    entry.suspected_ns = now
            case Sight.CONFIRMED:
                if (entry := self._entry(seen.uid)) is not None:
                    if entry.confirmed_ns is None:
                        entry.confirmed_ns = now
                    entry.verdict = Verdict.BROKER_FAILED
                    entry.witnesses.update(dict.fromkeys(seen.witnesses))
            case Sight.LINK_FAILED:
                if (entry := self._entry(seen.uid)) is not None:
                    if entry.verdict in (Verdict.OPEN, Verdict.REFUTED):
                        entry.verdict = Verdict.LINK_FAILED
                    entry.witnesses.update(dict.fromkeys(seen.witnesses))
            case Sight.REFUTED if entry is not None:
                if entry.verdict is Verdict.OPEN and entry.failed_ns is None:
                    entry.verdict = Verdict.REFUTED
            case Sight.REPAIRED if entry is not None:
                entry.said_repaired_ns = now
            case Sight.CHORD_LOST if entry is not None:
                entry.chord_holders.add(sighting.observer)
                entry.chords_lost, entry.chords_repaired_ns = True, None
            case Sight.CHORD_REPAIRED if entry is not None:
                entry.chord_holders.discard(sighting.observer)
                if not entry.chord_holders:
                    entry.chords_repaired_ns = now
            case _:
                pass

    def _entry(self, uid: str) -> _Open | None:
        """Return the incident of a broker; None: it has come since."""
        place = self._places.get(uid)
        if place is None:
            return None
        return self._open.setdefault(uid, _Open(place))

    def _look(self, now: Nanos) -> None:
        for entry in self._open.values():
            is_open = entry.failed_ns is not None and entry.repaired_ns is None
            if is_open and self._is_whole_around(entry.place.ring_id):
                entry.repaired_ns = now

    def _is_whole_around(self, ring_id: int) -> bool:
        n = len(self._alive)
        at = sum(self._places[uid].ring_id < ring_id for uid in self._alive)
        near = range(at - REACH, at + REACH) if n > 2 * REACH else range(n)
        return all(
            self._pointers[self._alive[index % n]] == ideal_pointers(self._alive, index % n)
            for index in near
        )
