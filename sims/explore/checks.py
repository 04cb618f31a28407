"""What must hold in every state that is explored, and where nothing is left to happen."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import nanos
from overlay.machine import Fact
from ring.config import LAN
from ring.facts import Confirmed, NeighboursChanged
from ring.invariants import (
    Snapshot,
    local_findings,
    ring_findings,
    symmetry_findings,
)
from sims.explore.scopes import Scope
from sims.explore.state import State
from sims.explore.world import UntimedWorld

REST_LIMIT_NS = nanos(120)
CALM_STEPS = 6  #: periods for which the ring must stay as it should be


@dataclass(frozen=True, slots=True)
class Said:
    """What can be said of a step without looking at brokers that it does not concern."""

    findings: tuple[str, ...]
    confirmed: frozenset[int]  #: whose death
    moved: bool  #: somebody's view


class Checks:
    """Checks states; ``facts``: what the brokers have said in the last step."""

    def __init__(self, world: UntimedWorld, scope: Scope, facts: list[Fact]) -> None:
        self._world = world
        self._scope = scope
        self._facts = facts

    def step(self, before: State, after: State) -> Said:
        """Check what must hold at any moment, as far as one broker by itself can tell."""
        brokers = range(len(after.brokers))
        found: list[str] = []
        confirmed: set[int] = set()
        for at in brokers:
            if after.brokers[at] != before.brokers[at] and after.fate[at] == "alive":
                local = self._world.local(after, at)
                if local.view is not None:
                    found += local_findings(local.view)
                found += [f"b{at} points at {uid[:8]} without a link" for uid in local.unlinked]
        for fact in self._facts:
            if isinstance(fact, Confirmed):
                confirmed.add(self._world.index[fact.subject.uid])
            elif isinstance(fact, NeighboursChanged) and self._scope.steady:
                found.append("a pointer has moved although nobody came or died")
        self._facts.clear()
        moved = any(self.view(before, at) != self.view(after, at) for at in brokers)
        return Said(tuple(found), frozenset(confirmed), moved)

    def view(self, state: State, at: int) -> Snapshot | None:
        """Return what a broker sees of the ring; None if it is not on it, or not alive."""
        return self._world.local(state, at).view if state.fate[at] == "alive" else None

    def rest(self, state: State) -> list[str]:
        """Let time pass until the ring is ideal and stays so; return what is wrong if it is not.

        Before that, when all messages have arrived, all members know of a death that one has
        confirmed. Not so newcomers: who was not yet beside the dead is told by nobody.
        """
        world = self._world
        told = () if self._scope.newcomers else state.confirmed
        gone = {world.nodes[at].peer.uid for at in told}
        for view in world.views(state):
            if gone & {member.uid for member in (*view.left, *view.right)}:
                return [f"ring id {view.member.ring_id} was not told of a death that is confirmed"]
        state = world.thaw(state)
        calm = 0
        findings: list[str] = []
        until = world.now + REST_LIMIT_NS
        while calm <= CALM_STEPS and world.now < until:
            if not world.pass_time(state, world.now + LAN.heartbeat_ns):
                findings = ["brokers send one another messages without end"]
                break
            views = world.views(state)
            findings = [*ring_findings(views), *symmetry_findings(views)]
            findings += [
                f"b{at} is not on the ring, or suspects somebody"
                for at, fate in enumerate(state.fate)
                if fate == "alive" and (world.nodes[at].member is None or world.nodes[at].suspects)
            ]
            calm = 0 if findings else calm + 1
        world.freeze_again()
        return [f"does not come to rest: {finding}" for finding in findings]
