"""Runs of events: many from one publisher to one topic, with sequences without a gap.

Events mostly come so, and all of a run is decided, patched and passed on at once. To find a run
takes a few comparisons of bytes for each event, which is less than to read its header.

Events that come over a connection, from a client or from a broker, are read here
(:func:`event_runs`), and all of them: header, attributes, names of clients, queue groups. So a
holder of a run, now or after a while, may rely on that nothing in it is malformed.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

import msgspec

from ges.wire.attributes import read_attributes
from ges.wire.event_flags import (
    ALONE_FLAGS,
    CLIENT_FLAGS,
    EXPIRES_FLAG,
    GROUPS_FLAG,
    LEVELS_FLAG,
    MARK_FLAG,
    NAMED_FLAG,
    REQUEST_FLAG,
    RETAIN_FLAG,
    STORED_FLAG,
    WAY_FLAGS,
    extension_at,
)
from ges.wire.events import (
    FLAGS_AT,
    FRONT,
    HEADER,
    MAX_PAYLOAD_BYTES,
    NO_DUTY,
    SHAPE_AT,
    STAMP,
    Duty,
    Head,
    pack_front,
    read_head,
)
from ges.wire.groups import Serving, read_serving
from ges.wire.levels import NO_UPPER, UPPER_BYTES
from ges.wire.names import pack_names, read_names
from overlay.errors import CodecError
from overlay.ids import MAX_SEQUENCE
from overlay.wire.frames import EVENT, frame
from overlay.wire.frames import HEADER as FRAME_HEADER

FEW = 8  #: events: fewer are patched one by one
RUN_BYTES = 64 * 1024  #: of a run, unless it is a single event


class EventRun(msgspec.Struct, frozen=True, gc=False):
    """Events alike: from one publisher to one topic, the same way so far, sequences without gap."""

    head: Head  #: of the first
    data: bytes
    bounds: list[int]  #: frame ``i`` is ``data[bounds[i]:bounds[i + 1]]``
    count: int  #: how many events there are

    @classmethod
    def of(cls, head: Head, body: bytes) -> EventRun:
        """Return a run of one."""
        data = frame(EVENT, body)
        return cls(head, data, [0, len(data)], 1)

    @property
    def frames(self) -> memoryview:
        """The frames in one piece."""
        return memoryview(self.data)[self.bounds[0] : self.bounds[-1]]

    def bodies(self) -> Iterator[bytes]:
        """Yield the body of each."""
        for start, end in pairwise(self.bounds):
            yield self.data[start + FRAME_HEADER.size : end]

    def singles(self) -> Iterator[tuple[Head, bytes]]:
        """Yield the head and the body of each."""
        for start, end in pairwise(self.bounds):
            body = self.data[start + FRAME_HEADER.size : end]
            yield read_head(body), body

    @property
    def largest_payload(self) -> int:
        """Bytes of the largest payload in it; all that is before the payloads is of one size."""
        before = FRAME_HEADER.size + self.payload_at
        return max(end - start for start, end in pairwise(self.bounds)) - before

    def attributes(self) -> Iterator[bytes]:
        """Yield the attributes of each, packed."""
        shift = FRAME_HEADER.size + self.head.topic_at + len(self.head.topic)
        size = self.head.attribute_bytes
        for bound in self.bounds[:-1]:
            yield self.data[bound + shift : bound + shift + size]

    def alone(self) -> EventRun:
        """Return the run without what else came with it, which would be kept as long."""
        first, end = self.bounds[0], self.bounds[-1]
        bounds = [bound - first for bound in self.bounds]
        return EventRun(self.head, self.data[first:end], bounds, self.count)

    def part(self, first: int, end: int) -> EventRun:
        """Return the events from number ``first`` of the run to before number ``end``."""
        bounds = self.bounds[first : end + 1]
        head = read_head(self.data, bounds[0] + FRAME_HEADER.size, bounds[1])
        return EventRun(head, self.data, bounds, end - first)

    def split(self) -> Iterator[EventRun]:
        """Yield each event as a run of one."""
        if self.count == 1:
            yield self
        else:
            yield from (self.part(at, at + 1) for at in range(self.count))

    def under(self, via: int, source: int) -> EventRun:
        """Return the run as it sets out from the broker where it was published."""
        head = msgspec.structs.replace(self.head, via=via, source=source)
        return EventRun(head, self.data, self.bounds, self.count)

    def serving(self) -> Serving | None:
        """Return which broker serves which queue group; None: the events do not say."""
        if not self.head.flags & GROUPS_FLAG:
            return None
        start = self.bounds[0] + FRAME_HEADER.size + self.payload_at
        return read_serving(self.data, start, self.bounds[1] - self.upper_bytes)[0]

    def grouped(self, serving: Serving) -> EventRun:
        """Return the run with that said of all its events, which say nothing of it yet."""
        more, flags = serving.pack(), self.head.flags | GROUPS_FLAG
        return self._rewritten(flags, lambda body: body + more)

    def ungrouped(self) -> EventRun:
        """Return the run without what it says of queue groups, as clients get it."""
        if not self.head.flags & GROUPS_FLAG:
            return self
        assert not self.head.flags & LEVELS_FLAG, "that stands behind the groups"
        at = self.payload_at
        return self._rewritten(
            self.head.flags & ~GROUPS_FLAG,
            lambda body: body[: read_serving(body, at, len(body))[1]],
        )

    def names(self) -> tuple[str, ...]:
        """Return the names of the clients that an event is for; it is a single one."""
        if not self.head.is_named:
            return ()
        start = self.bounds[0] + FRAME_HEADER.size + self.payload_at
        return read_names(self.data, start, self.bounds[1])[0]

    def named(self, names: Iterable[str]) -> EventRun:
        """Return an event for named clients with other names; without any, as clients get it."""
        packed, at = pack_names(names), self.payload_at
        flags = self.head.flags & ~NAMED_FLAG | (NAMED_FLAG if packed else 0)
        return self._rewritten(
            flags,
            lambda body: body[:at] + packed + body[read_names(body, at, len(body))[1] :],
        )

    def levelled(self) -> EventRun:
        """Return the run with room behind each event for destinations above the cluster."""
        if self.head.flags & LEVELS_FLAG:
            return self
        return self._rewritten(self.head.flags | LEVELS_FLAG, lambda body: body + NO_UPPER)

    def flat(self) -> EventRun:
        """Return the run without destinations above the cluster."""
        if not self.head.flags & LEVELS_FLAG:
            return self
        at = SHAPE_AT
        run = self._rewritten(
            self.head.flags & ~LEVELS_FLAG,
            lambda body: body[:at] + b"\x01" + body[at + 1 : -UPPER_BYTES],
        )
        duty = run.head.duty
        return msgspec.structs.replace(
            run,
            head=msgspec.structs.replace(
                run.head, duty=Duty(1, 0, duty.destinations, duty.trace, millis=duty.millis)
            ),
        )

    @property
    def payload_at(self) -> int:
        """Where payloads begin in the bodies, or what stands before them."""
        return self.head.topic_at + len(self.head.topic) + self.head.attribute_bytes

    @property
    def upper_bytes(self) -> int:
        """Bytes behind all else in a body, about destinations above the cluster."""
        return UPPER_BYTES if self.head.flags & LEVELS_FLAG else 0

    def _rewritten(self, flags: int, change: Callable[[bytes], bytes]) -> EventRun:
        front = flags.to_bytes(FLAGS_AT + 1, "big")
        frames = [frame(EVENT, front + change(body)[len(front) :]) for body in self.bodies()]
        bounds = [0, *accumulate(map(len, frames))]
        head = msgspec.structs.replace(self.head, flags=flags)
        return EventRun(head, b"".join(frames), bounds, self.count)

    def unpatched(self) -> EventRun:
        """Return the run as a client should have sent it: with flags alone in front."""
        first = self.bounds[0]
        flags = self.head.flags & CLIENT_FLAGS
        data = bytes(self.patched(pack_front(flags, 0, 0, 0, NO_DUTY)))
        head = msgspec.structs.replace(
            self.head, flags=flags, hops=0, via=0, source=0, duty=NO_DUTY
        )
        return EventRun(head, data, [bound - first for bound in self.bounds], self.count)

    def timed(self, stamp: int, ends_ms: int) -> EventRun:
        """Return a single event with its stamp and its end, as far as it has them."""
        head = self.head
        body = bytearray(next(self.bodies()))
        for flag, value in ((EXPIRES_FLAG, ends_ms), (RETAIN_FLAG, stamp)):
            if head.flags & flag:
                STAMP.pack_into(body, HEADER.size + extension_at(flag, head.flags), value)
        return EventRun.of(msgspec.structs.replace(head, stamp=stamp, ends_ms=ends_ms), bytes(body))

    def as_stored(self) -> bytes:
        """Return the frame of a single event that is retained, as a value and not as news.

        It says where it was published.
        """
        flags = self.head.flags & ~(WAY_FLAGS | MARK_FLAG | REQUEST_FLAG) | STORED_FLAG
        return bytes(self.patched(pack_front(flags, 0, 0, self.head.source, NO_DUTY)))

    def patched(self, front: bytes, end: bytes = b"") -> bytearray:
        """Return all frames with another front (:func:`ges.wire.events.pack_front`).

        ``end``: what is to stand behind each of a :meth:`levelled` run.
        """
        frames = self._fronted(front)
        if end:
            first = self.bounds[0]
            for bound in self.bounds[1:]:
                frames[bound - first - len(end) : bound - first] = end
        return frames

    def _fronted(self, front: bytes) -> bytearray:
        bounds = self.bounds
        first, size = bounds[0], bounds[1] - bounds[0]
        frames = bytearray(memoryview(self.data)[first : bounds[-1]])
        if len(bounds) > FEW and bounds == list(range(first, bounds[-1] + 1, size)):
            # All have one size and one front: a byte of all of them is patched at once.
            at = FRAME_HEADER.size
            for byte, before in zip(front, frames[at : at + FRONT.size], strict=True):
                if byte != before:
                    frames[at::size] = bytes((byte,)) * self.count
                at += 1
            return frames
        shift = FRAME_HEADER.size - first
        for bound in bounds[:-1]:
            at = bound + shift
            frames[at : at + FRONT.size] = front
        return frames


def event_runs(
    data: bytes, bounds: list[int], *, with_attributes: bool = True
) -> Iterator[EventRun]:
    """Yield the runs of the event frames between ``bounds``; all that they say is read and checked.

    ``with_attributes``: what is wrong with attributes is an error; else the caller looks at
    :func:`attribute_problem`.

    Raises:
        CodecError: a frame is malformed, in whatever part of it; after the runs before it.
    """
    for run in _cut(data, bounds):
        if with_attributes and (problem := attribute_problem(run)) is not None:
            raise CodecError(problem)
        _check_readers(run)
        yield run


def attribute_problem(run: EventRun) -> str | None:
    """Return what is wrong with the attributes of events that have come; mostly there are none."""
    if run.head.attribute_bytes:
        try:
            for packed in set(run.attributes()):  # mostly those of a run are alike
                read_attributes(packed)
        except CodecError as error:
            return str(error)
    return None


def _check_readers(run: EventRun) -> None:
    """Read for whom of all subscribers an event is that is for named ones, or for groups.

    Raises:
        CodecError: it makes no sense.
    """
    if not run.head.flags & (NAMED_FLAG | GROUPS_FLAG):
        return
    head, data, end = run.head, run.data, run.bounds[1]
    at = run.bounds[0] + FRAME_HEADER.size + run.payload_at
    if head.is_named:
        at = read_names(data, at, end)[1]
    if head.flags & GROUPS_FLAG:
        if head.flags & STORED_FLAG:
            raise CodecError("event frame with a retained value that is for groups")
        end = read_serving(data, at, end - run.upper_bytes)[1]
    if end - at > MAX_PAYLOAD_BYTES:
        raise CodecError(f"event frame with a payload of {end - at} bytes")


def _cut(data: bytes, bounds: list[int]) -> Iterator[EventRun]:
    size_before = FRAME_HEADER.size + HEADER.size
    index, count = 0, len(bounds) - 1
    while index < count:
        start = bounds[index]
        head = read_head(data, start + FRAME_HEADER.size, bounds[index + 1])
        first = index
        index += 1
        # These are few, and each has a budget, an id or names of its own.
        if head.flags & ALONE_FLAGS or head.words:
            yield EventRun(head, data, bounds[first : index + 1], 1)
            continue
        most = bisect_right(bounds, start + RUN_BYTES, index) - 1
        most = min(most, first + 1 + MAX_SEQUENCE - head.sequence)
        if index < most:
            unpack = _layout(len(head.topic)).unpack_from
            common, sequence, topic = unpack(data, start)
            smallest = size_before + len(head.topic) + head.attribute_bytes
            largest = smallest + MAX_PAYLOAD_BYTES
            while index < most:
                at = bounds[index]
                sequence += 1
                if not smallest <= bounds[index + 1] - at <= largest:
                    break
                if unpack(data, at) != (common, sequence, topic):
                    break
                index += 1
        yield EventRun(head, data, bounds[first : index + 1], index - first)


@lru_cache(maxsize=1024)
def _layout(topic_bytes: int) -> struct.Struct:
    """Return how a frame is read here: version to incarnation | sequence | max hops to topic.

    All of a run have the first and the last in common.
    """
    return struct.Struct(f"!4x66sQ8x{8 + topic_bytes}s")
