"""What must hold of a ring, as code: for the simulator, the property tests and live rings.

Three strengths, from what one broker can see by itself to what must be true of a ring at rest:

* :func:`local_findings`, of one broker's lists, at any moment: the monitors P. Zave recommends to
  every implementation ("Reasoning about identifier spaces", 2015, section VI);
* :func:`zave_findings`, of all live members together, at any moment: her four invariants that
  ring maintenance can never repair once they are broken, clockwise and anticlockwise;
* :func:`ring_findings`, of all live members at rest: the ideal ring, and nothing else. It implies
  the other two, and symmetry. Of what stands on the ring, :func:`backup_findings`, at rest too.

:class:`DeadPointers` watches over time that nobody goes on pointing at a broker confirmed dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from overlay.ids import NANOS_PER_SECOND, Nanos, short
from ring.geometry import RING_SIZE, clockwise
from ring.records.holders import BackupStatus
from ring.wire.messages import Member

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One broker's pointers at one moment; nearest first, fewer in small rings."""

    member: Member
    left: tuple[Member, ...]
    right: tuple[Member, ...]
    known: tuple[Member, ...] = ()  #: others it knows of and would turn to, in no order


@dataclass(frozen=True, slots=True)
class Copies:
    """What one broker says of its own records, and of who keeps copies of them."""

    uid: str
    neighbours: Collection[str]  #: uids of its left and right, both of each
    records: int  #: it owns
    backups: tuple[BackupStatus, ...]
    wanted: int  #: neighbours that are to keep copies, where there are so many


def local_findings(snapshot: Snapshot) -> list[str]:
    """Return what is wrong with one broker's lists by themselves, at any time.

    NoSelf, NoDuplicates and OrderedNeighbourList: they hold in every state, not only at rest.
    """
    here = snapshot.member
    found = []
    for side, members in (("left", snapshot.left), ("right", snapshot.right)):
        uids = [member.uid for member in members]
        if here.uid in uids:
            found.append(f"{_name(here)} is its own {side} neighbour")
        if len(set(uids)) != len(uids):
            found.append(f"{_name(here)} has one {side} neighbour twice")
        ids = (here.ring_id, *(member.ring_id for member in members))
        steps = [clockwise(here.ring_id, ring_id) for ring_id in ids[1:]]
        if side == "left":
            steps = [-step for step in steps]
        if steps != sorted(steps):
            found.append(f"{_name(here)} has its {side} neighbours out of order")
    return found


def ring_findings(snapshots: Iterable[Snapshot], silent: Collection[str] = ()) -> list[str]:
    """Return how the given brokers, taken as all that are alive, differ from one ideal ring.

    Empty when the ring is whole: ids are unique, every pointer is the right one (so the ring is
    ordered, symmetric and complete). O(n log n).

    ``silent``: uids of brokers that may be dead, and not yet found so. A list that names some is as
    it should be if the others in it are.
    """
    ring = sorted(snapshots, key=lambda snapshot: snapshot.member.ring_id)
    found = [
        f"ring id {ring_id} is held by {count} brokers"
        for ring_id, count in Counter(s.member.ring_id for s in ring).items()
        if count > 1
    ]
    members = [snapshot.member for snapshot in ring]
    for at, snapshot in enumerate(ring):
        left, right = ideal_pointers(members, at)
        for side, actual, ideal in (
            ("left", snapshot.left, left),
            ("right", snapshot.right, right),
        ):
            others = [m.uid for m in actual if m.uid not in silent]
            reach = len(ideal) if len(others) == len(actual) else len(others)
            if others != [m.uid for m in ideal[:reach]]:
                found.append(
                    f"{_name(snapshot.member)} has {side} {_names(actual)}, "
                    f"should have {_names(ideal)}"
                )
    return found


