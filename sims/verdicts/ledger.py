"""Joins what all brokers of a simulated world say about failures into one row an incident.

The ledger knows what no broker can: when a broker really died, and when the ring around it is
really whole, which it decides by comparing pointers with the ideal ring of those alive.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from overlay.ids import Nanos
from overlay.machine import Fact
from overlay.trace_schema import Incident, Verdict
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    Joined,
    Left,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Reincarnated,
    Rejoining,
    Suspected,
)
from ring.invariants import Snapshot, ideal_pointers, local_findings, ring_findings
from ring.wire.messages import Member

REACH = 2  #: live brokers on each side of a death that must point right
NEAR = 2 * REACH  #: and so far on each side stand those that they point at


@dataclass(slots=True)
class _Open:
    """An incident as it grows."""

    subject: Member
    n: int
    degree: int | None = None
    failed_ns: Nanos | None = None
    suspected_ns: Nanos | None = None
    confirmed_ns: Nanos | None = None
    repaired_ns: Nanos | None = None
    chords_repaired_ns: Nanos | None = None
    level: int | None = None
    units_repaired_ns: Nanos | None = None
    chord_holders: set[str] = field(default_factory=set)  #: that have not replaced it yet
    chords_lost: bool = False
    messages: int = 0
    verdict: Verdict = Verdict.OPEN
    witnesses: dict[str, None] = field(default_factory=dict)


class Ledger:
    """Pointers of all live members, and every incident so far."""

    def __init__(self) -> None:
        self.findings: list[str] = []  #: broken local invariants
        self._snapshots: dict[str, Snapshot] = {}
        self._ring: list[tuple[int, str]] = []  #: live members by ring id
        self._incidents: dict[str, _Open] = {}  #: by "uid/incarnation"
        self._current: dict[str, str] = {}  #: uid -> key of its latest incident
        self._unrepaired: list[tuple[int, str]] = []  #: keys of incidents, by ring id

    # ── what happens ──────────────────────────────────────────────────────────────────────────

    def on_fact(self, uid: str, fact: Fact, now: Nanos) -> None:
        """Take what broker ``uid`` says at ``now``."""
        match fact:
            case NeighboursChanged(left, right):
                self._on_neighbours(uid, left, right, now)
            case Joined(member):
                self._enter(member)
                self._note_repairs_near(member.ring_id, now)
            case Suspected(subject):
                entry = self._entry(subject)
                entry.suspected_ns = _first(entry.suspected_ns, now)
            case Confirmed(subject, witnesses):
                entry = self._entry(subject)
                entry.confirmed_ns = _first(entry.confirmed_ns, now)
                entry.verdict = Verdict.BROKER_FAILED
                entry.witnesses.update(dict.fromkeys(witnesses))
            case LinkFailed(subject, witness):
                entry = self._entry(subject)
                if entry.verdict in (Verdict.OPEN, Verdict.REFUTED):
                    entry.verdict = Verdict.LINK_FAILED
                entry.witnesses[witness] = None
            case Refuted(subject):
                entry = self._entry(subject)
                if entry.verdict is Verdict.OPEN and entry.failed_ns is None:
                    entry.verdict = Verdict.REFUTED
            case ChordLost(subject_uid) if subject_uid in self._current:
                entry = self._incidents[self._current[subject_uid]]
                entry.chord_holders.add(uid)
                entry.chords_lost = True
                entry.chords_repaired_ns = None
            case ChordRepaired(subject_uid) if subject_uid in self._current:
                entry = self._incidents[self._current[subject_uid]]
                entry.chord_holders.discard(uid)
                if not entry.chord_holders:
                    entry.chords_repaired_ns = now
            case Reincarnated(member):
                self._snapshots[uid] = replace(self._snapshots[uid], member=member)
            case Rejoining() | Left():
                gone = self._snapshots.get(uid)
                self._exit(uid)
                if gone is not None:
                    self._note_repairs_near(gone.member.ring_id, now)
            case _:
                pass

    def on_crash(self, uid: str, degree: int, now: Nanos, level: int | None = None) -> None:
        """Broker ``uid`` dies now; ``level``: of the highest unit that this concerns."""
        snapshot = self._snapshots.get(uid)
        if snapshot is not None:
            key = f"{uid}/{snapshot.member.incarnation}"
            if key in self._incidents and self._incidents[key].confirmed_ns is None:
                del self._incidents[key]  # a suspicion that came to nothing is not of this failure
            entry = self._entry(snapshot.member)
            entry.failed_ns, entry.degree, entry.level = now, degree, level
            insort(self._unrepaired, (snapshot.member.ring_id, key))
        self._exit(uid)
        if snapshot is not None:
            self._note_repairs_near(snapshot.member.ring_id, now)
        for other in self._incidents.values():  # its own repairs ended with it
            other.chord_holders.discard(uid)

    def on_units_repaired(self, member: Member, now: Nanos) -> None:
        """The units that the death of a broker concerns are in order now."""
        entry = self._incidents.get(f"{member.uid}/{member.incarnation}")
        if entry is not None:
            entry.units_repaired_ns = now

    def on_sent(self, about: str | None) -> None:
        """A message was sent on account of broker ``about``."""
        if about is not None and about in self._current:
            self._incidents[self._current[about]].messages += 1

    # ── questions ─────────────────────────────────────────────────────────────────────────────

    @property
    def members(self) -> int:
        """Brokers on the ring and alive."""
        return len(self._ring)

    def is_member(self, uid: str) -> bool:
        """Say whether a broker is on the ring and alive."""
        return uid in self._snapshots

    def draw(self, rng: random.Random, count: int) -> list[str]:
        """Draw so many different members that live, or all if there are fewer; returns uids."""
        members = len(self._ring)
        return [self._ring[at][1] for at in rng.sample(range(members), min(count, members))]

    @property
    def unrepaired(self) -> int:
        """Deaths around which the ring is not whole yet."""
        return len(self._unrepaired)

    @property
    def unrepaired_uids(self) -> list[str]:
        """Uids of the dead around which the ring is not whole yet."""
        return [key.partition("/")[0] for _, key in self._unrepaired]

    def ring_findings(self, among: Collection[str] | None = None) -> list[str]:
        """Return how the ring, or that of some brokers, differs from the ideal one now."""
        if among is None:
            return ring_findings(self._snapshots.values())
        return ring_findings(s for uid, s in self._snapshots.items() if uid in among)

    def incidents(self, run_id: str) -> tuple[Incident, ...]:
        """Return all incidents, by time of failure or first suspicion."""
        rows = [
            Incident(
                run_id=run_id,
                incident_id=key,
                verdict=entry.verdict,
                subject=entry.subject.uid,
                subject_ring_id=entry.subject.ring_id,
                observer=None,
                n=entry.n,
                degree=entry.degree,
                failed_ns=entry.failed_ns,
                suspected_ns=entry.suspected_ns,
                confirmed_ns=entry.confirmed_ns,
                repaired_ns=entry.repaired_ns,
                # Nobody held a chord to it: there was nothing more to repair than the ring.
                chords_repaired_ns=(
                    entry.chords_repaired_ns if entry.chords_lost else entry.repaired_ns
                ),
                messages=entry.messages,
                witnesses=tuple(entry.witnesses),
                level=entry.level,
                units_repaired_ns=entry.units_repaired_ns,
            )
            for key, entry in self._incidents.items()
        ]
        return tuple(
            sorted(rows, key=lambda row: (row.failed_ns or row.suspected_ns or 0, row.incident_id))
        )

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _entry(self, subject: Member) -> _Open:
        key = f"{subject.uid}/{subject.incarnation}"
        entry = self._incidents.get(key)
        if entry is None:
            entry = self._incidents[key] = _Open(subject, len(self._ring))
            self._current[subject.uid] = key
        return entry

    def _enter(self, member: Member) -> None:
        self._exit(member.uid)
        self._snapshots[member.uid] = Snapshot(member, (), ())
        insort(self._ring, (member.ring_id, member.uid))

    def _exit(self, uid: str) -> None:
        snapshot = self._snapshots.pop(uid, None)
        if snapshot is not None:
            del self._ring[bisect_left(self._ring, (snapshot.member.ring_id, uid))]

    def _on_neighbours(
        self, uid: str, left: tuple[Member, ...], right: tuple[Member, ...], now: Nanos
    ) -> None:
        member = self._snapshots[uid].member
        snapshot = self._snapshots[uid] = Snapshot(member, left, right)
        self.findings += local_findings(snapshot)
        self._note_repairs_near(member.ring_id, now)

    def _note_repairs_near(self, ring_id: int, now: Nanos) -> None:
        """Pointers at ``ring_id`` have changed, or a member there is gone or has come.

        Going or coming alone may leave the ring there whole: if nobody alive had seen the dead one,
        and if one comes back who is the only one left, no pointer will change any more.
        """
        if not self._ring:
            return
        for place, key in self._unrepaired_near(ring_id):
            if self._is_whole_around(place):
                self._incidents[key].repaired_ns = now
                self._unrepaired.remove((place, key))

    def _unrepaired_near(self, ring_id: int) -> list[tuple[int, str]]:
        """Return the deaths with fewer than ``NEAR`` live members between them and ``ring_id``.

        One in ten thousand changes what it looks like around a death: looking at all of them each
        time would take n^2 steps where a share of all die.
        """
        deaths, n = self._unrepaired, len(self._ring)
        if n <= 2 * NEAR + 1:
            return list(deaths)
        here = bisect_left(self._ring, (ring_id, ""))
        after, upto = self._ring[(here - NEAR - 1) % n][0], self._ring[(here + NEAR) % n][0]
        first = bisect_right(deaths, after, key=_place)
        end = bisect_right(deaths, upto, key=_place)
        return deaths[first:end] if after < upto else deaths[first:] + deaths[:end]

    def _is_whole_around(self, ring_id: int) -> bool:
        """Compare the pointers of the two live members on each side of ``ring_id``."""
        n = len(self._ring)
        at = bisect_left(self._ring, (ring_id, ""))
        # Their pointers reach two further; in a small ring that may be round and back.
        start, size = (at - NEAR, 2 * NEAR + 1) if n > 12 else (0, n)
        uids = [self._ring[(start + step) % n][1] for step in range(size)]
        members = [self._snapshots[uid].member for uid in uids]
        for index in range(at - REACH, at + REACH) if n > NEAR else range(n):
            snapshot = self._snapshots[self._ring[index % n][1]]
            if (snapshot.left, snapshot.right) != ideal_pointers(members, (index - start) % size):
                return False
        return True


def _place(death: tuple[int, str]) -> int:
    return death[0]


def _first(known: Nanos | None, now: Nanos) -> Nanos:
    return now if known is None else known
