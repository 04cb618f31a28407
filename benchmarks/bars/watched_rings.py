"""Rings that are asked for P. Zave's invariants whenever they may have changed."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from ring.config import LAN, RingConfig
from ring.facts import Joined, Left, NeighboursChanged, Rejoining
from ring.invariants import Snapshot, zave_findings
from sims.experiments.record_rings import RecordRing
from sims.world.world import CrashMode

CHANGES = (Joined, NeighboursChanged, Rejoining, Left)


class WatchedRing(RecordRing):
    """Asks for the invariants after every event that changes a pointer or a member.

    It asks only while Zave's assumptions hold: each death and each leave leaves everybody a live
    neighbour on each side, and each newcomer the address of a live member; and no broker stands
    still, as it would be declared dead. Once they were broken, they hold again as soon as the ring
    is ideal and nobody is under suspicion. ``broken``: what was found, with its virtual time in
    nanoseconds; ``checks``: how often was asked.
    """

    def __init__(self, seed: int, config: RingConfig = LAN) -> None:
        super().__init__(seed, config)
        self.broken: list[tuple[Nanos, str]] = []
        self.checks = 0
        self._contacts: dict[str, Sequence[str]] = {}  #: of those that joined
        self._holds = True
        self._dirty = False

    # ── what is done to it ──────────────────────────────────────────────────────────────────────

    def start(self, contacts: Sequence[str], *, uid: str | None = None, bootstrap: int = 1) -> str:
        """Start a broker that joins through ``contacts``."""
        uid = super().start(contacts, uid=uid, bootstrap=bootstrap)
        self._contacts[uid] = contacts
        return uid

    def restart(self, uid: str, contacts: Sequence[str]) -> None:
        """Start the process of a dead broker again, to join through ``contacts``."""
        super().restart(uid, contacts)
        self._contacts[uid] = contacts

    def crash(self, uid: str, mode: CrashMode) -> None:
        """Let a broker die now; if too many do, nothing is asked until the ring is calm."""
        self._lose(uid)
        super().crash(uid, mode)

    def pause(self, uid: str, seconds: float | None = None) -> None:
        """Let a broker stand still; nothing is asked until the ring is calm."""
        self._holds = False
        super().pause(uid, seconds)

    def run(self, seconds: float) -> None:
        """Let time pass event by event."""
        world = self.world
        end = world.now + nanos(seconds)
        self.check()
        while (next_at := world.next_at) is not None and next_at <= end:
            world.run(next_at)
            self.check()
        world.run(end)

    # ── what is seen ──────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Ask, if anything has changed."""
        if not self._dirty:
            return
        self._dirty = False
        self._holds = self._holds or self._is_calm
        if self._holds:
            self.checks += 1
            snapshots = self.snapshots()
            found = zave_findings(_ring_of_one(snapshots) or snapshots)
            self.broken += [(self.world.now, finding) for finding in found]

    def may_lose(self, uid: str) -> bool:
        """Say whether everybody else keeps a live neighbour on each side without ``uid``.

        And whether a newcomer keeps the address of a member that lives.
        """
        members = {member for member in self.in_order if member != uid}
        if any(
            self.nodes[new].member is None and not members.intersection(self._contacts.get(new, ()))
            for new in self.alive
            if new != uid
        ):
            return False
        alive = {s.member: s for s in self.snapshots(known=False) if s.member.uid != uid}
        return len(alive) <= 1 or all(
            any(m in alive for m in side)
            for snapshot in alive.values()
            for side in (snapshot.left, snapshot.right)
        )

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_fact(self, uid: str, fact: Fact) -> None:
        if isinstance(fact, Left):
            self._lose(uid)
        super()._on_fact(uid, fact)
        self._dirty = self._dirty or isinstance(fact, CHANGES)

    def _lose(self, uid: str) -> None:
        self._holds = self._holds and self.may_lose(uid)
        self._dirty = True

    @property
    def _is_calm(self) -> bool:
        suspected = any(self.nodes[uid].suspects for uid in self.alive)
        return not (self.paused or suspected or self.findings())


def _ring_of_one(snapshots: list[Snapshot]) -> list[Snapshot] | None:
    """Return the one broker without live neighbours, if all others lead to it, both ways.

    It is a ring by itself, of which the others, newcomers that it has not seen, are appendages.
    """
    ring = {s.member: s for s in snapshots}
    single = [
        member
        for member, s in ring.items()
        if not any(other in ring for other in (*s.left, *s.right))
    ]
    if len(single) != 1:
        return None
    for start in ring:
        for going_right in (True, False):
            here, steps = start, 0
            while here != single[0]:
                at = ring[here]
                listed = (*(at.right if going_right else at.left), *at.known)
                here = next((other for other in listed if other in ring), start)
                steps += 1
                if steps > len(ring):
                    return None
    return [ring[single[0]]]
