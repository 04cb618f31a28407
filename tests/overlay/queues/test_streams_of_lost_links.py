"""What the driver keeps for links that broke, of several at once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.memory_streams import MemoryStream
from overlay.ids import LinkClass, nanos
from overlay.machine import Closed, CloseLink, LinkDown, OpenLink
from overlay.queues import resend
from overlay.wire.frames import EVENT, frame
from tests.helpers.stations import Overlay, Station


def break_with(station: Station, other: Station, sizes: list[int]) -> None:
    """Let a link break before what was to be sent over it has left."""
    link = station.driver.links[other.peer.uid, LinkClass.NORMAL]
    for size in sizes:
        link.connection.send(frame(EVENT, bytes(size)), 1)
    assert isinstance(link.connection.stream, MemoryStream)
    link.connection.stream.cut()


async def test_of_several_lost_links_the_one_with_most_is_not_waited_for(
    overlay: Overlay, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend, "KEPT_BYTES_TOTAL", 100_000)
    a, b = await overlay.linked()
    c = await overlay.station("c")
    a.do(OpenLink(c.peer.url, c.peer.uid))
    await trio.sleep(0.1)
    break_with(a, b, [20_000] * 2)
    break_with(a, c, [20_000] * 4)
    await trio.sleep(0.1)
    assert a.linked == []
    assert [len(item) > 20_000 for item, _ in a.orphans] == [True] * 4
    assert a.driver.counters["events_kept_given_up"] == 4
    for other in (b, c):
        a.do(OpenLink(other.peer.url, other.peer.uid))
    await trio.sleep(1)
    assert (len(b.frames), len(c.frames)) == (2, 0)


async def test_what_is_under_way_to_an_end_that_holds_the_link_for_lost_waits_for_the_next_one(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """As a secure link is held for, where the normal one beside it broke."""
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    link = a.driver.links[b.peer.uid, LinkClass.NORMAL]
    for number in range(100):
        link.connection.send(frame(EVENT, b"%d" % number), 1)
    b.do(CloseLink(a.peer.uid, Closed.LOST))
    await a.driver.drained()
    await b.driver.drained()
    assert a.orphans == []
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(1)
    assert b.frames == [(EVENT, b"%d" % number) for number in range(100)]


async def test_so_does_what_a_link_does_not_bring_that_is_replaced_by_none_here(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """The call that has won at the other end has led nowhere at this one."""
    a, b = await overlay.linked()
    overlay.latency = lambda: nanos(0.05)
    stream = b.driver.links[a.peer.uid, LinkClass.NORMAL].connection.stream
    assert isinstance(stream, MemoryStream)
    b.do(CloseLink(a.peer.uid, Closed.REPLACED))
    await trio.sleep(0.04)
    link = a.driver.links[b.peer.uid, LinkClass.NORMAL]
    for number in range(100):
        link.connection.send(frame(EVENT, b"%d" % number), 1)
    await trio.sleep(0.02)
    assert a.took(LinkDown) == [LinkDown(b.peer.uid, Closed.REPLACED)]
    stream.cut()
    await a.driver.drained()
    assert (a.orphans, a.cut, b.frames) == ([], ["b"], [])
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(1)
    assert b.frames == [(EVENT, b"%d" % number) for number in range(100)]


@pytest.mark.parametrize(("seconds", "again"), [(0.15, 1), (0.25, 0)])
async def test_what_has_come_is_acknowledged_within_a_fifth_of_a_second(
    overlay: Overlay, autojump_clock: MockClock, seconds: float, again: int
) -> None:
    """One event fills no window; if the link breaks later than that, it is not sent again."""
    a, b = await overlay.linked()
    link = a.driver.links[b.peer.uid, LinkClass.NORMAL]
    link.connection.send(frame(EVENT, b"1"), 1)
    await trio.sleep(seconds)
    break_with(a, b, [])
    await trio.sleep(0.1)
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(1)
    assert b.frames == [(EVENT, b"1")]
    assert a.driver.counters["events_sent_again"] == again
