"""How a broker is struck that agreed to it: by a message, over the network.

A broker that is to die answers first, and ends then. So its death is known to lie between the time
that it tells and the moment in which its connection breaks. One that is to stand still holds up its
own event loop: nobody can forget to wake it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import trio

from ges.client import Client
from ges.drills.plan import Means, Strike
from ges.drills.readings import Clock, Reading, read
from ges.drills.rows import Struck
from ges.errors import ConnectionLost, DrillFailed
from ges.operations.attached import Operator
from ges.wire.drill_messages import CutOff, Die, Drilled, Seen, Sight, StandStill
from overlay.errors import ChordalError
from overlay.ids import Nanos, nanos, short

ANSWER_SECONDS = 5.0
DEATH_SECONDS = 5.0


@dataclass(slots=True)
class Ground:
    """A live ring whose brokers let themselves be broken."""

    operator: Operator
    clock: Clock
    urls: dict[str, str] = field(default_factory=dict)  #: of all brokers met, by uid
    cuts: dict[tuple[str, str], Nanos] = field(default_factory=dict)  #: until when they hold
    still: dict[str, Nanos] = field(default_factory=dict)  #: until when each stands still
    dead: set[str] = field(default_factory=set)  #: not seen again

    @asynccontextmanager
    async def attached(self, uid: str) -> AsyncIterator[Client]:
        """Attach to one broker for the length of the block."""
        async with self.operator.attached(self.urls[uid], ANSWER_SECONDS) as client:
            yield client

    async def read(self, uid: str, after: int | None, about: tuple[str, ...]) -> Reading:
        """Ask a broker what it has seen."""
        async with self.attached(uid) as client:
            return await read(client, uid, self.clock, after, about)

    async def strike(self, strike: Strike, reading: Reading, seconds: float) -> Struck:
        """Strike now; ``reading``: of the same broker, just before. ``seconds``: how long.

        Raises:
            OperationRefused: the broker does not take part, or this operator may not.
            ConnectionLost: the broker does not answer.
            DrillFailed: it does not die.
        """
        match strike.means:
            case Means.KILL:
                return await self.kill(strike, reading)
            case Means.PAUSE:
                return await self.pause(strike, reading, seconds)
            case Means.CUT:
                return await self._cut(strike, reading, seconds)

    async def kill(self, strike: Strike, reading: Reading) -> Struck:
        """End a broker's process."""
        told: Drilled | None = None
        try:
            async with self.attached(strike.uid) as client:
                told = await client.drill(Die())
                self.dead.add(strike.uid)
                with trio.move_on_after(DEATH_SECONDS):
                    while True:
                        await client.status()
        except ConnectionLost:
            if told is None:
                raise
            began = reading.here(told.now_ns)
            uncertainty = reading.uncertainty_ns + max(0, self.clock.now() - began)
            return Struck(Means.KILL, strike.uid, "", began, None, uncertainty)
        raise DrillFailed(f"broker {short(strike.uid)} was told to end, and still answers")

    async def pause(self, strike: Strike, reading: Reading, seconds: float) -> Struck:
        """Let a broker stand still; it wakes by itself."""
        async with self.attached(strike.uid) as client:
            told = await client.drill(StandStill(round(1000 * seconds)))
        began = reading.here(told.now_ns)
        self.still[strike.uid] = began + nanos(seconds)
        return Struck(
            Means.PAUSE, strike.uid, "", began, began + nanos(seconds), reading.uncertainty_ns
        )

    async def _cut(self, strike: Strike, reading: Reading, seconds: float) -> Struck:
        async with self.attached(strike.uid) as client:
            told = await client.drill(CutOff(strike.other, round(1000 * seconds)))
        began = reading.here(told.now_ns)
        self.cuts[strike.uid, strike.other] = began + nanos(seconds)
        return Struck(
            *(Means.CUT, strike.uid, strike.other),
            *(began, began + nanos(seconds), reading.uncertainty_ns),
        )

    async def wake(self) -> None:
        """Let those that stand still go on; here they do by themselves."""

    async def revive(self) -> bool:
        """Bring back the dead; says whether all are. Here that is their supervisor's concern."""
        return not self.dead

    def refine(self, struck: Struck, reading: Reading, seen: tuple[Seen, ...]) -> Struck:
        """Return when it really began and ended, by what the broker itself has noted of it."""
        times = {
            each.what: reading.here(each.at_ns)
            for each in seen
            if each.what in (Sight.STILL, Sight.AWAKE)
            or (each.what is Sight.CUT and each.uid == struck.other)
        }
        if struck.means is Means.PAUSE and Sight.STILL in times:
            began, ended = times[Sight.STILL], times.get(Sight.AWAKE, struck.ended_ns)
        elif struck.means is Means.CUT and Sight.CUT in times:
            began, ended = times[Sight.CUT], struck.ended_ns
        else:
            return struck
        return replace(
            struck, began_ns=began, ended_ns=ended, uncertainty_ns=reading.uncertainty_ns
        )

    async def mend(self) -> list[str]:
        """Undo what still holds, and say what is left that the drill cannot undo."""
        await self.wake()
        left = []
        now = self.clock.now()
        for (uid, other), until in self.cuts.items():
            if until <= now:
                continue
            try:
                async with self.attached(uid) as client:
                    await client.drill(CutOff(other, 0))
            except ChordalError as error:
                left.append(
                    f"the cut between {short(uid)} and {short(other)} could not be ended "
                    f"({error}); it ends by itself in {(until - now) / 1e9:.0f} s"
                )
        left += [
            f"broker {short(uid)} stands still, and wakes by itself in {(until - now) / 1e9:.0f} s"
            for uid, until in self.still.items()
            if until > now
        ]
        return left + [
            f"broker {short(uid)} at {self.urls[uid]} was ended, and nobody has seen it since: "
            "start it again, unless something else does"
            for uid in sorted(self.dead)
        ]
