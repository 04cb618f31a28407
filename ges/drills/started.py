"""Brokers that the drill itself starts, on loopback: they are struck by their process ids."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from ges.drills.ground import Ground
from ges.drills.plan import Means, Strike
from ges.drills.readings import Reading
from ges.drills.rows import Struck
from ges.operations.local_brokers import LocalBroker, LocalBrokers
from ges.wire.drill_messages import Seen
from overlay.ids import Nanos, nanos


@dataclass(slots=True)
class Started(Ground):
    """A ring of the drill's own. ``start`` begins it, ``stop`` ends it."""

    _of: dict[str, LocalBroker] = field(default_factory=dict)  #: by uid
    _stopped: set[str] = field(default_factory=set)  #: by SIGSTOP
    _woken: dict[str, Nanos] = field(default_factory=dict)  #: when each was let go on
    _brokers: LocalBrokers | None = None

    async def start(self, count: int, folder: Path, profile: str) -> str:
        """Start so many brokers at once, all with one list; returns the URLs of all.

        Raises:
            ProcessFailed: one of them ends, or does not join in time.
        """
        self._brokers = LocalBrokers(folder)
        options = ("--drills", "--data", folder / "broker-{}", "--profile", profile)
        ready = await self._brokers.ring_of(count, *options)
        self._of = {r.uid: b for r, b in zip(ready, self._brokers.brokers, strict=True)}
        self.urls.update({each.uid: each.url for each in ready})
        return ",".join(each.url for each in ready)

    async def kill(self, strike: Strike, reading: Reading) -> Struck:
        """``kill -9``."""
        broker = self._running(strike.uid)
        began = self.clock.now()
        broker.signal(signal.SIGKILL)
        done = self.clock.now()
        self.dead.add(strike.uid)
        await broker.finished()
        return Struck(Means.KILL, strike.uid, "", began, None, done - began)

    async def pause(self, strike: Strike, reading: Reading, seconds: float) -> Struck:
        """``kill -STOP``, and ``kill -CONT`` by :meth:`wake`."""
        broker = self._running(strike.uid)
        began = self.clock.now()
        broker.signal(signal.SIGSTOP)
        done = self.clock.now()
        self._stopped.add(strike.uid)
        return Struck(Means.PAUSE, strike.uid, "", began, began + nanos(seconds), done - began)

    async def wake(self) -> None:
        """``kill -CONT`` for all that were stopped."""
        while self._stopped:
            uid = self._stopped.pop()
            if self._of[uid].is_alive:
                self._of[uid].signal(signal.SIGCONT)
            self._woken[uid] = self.clock.now()

    def refine(self, struck: Struck, reading: Reading, seen: tuple[Seen, ...]) -> Struck:
        """Return when it really began and ended."""
        if struck.means is not Means.PAUSE:
            return Ground.refine(self, struck, reading, seen)
        return replace(struck, ended_ns=self._woken.get(struck.uid, struck.ended_ns))

    async def revive(self) -> bool:
        """Start the dead again: the same brokers, in their next life."""
        for uid in self.dead:
            self._of[uid].start()
        for uid in self.dead:
            await self._of[uid].joined()
        self.dead.clear()
        return True

    async def mend(self) -> list[str]:
        """Undo what holds; the ring ends with the drill, so nothing is left of it."""
        await self.wake()
        return []

    async def stop(self) -> None:
        """Have all leave, and end those that do not in time; nothing of it outlives the drill."""
        await self.wake()
        if self._brokers is not None:
            await self._brokers.end()

    def _running(self, uid: str) -> LocalBroker:
        if not self._of[uid].is_alive:
            raise self._of[uid].failure()
        return self._of[uid]
