"""A ring seen from outside: by walks, and by looking at the brokers around one that fails."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import trio

from benchmarks.campaigns.live.processes import Fleet, LiveBroker, SoakFailed
from benchmarks.stage.waiting import FIND_SECONDS
from ges.client import Client, connect
from ges.errors import ConnectionLost
from ges.operations.unit_tree import unit_tree
from ges.operations.walk import Walk, walk_ring
from ges.wire.status import Status
from overlay.ids import Nanos, nanos
from ring.invariants import DeadPointers, Snapshot, ideal_pointers, local_findings
from ring.wire.messages import Member

LOOK_SECONDS = 0.05  #: between two looks at the same broker; each costs it a millisecond
WALK_SECONDS = 0.2  #: between two walks
ANSWER_SECONDS = 5.0
WATCH_SECONDS = 2.0  #: between two rounds of the watch


async def walk(fleet: Fleet, expect: int) -> Walk:
    """Walk the ring as ``chordal ring --check --expect`` does."""
    for broker in fleet.healthy:
        try:
            found = await walk_ring(
                broker.url, identity=None, overlay="chordal", timeout_s=ANSWER_SECONDS
            )
        except ConnectionLost:
            continue
        return found.expecting(expect)
    raise SoakFailed("no broker answers")


@dataclass(frozen=True)
class Whole:
    """A walk that found the ring whole, and what those before it found."""

    ring: Walk
    waited_s: float  #: until that walk began, or last waited for a broker in vain
    walk_s: float  #: that it took
    held_up: tuple[str, ...]  #: what the walk before it found; empty if it was the first


async def until_whole(fleet: Fleet, expect: int, limit_s: float) -> Whole:
    """Walk until the check finds nothing.

    Raises:
        SoakFailed: it found something to the end.
    """
    started = trio.current_time()
    held_up: tuple[str, ...] = ()
    while True:
        found = await walk(fleet, expect)
        if not found.findings:
            now = trio.current_time()
            return Whole(found, found.began - started, now - found.began, held_up)
        held_up = found.findings
        if trio.current_time() - started > limit_s:
            told = "\n  ".join(found.findings[:12])
            raise SoakFailed(f"the ring is not whole after {limit_s:.0f} s:\n  {told}")
        await trio.sleep(WALK_SECONDS)


async def until_units_stand(fleet: Fleet, limit_s: float) -> list[str]:
    """Wait until ``chordal units --check`` would find nothing; return what it finds to the end."""
    ends = trio.current_time() + limit_s
    while True:
        _, found = unit_tree((await walk(fleet, len(fleet.brokers))).brokers)
        if not found or trio.current_time() > ends:
            return found
        await trio.sleep(WALK_SECONDS)


class Witness:
    """Looks at the four brokers around one that is about to fail."""

    def __init__(self, clients: dict[str, Client], ideal: dict[str, Snapshot], uid: str) -> None:
        self.dropped_at: float | None = None  #: the first of them no longer points at it
        self.repaired_at: float | None = None  #: all four have the pointers they should have
        self._clients = clients
        self._ideal = ideal
        self._uid = uid
        self._right: set[str] = set()

    async def look(self) -> None:
        """Look until all is as it should be."""
        async with trio.open_nursery() as nursery:
            for uid in self._clients:
                nursery.start_soon(self._look_at, uid)

    async def _look_at(self, uid: str) -> None:
        client, ideal = self._clients[uid], self._ideal[uid]
        while True:
            try:
                status = await client.status()
            except ConnectionLost:
                return
            now = trio.current_time()
            if self.dropped_at is None and self._uid not in _pointed_at(status):
                self.dropped_at = now
            if (_uids(status.left), _uids(status.right)) == (_uids(ideal.left), _uids(ideal.right)):
                self._right.add(uid)
                if len(self._right) == len(self._clients):
                    self.repaired_at = now
                return
            await trio.sleep(LOOK_SECONDS)


async def witness(stack: AsyncExitStack, fleet: Fleet, ring: Walk, uid: str) -> Witness:
    """Attach to the brokers around ``uid`` of the ``ring``, before it fails."""
    members = [status.member for status in ring.brokers if status.member is not None]
    at = next(index for index, member in enumerate(members) if member.uid == uid)
    left, right = ideal_pointers(members, at)
    survivors = [member for member in members if member.uid != uid]
    clients, ideal = {}, {}
    for member in dict.fromkeys((*left, *right)):
        index = survivors.index(member)
        ideal[member.uid] = Snapshot(member, *ideal_pointers(survivors, index))
        url = fleet.by_uid[member.uid].url
        clients[member.uid] = await stack.enter_async_context(
            connect(url, reattach=False, timeout=FIND_SECONDS)
        )
    return Witness(clients, ideal, uid)


class Watch:
    """Asks every healthy broker in turn, all the time, for what must hold in any state.

    And nobody may go on pointing at a life that was killed, once there was time to find it out:
    ``found_out_ns``.
    """

    def __init__(self, fleet: Fleet, found_out_ns: Nanos) -> None:
        self.findings: list[str] = []
        self.ghosts: list[str] = []  #: pointers at the killed, seen too late
        self.looks = 0
        self._fleet = fleet
        self._dead = DeadPointers(found_out_ns)

    def killed(self, member: Member) -> None:
        """This life of a broker has ended now."""
        self._dead.confirmed(member, _now())

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            for broker in self._fleet.healthy:
                asked = _now()
                status = await _ask(broker)
                if status is not None and status.member is not None:
                    self.take(Snapshot(status.member, status.left, status.right), asked)
                await trio.sleep(WATCH_SECONDS / len(self._fleet.brokers))
            await trio.sleep(LOOK_SECONDS)

    def take(self, snapshot: Snapshot, asked: Nanos) -> None:
        """Judge an answer; it shows a broker as it was at ``asked`` or later."""
        self.looks += 1
        self.findings += local_findings(snapshot)
        self.ghosts += self._dead.findings([snapshot], asked)


def _now() -> Nanos:
    return nanos(trio.current_time())


async def _ask(broker: LiveBroker) -> Status | None:
    with trio.move_on_after(ANSWER_SECONDS):
        try:
            async with connect(broker.url, timeout=ANSWER_SECONDS, reattach=False) as client:
                return await client.status()
        except ConnectionLost:
            pass
    return None


def _pointed_at(status: Status) -> set[str]:
    return {member.uid for member in (*status.left, *status.right)}


def _uids(members: Iterable[Member]) -> list[str]:
    return [member.uid for member in members]
