"""Runs of events, and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import FRONT, Duty, Flow, pack_event, pack_front, read_head
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, frame


def run_of(flow: Flow, first: int, *, count: int = 1, size: int = 1) -> EventRun:
    """Return events of a flow."""
    publisher, incarnation, link_class = flow
    secure = link_class is LinkClass.SECURE
    frames = [
        frame(
            EVENT, pack_event(secure, publisher, incarnation, first + at, 0, b"t", b"", bytes(size))
        )
        for at in range(count)
    ]
    bounds = list(accumulate(map(len, frames), initial=0))
    (run,) = event_runs(b"".join(frames), bounds)
    return run


def numbers_of(runs: Iterable[EventRun]) -> list[int]:
    """Return the sequences of events."""
    return [run.head.sequence + at for run in runs for at in range(run.count)]


def under_way(
    body: bytes,
    duty: Duty,
    *,
    flags: int | None = None,
    hops: int = 1,
    via: int = 0,
    source: int = 0,
) -> bytes:
    """Return an event as a broker has sent it on; ``flags`` None: as it has them."""
    head = read_head(body)
    front = pack_front(head.flags if flags is None else flags, hops, via, source, duty)
    return front + body[FRONT.size :]