def ideal_pointers(ring: Sequence[T], at: int) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return (left, right) of the broker at index ``at`` of the members, or uids, in ring order."""
    n = len(ring)
    reach = range(1, min(2, n - 1) + 1)
    return tuple(ring[(at - k) % n] for k in reach), tuple(ring[(at + k) % n] for k in reach)


def symmetry_findings(snapshots: Iterable[Snapshot]) -> list[str]:
    """Return where one broker points at another that does not point back, at rest.

    right(left(x)) = x, and the same for the second neighbours. In a ring of less than five,
    left-left and right-right are among the other side's, which does no harm here.
    """
    by_uid = {snapshot.member.uid: snapshot for snapshot in snapshots}
    found = []
    for snapshot in by_uid.values():
        for side, members in (("left", snapshot.left), ("right", snapshot.right)):
            for at, member in enumerate(members):
                other = by_uid.get(member.uid)
                back = () if other is None else other.right if side == "left" else other.left
                if len(back) <= at or back[at].uid != snapshot.member.uid:
                    found.append(
                        f"{_name(snapshot.member)} has {short(member.uid)} as {side} neighbour "
                        f"number {at + 1}, which does not point back"
                    )
    return found


def backup_findings(brokers: Iterable[Copies]) -> list[str]:
    """Return what the backups of the given brokers lack, taken as all that are alive, at rest.

    Those of each broker that owns records are to be on as many distinct ring neighbours as it is
    configured for (all others in a ring too small for that), each of them alive and with the latest
    of everything.
    """
    alive = {broker.uid: broker for broker in brokers}
    return [
        finding for owner in alive.values() if owner.records for finding in _lacks(owner, alive)
    ]


def _lacks(owner: Copies, alive: Collection[str]) -> Iterable[str]:
    start = f"broker {short(owner.uid)} owns records ({owner.records})"
    good = set[str]()
    for status in owner.backups:
        uid = status.uid
        if uid == owner.uid:
            continue
        if uid not in alive:
            yield f"{start}, with a backup on {short(uid)}, who is not met on the way round"
        elif uid not in owner.neighbours:
            yield f"{start}, with a backup on {short(uid)}, who is no neighbour of it"
        elif not status.acknowledged:
            yield f"{start}, of which {short(uid)} has not acknowledged the latest versions"
        else:
            good.add(uid)
    wanted = min(owner.wanted, len(alive) - 1)
    if len(good) < wanted:
        on = f"{len(good)} of its neighbours up to date"
        yield f"{start}, backed up on {on}; there should be {wanted}"


def zave_findings(snapshots: Iterable[Snapshot]) -> list[str]:
    """Return which of the four invariants are broken that no maintenance can repair.

    AtLeastOneRing, AtMostOneRing, OrderedRing, ConnectedAppendages (P. Zave, "Using lightweight
    modeling to understand Chord", 2012; 2015), clockwise over the right pointers and anticlockwise
    over the left ones. The best successor of a broker is the first of its list that lives; beyond
    the list, of whom else it knows (``known``), the nearest that lives. A broker that has no list
    and knows nobody is a ring of one. The ring are those that come back to themselves by best
    successors; the others are appendages.

    They hold at any moment as long as nobody's list and all it knows die at once: that is the
    assumption under which they are proven, and a broker that breaks it is reported.
    """
    members = {snapshot.member: snapshot for snapshot in snapshots}
    if len(members) < 2:
        return []
    return [
        f"{direction}: {finding}"
        for direction, step in (("clockwise", 1), ("anticlockwise", -1))
        for finding in _one_way(members, step)
    ]


def _one_way(members: dict[Member, Snapshot], step: int) -> list[str]:
    def distance(a: Member, b: Member) -> int:
        return clockwise(a.ring_id, b.ring_id) if step > 0 else clockwise(b.ring_id, a.ring_id)

    best: dict[Member, Member] = {}
    found = []
    for member, snapshot in members.items():
        listed = snapshot.right if step > 0 else snapshot.left
        others = sorted(snapshot.known, key=partial(distance, member))
        successor = next((m for m in (*listed, *others) if m in members and m != member), None)
        if successor is None and not listed:
            successor = member  # a ring of one
        if successor is None:
            found.append(f"{_name(member)} knows nobody alive")
        else:
            best[member] = successor
    rings = _cycles(best)
    if not rings:
        return [*found, "AtLeastOneRing: nobody comes back to itself"]
    if len(rings) > 1:
        shown = " and ".join(_names(ring) for ring in rings)
        found.append(f"AtMostOneRing: there are {len(rings)}: {shown}")
    for ring in rings:
        turns = sum(distance(member, best[member]) or RING_SIZE for member in ring)
        if turns != RING_SIZE:  # the steps of an ordered ring add up to one time round
            found.append(f"OrderedRing: {_names(ring)} goes round {turns / RING_SIZE:g} times")
    on_ring = {member for ring in rings for member in ring}
    found += [
        f"ConnectedAppendages: {_name(member)} does not lead to the ring"
        for member in members
        if not _leads_to(on_ring, best, member)
    ]
    return found


def _leads_to(on_ring: set[Member], best: dict[Member, Member], start: Member) -> bool:
    """Say whether best successors lead from ``start`` to a ring."""
    here: Member | None = start
    while here is not None and here not in on_ring:  # it ends: all cycles are rings
        here = best.get(here)
    return here is not None


def _cycles(best: dict[Member, Member]) -> list[list[Member]]:
    """Return the cycles of a graph in which everybody has at most one successor."""
    state: dict[Member, int] = {}  # the walk that reached it first
    cycles = []
    for walk, start in enumerate(best):
        here: Member | None = start
        while here is not None and here not in state:
            state[here] = walk
            here = best.get(here)
        if here is not None and state[here] == walk:
            cycle = [here]
            while best[cycle[-1]] != here:
                cycle.append(best[cycle[-1]])
            cycles.append(cycle)
    return cycles


class DeadPointers:
    """Watches that nobody points at a life confirmed dead for longer than ``bound_ns``.

    Only lives that are really over count: who was wrongly declared dead is pointed at until it
    hears of it and comes back under another incarnation, and then its former life is over as well.
    """

    def __init__(self, bound_ns: Nanos) -> None:
        self._bound = bound_ns
        self._confirmed: dict[tuple[str, int], Nanos] = {}

    def confirmed(self, subject: Member, now: Nanos) -> None:
        """Some broker confirmed that this life of ``subject`` is over; the first one counts."""
        self._confirmed.setdefault((subject.uid, subject.incarnation), now)

    def findings(self, snapshots: Iterable[Snapshot], now: Nanos) -> list[str]:
        """Return who of the live members points at the dead for too long."""
        snapshots = list(snapshots)
        alive = {(s.member.uid, s.member.incarnation) for s in snapshots}
        return [
            f"{_name(snapshot.member)} still points at {short(member.uid)}, confirmed dead "
            f"{(now - self._confirmed[life]) / NANOS_PER_SECOND:.3f} s ago"
            for snapshot in snapshots
            for member in dict.fromkeys((*snapshot.left, *snapshot.right))
            if (life := (member.uid, member.incarnation)) not in alive
            and now - self._confirmed.get(life, now) > self._bound
        ]


def _name(member: Member) -> str:
    return f"broker {short(member.uid)} (ring id {member.ring_id})"


def _names(members: Sequence[Member]) -> str:
    return "[" + ", ".join(short(member.uid) for member in members) + "]"
