"""Runs a drill from the first process to the last, and leaves nothing broken that it can mend."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from ges.drills.drill import Drill
from ges.drills.ground import Ground
from ges.drills.plan import Plan
from ges.drills.readings import Clock
from ges.drills.record import Record
from ges.drills.started import Started
from ges.operations.attached import Operator

MEND_SECONDS = 30.0  #: to undo what still holds


@dataclass(slots=True)
class End:
    """How a drill ended."""

    is_interrupted: bool = False
    left: list[str] = field(default_factory=list)  #: what is broken, and could not be mended


async def conduct(
    operator: Operator,
    plan: Plan,
    record: Record,
    told: Callable[[str], None],
    *,
    start: int | None,
    profile: str,
    warned: Callable[[str], None],
) -> End:
    """Do a drill on the ring that ``operator`` names, or on one of ``start`` brokers.

    ``told`` is handed lines for people, ``warned`` what is left broken: before an error is raised.

    Raises:
        ChordalError: it could not begin, or go on; see :meth:`ges.drills.drill.Drill.run`.
    """
    end = End()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed, signals, nursery.cancel_scope, end)
            async with _ground(operator, start, profile, told) as ground:
                try:
                    await Drill(ground, plan, record, told).run()
                finally:
                    with trio.CancelScope(shield=True), trio.move_on_after(MEND_SECONDS):
                        end.left = await ground.mend()
                    for line in end.left:
                        warned(line)
            nursery.cancel_scope.cancel()
    return end


async def _heed(signals: AsyncIterator[int], scope: trio.CancelScope, end: End) -> None:
    async for _ in signals:
        end.is_interrupted = True
        scope.cancel()


@asynccontextmanager
async def _ground(
    operator: Operator, start: int | None, profile: str, told: Callable[[str], None]
) -> AsyncIterator[Ground]:
    if start is None:
        yield Ground(operator, Clock())
        return
    with tempfile.TemporaryDirectory(prefix="chordal-drill-") as folder:
        ground = Started(operator, Clock())
        try:
            told(f"starting {start} brokers on loopback")
            urls = await ground.start(start, Path(folder), profile)
            ground.operator = replace(operator, urls=urls, overlay="chordal")
            yield ground
        finally:
            with trio.CancelScope(shield=True):
                await ground.stop()
