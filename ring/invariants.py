"""What must hold of a ring, as code: for the simulator, the property tests and live rings.

Pointer lists are compared with the ideal ring of the brokers that are alive. The names follow
P. Zave's analysis of Chord: one ring, ordered, nobody beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from overlay.ids import short
from ring.geometry import clockwise
from ring.messages import Member


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One broker's pointers at one moment; nearest first, fewer in small rings."""

    member: Member
    left: tuple[Member, ...]
    right: tuple[Member, ...]


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


def ring_findings(snapshots: Iterable[Snapshot]) -> list[str]:
    """Return how the given brokers, taken as all that are alive, differ from one ideal ring.

    Empty when the ring is whole: ids are unique, every pointer is the right one (so the ring is
    ordered, symmetric and complete). O(n log n).
    """
    ring = sorted(snapshots, key=lambda snapshot: snapshot.member.ring_id)
    found = [
        f"ring id {ring_id} is held by {count} brokers"
        for ring_id, count in Counter(s.member.ring_id for s in ring).items()
        if count > 1
    ]
    for at, snapshot in enumerate(ring):
        left, right = ideal_pointers([s.member for s in ring], at)
        for side, actual, ideal in (
            ("left", snapshot.left, left),
            ("right", snapshot.right, right),
        ):
            if [m.uid for m in actual] != [m.uid for m in ideal]:
                found.append(
                    f"{_name(snapshot.member)} has {side} {_names(actual)}, "
                    f"should have {_names(ideal)}"
                )
    return found


def ideal_pointers(
    ring: Sequence[Member], at: int
) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Return (left, right) of the broker at index ``at`` of the members in ring order."""
    n = len(ring)
    reach = range(1, min(2, n - 1) + 1)
    return tuple(ring[(at - k) % n] for k in reach), tuple(ring[(at + k) % n] for k in reach)


def _name(member: Member) -> str:
    return f"broker {short(member.uid)} (ring id {member.ring_id})"


def _names(members: Sequence[Member]) -> str:
    return "[" + ", ".join(short(member.uid) for member in members) + "]"
