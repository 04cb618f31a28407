"""What is kept of the events that have passed: in order, by the run, bounded in bytes and time."""

from __future__ import annotations

import pytest

from ges.delivery import kept
from ges.delivery.kept import ENTRY_BYTES, KEPT_NS, KeptEvents
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import pack_event, read_head
from overlay.ids import LinkClass, Nanos
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame

WHO = bytes(range(16))


def body(sequence: int, payload: bytes = b"", *, secure: bool = False) -> bytes:
    return pack_event(secure, WHO, 7, sequence, 1, b"t", b"", payload)


def one(sequence: int, payload: bytes = b"") -> EventRun:
    event = body(sequence, payload)
    return EventRun.of(read_head(event), event)


def run_of(first: int, count: int) -> EventRun:
    """Return a run in the middle of what was read with it."""
    data = b"".join(frame(EVENT, body(first + i)) for i in range(-1, count + 1))
    bounds = [i * len(frame(EVENT, body(1))) for i in range(count + 3)]
    (found,) = event_runs(data, bounds[1:-1])
    return found


def sequences(data: bytes) -> list[int]:
    reader = FrameReader()
    reader.feed(data)
    (run,) = reader.runs()
    (events,) = event_runs(run.data, run.bounds)
    return [head.sequence for head, _ in events.singles()]


def test_events_are_kept_in_order_as_they_were() -> None:
    events = KeptEvents()
    events.keep(run_of(5, 3), Nanos(1))
    events.keep(one(8, b"hello"), Nanos(2))
    first, second = events.since(0, 9)
    assert (first.first, first.count) == (((WHO, 7, LinkClass.NORMAL), 5), 3)
    assert (second.first, second.count) == (((WHO, 7, LinkClass.NORMAL), 8), 1)
    assert sequences(first.frames()) == [5, 6, 7]
    assert sequences(first.frames(skip=2)) == [7]
    assert second.frames() == frame(EVENT, body(8, b"hello"))
    assert list(events.since(1, 9)) == [second]
    assert list(events.since(0, 1)) == [first]
    assert list(events.since(2, 9)) == []


def test_bytes_that_runs_share_count_once() -> None:
    events = KeptEvents()
    data = b"".join(frame(EVENT, body(i)) for i in (1, 2, 4, 5))
    size = len(data) // 4
    for each in event_runs(data, [i * size for i in range(5)]):
        events.keep(each, Nanos(1))
    assert events.end == 2
    assert events.bytes == len(data) + 2 * (ENTRY_BYTES + len(b"t"))


def test_what_is_too_old_is_forgotten() -> None:
    events = KeptEvents()
    events.keep(one(1), Nanos(0))
    events.keep(one(2), Nanos(5))
    events.keep(one(3), Nanos(KEPT_NS))
    assert (events.first, events.end) == (1, 3)
    events.forget(Nanos(2 * KEPT_NS))
    assert (events.first, events.end, events.bytes) == (3, 3, 0)


def test_the_oldest_of_what_is_too_much_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_BYTES", 10_000)
    events = KeptEvents()
    for number in range(1, 100):
        events.keep(one(number, bytes(1000)), Nanos(number))
        assert events.bytes <= 10_000
    assert [run.first[1] for run in events.since(events.first, 99)] == list(
        range(events.first + 1, 100)
    )
    assert events.end - events.first == 7
