"""Events that have passed this broker of late, kept in memory for clients that lose their broker.

Subscriber S is attached to broker B, and B freezes. S finds that out after a second or so, and
attaches to broker C. C keeps what it has delivered meanwhile, and gives S what that one has missed
(:mod:`ges.delivery.replays`). Events that went to B alone are fetched from the brokers where they
were published, and come first (:mod:`ges.delivery.past`). Where events go to all brokers by arcs of
the ring, C has had all of it itself.

Events are kept in the order in which this broker delivered them, or would have. They are kept by
the run, as references into the bytes that were read: nothing is copied or unpacked when they pass.
Express events are not kept: they are of no use later. Bounded in bytes and in time. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from ges.wire.event_runs import EventRun
from ges.wire.events import Flow, read_head
from overlay.ids import Nanos, nanos
from overlay.wire.frames import HEADER as FRAME_HEADER
from overlay.wire.frames import LENGTH_AND_TAG

KEPT_NS = nanos(10)  #: events are kept for so long ...
KEPT_BYTES = 16 * 1024 * 1024  #: ... and no more of them than take this memory, the latest
ENTRY_BYTES = 256  #: of memory for a run, beside its topic and the bytes that were read


class KeptRun(msgspec.Struct, frozen=True, gc=False):
    """Events of one publisher to one topic, whose numbers follow each other."""

    at: Nanos  #: when they passed
    size: int  #: bytes of memory that they are counted with
    topic: bytes
    secure: bool
    count: int
    data: bytes  #: what was read, with other events before and behind, perhaps
    start: int  #: of the first frame in ``data``
    end: int
    ends_ms: int = 0  #: unix time after which nobody is to get it; 0: there is no such time
    common: int = 1  #: level of the smallest unit with both their source and this broker in it

    @property
    def first(self) -> tuple[Flow, int]:
        """Return whose the events are, and the number of the first."""
        head = read_head(self.data, self.start + FRAME_HEADER.size)
        return head.flow, head.sequence

    def frames(self, skip: int = 0) -> bytes:
        """Return the event frames in one piece, without the first ``skip``."""
        start = self.start
        for _ in range(skip):
            length, _ = LENGTH_AND_TAG.unpack_from(self.data, start)
            start += 4 + length
        return self.data[start : self.end]


@dataclass(slots=True, eq=False)
class Fetched:
    """What others had for clients that have moved here together; they share it."""

    runs: list[KeptRun]
    bytes: int  #: of memory that they take

    @classmethod
    def of(cls, runs: list[KeptRun]) -> Fetched:
        """Return runs with what they take."""
        return cls(runs, sum(run.size for run in runs))


def kept_run(run: EventRun, at: Nanos, common: int = 1) -> KeptRun:
    """Return a run that has its bytes to itself, as it is kept; ``common``: see there."""
    ends_ms = run.head.ends_ms
    head, data, bounds = run.head, run.data, run.bounds
    size = ENTRY_BYTES + len(head.topic) + len(data)
    where = data, bounds[0], bounds[-1]
    return KeptRun(at, size, head.topic, head.secure, run.count, *where, ends_ms, common)


class KeptEvents:
    """The events of the last seconds; each run has a number, and numbers have no gaps."""

    def __init__(self) -> None:
        self.first = 0  #: number of the oldest run that is kept ...
        self.end = 0  #: ... and of the next one that will be
        self.bytes = 0  #: of memory that they take
        self._runs: deque[KeptRun] = deque()
        self._data: bytes = b""  #: of the latest run: bytes that several share are counted once

    def keep(self, run: EventRun, now: Nanos, ends_ms: int = 0, common: int = 1) -> None:
        """Keep a run of events; nobody gets it after ``ends_ms``, unix time, unless that is 0."""
        head, data, bounds = run.head, run.data, run.bounds
        size = ENTRY_BYTES + len(head.topic)
        if data is not self._data:
            self._data = data
            size += len(data)
        count = len(bounds) - 1
        where = data, bounds[0], bounds[-1]
        self._add(KeptRun(now, size, head.topic, head.secure, count, *where, ends_ms, common))

    def since(self, number: int, most: int) -> Iterator[KeptRun]:
        """Yield the runs from that number on, up to ``most``; nothing may be added meanwhile."""
        start = max(0, number - self.first)
        return islice(self._runs, start, start + most)

    def forget(self, now: Nanos) -> None:
        """Drop what is too old, and the oldest of what is too much."""
        runs = self._runs
        while runs and (self.bytes > KEPT_BYTES or runs[0].at <= now - KEPT_NS):
            self.bytes -= runs.popleft().size
            self.first += 1
        if not runs:
            self._data = b""

    def _add(self, run: KeptRun) -> None:
        self._runs.append(run)
        self.end += 1
        self.bytes += run.size
        if self.bytes > KEPT_BYTES or self._runs[0].at <= run.at - KEPT_NS:
            self.forget(run.at)
