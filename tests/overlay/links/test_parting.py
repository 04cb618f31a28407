"""Links given up in peace while their other end is dead, cut off, or merely slow."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.memory_streams import _Inbox
from overlay.ids import LinkClass, nanos
from overlay.links.stillness import STILL_SECONDS
from overlay.machine import Closed, CloseLink
from overlay.wire.frames import EVENT, frame
from tests.helpers.stations import Overlay, Station

UNHEARD = nanos(1000)  #: of latency


def publish(station: Station, other: Station, start: int, end: int) -> list[bytes]:
    connection = station.driver.links[other.peer.uid, LinkClass.NORMAL].connection
    frames = [frame(EVENT, number.to_bytes(4, "big")) for number in range(start, end)]
    for each in frames:
        connection.send(each, 1)
    return frames


def given_away(station: Station) -> list[bytes]:
    return [bytes(item) for item, _ in station.orphans]


async def test_events_on_a_link_that_stands_still_go_another_way_soon(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    publish(a, b, 0, 10)
    await trio.sleep(1)
    assert len(b.frames) == 10
    overlay.latency = lambda: UNHEARD
    sent = publish(a, b, 10, 30)
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await trio.sleep(0.9 * STILL_SECONDS)
    assert given_away(a) == [], "the other end may be slow"
    await trio.sleep(0.6 * STILL_SECONDS)
    assert b"".join(given_away(a)) == b"".join(sent)
    await trio.sleep(30)
    assert b"".join(given_away(a)) == b"".join(sent), "once"
    assert a.cut == []


async def test_so_do_those_that_the_other_end_does_not_take_after_its_good_bye(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    overlay.rate = 1.0
    sent = publish(a, b, 0, 20)
    await trio.sleep(0.1)
    overlay.rate = math.inf
    b.do(CloseLink(a.peer.uid, Closed.UNWANTED))
    await trio.sleep(0.9 * STILL_SECONDS)
    assert given_away(a) == [], "the other end may be slow"
    await trio.sleep(0.6 * STILL_SECONDS)
    assert b"".join(given_away(a)) == b"".join(sent)


async def test_where_it_drains_in_time_nothing_is_sent_twice(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    publish(a, b, 0, 1000)
    overlay.latency = lambda: nanos(0.4 * STILL_SECONDS)
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await a.driver.drained()
    await b.driver.drained()
    assert len(b.frames) == 1000
    assert given_away(a) == given_away(b) == []


async def test_one_that_drains_slowly_has_its_time(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    overlay.rate = 100_000.0 / STILL_SECONDS
    b.busy = trio.Event()  # it says nothing of what it takes
    connection = a.driver.links[b.peer.uid, LinkClass.NORMAL].connection
    for number in range(8):
        connection.send(frame(EVENT, bytes([number]) * 60_000), 1)  # a write each
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await trio.sleep(2.5 * STILL_SECONDS)
    assert len(b.frames) < 8
    assert given_away(a) == []
    overlay.rate = math.inf
    b.busy.set()
    await a.driver.drained()
    assert len(b.frames) == 8


async def test_so_has_one_whose_other_end_takes_and_acknowledges_slowly(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    connection = a.driver.links[b.peer.uid, LinkClass.NORMAL].connection
    b.pause = 0.3 * STILL_SECONDS
    for number in range(10):
        connection.send(frame(EVENT, bytes([number]) * 60_000), 1)
    await trio.sleep(0.01)
    assert connection.queued_bytes == 0, "all is under way"
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await trio.sleep(2.5 * STILL_SECONDS)
    assert len(b.frames) < 10
    assert given_away(a) == []
    b.pause = 0
    await a.driver.drained()
    assert len(b.frames) == 10


async def test_what_is_under_way_to_the_end_that_gives_the_link_up_is_not_sent_twice(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    publish(a, b, 0, 1000)
    b.do(CloseLink(a.peer.uid, Closed.UNWANTED))
    await a.driver.drained()
    await b.driver.drained()
    assert len(b.frames) == 1000
    assert given_away(a) == given_away(b) == []


async def test_nor_is_what_is_under_way_both_ways_when_both_ends_give_it_up(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    publish(a, b, 0, 1000)
    publish(b, a, 0, 1000)
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    b.do(CloseLink(a.peer.uid, Closed.UNWANTED))
    await a.driver.drained()
    await b.driver.drained()
    assert len(a.frames) == len(b.frames) == 1000
    assert given_away(a) == given_away(b) == []


async def test_a_link_given_up_ends_as_soon_as_all_is_said(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    publish(a, b, 0, 10)
    began = trio.current_time()
    b.do(CloseLink(a.peer.uid, Closed.UNWANTED))
    await a.driver.drained()
    await b.driver.drained()
    assert trio.current_time() - began < 0.3, "two round trips at most"


async def test_one_whose_other_end_dies_while_both_part_ends_as_soon_as_it_stands_still(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    sent = publish(b, a, 0, 10)
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    await trio.sleep(0.0015)
    overlay.latency = lambda: UNHEARD  # b has read the good-bye, and waits for a's word
    began = trio.current_time()
    await b.driver.drained()
    assert trio.current_time() - began < 1.5 * STILL_SECONDS
    assert b"".join(given_away(b)) == b"".join(sent)


async def test_what_is_acknowledged_right_behind_a_good_bye_is_not_sent_twice(
    overlay: Overlay, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Inbox, "get", all_that_is_due)
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    publish(b, a, 0, 1)
    await trio.sleep(0.5)
    publish(b, a, 1, 1000)
    publish(a, b, 0, 1)
    await trio.sleep(0.051)
    b.pause = 0.3  # so that it reads good-bye and acknowledgement at once
    publish(a, b, 1, 2)
    await trio.sleep(0.06)
    publish(b, a, 1000, 1500)
    a.do(CloseLink(b.peer.uid, Closed.UNWANTED))
    b.do(CloseLink(a.peer.uid, Closed.UNWANTED))
    await a.driver.drained()
    await b.driver.drained()
    assert len(a.frames) == 1500
    assert given_away(b) == []


async def all_that_is_due(self: _Inbox) -> bytes:
    """Return what has come together, as a socket does; else it is a write each."""
    while True:
        while not self._due:
            self._filled = trio.Event()
            await self._filled.wait()
        entry = at, data = self._due[0]
        await trio.sleep_until(at)
        if self._due[0] is not entry:
            continue
        if data:
            self._due.popleft()
            while self._due and self._due[0][1] and self._due[0][0] <= trio.current_time():
                data += self._due.popleft()[1]
        return data
