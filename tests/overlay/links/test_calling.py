"""Calls that break before they are answered: made again, unless nobody is there or needs them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from benchmarks.stage.memory_streams import MemoryStream
from overlay.errors import ConnectionFailed
from overlay.machine import LinkDown, LinkRefused, LinkUp, OpenLink, Refused
from tests.helpers.stations import Overlay

Calls = list[MemoryStream]


@pytest.fixture
def calls(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Calls]:
    """Have so many of the next connections cut as soon as they are made; returns all made."""
    connect = overlay.network.connect

    def cut(first: int) -> Calls:
        made: Calls = []

        async def connect_and_cut(caller: str, url: str) -> trio.abc.Stream:
            stream = await connect(caller, url)
            assert isinstance(stream, MemoryStream)
            made.append(stream)
            if len(made) <= first:
                stream.cut()
            return stream

        monkeypatch.setattr(overlay.network, "connect", connect_and_cut)
        return made

    return cut


@pytest.mark.parametrize("cut", [1, 2])
async def test_a_call_that_is_cut_before_the_answer_is_made_again(
    overlay: Overlay, autojump_clock: MockClock, calls: Callable[[int], Calls], cut: int
) -> None:
    a, b = await overlay.station("a"), await overlay.station("b")
    made = calls(cut)
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(0.5)
    assert len(made) == cut + 1
    assert (a.linked, b.linked) == (["b"], ["a"])
    assert (a.took(LinkRefused), b.took(LinkDown)) == ([], [])


async def test_a_call_that_is_always_cut_comes_to_nothing_soon(
    overlay: Overlay, autojump_clock: MockClock, calls: Callable[[int], Calls]
) -> None:
    a, b = await overlay.station("a"), await overlay.station("b")
    made = calls(10)
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(0.1)
    assert [refused.reason for refused in a.took(LinkRefused)] == [Refused.UNREACHABLE]
    await trio.sleep(5)
    assert len(made) == 3


async def test_a_connection_that_is_refused_is_not_tried_again(
    overlay: Overlay, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is gone is to be known for that at once."""
    a = await overlay.station("a")
    tried: list[str] = []

    async def refuse(caller: str, url: str) -> trio.abc.Stream:
        tried.append(url)
        raise ConnectionFailed(url, "connection refused")

    monkeypatch.setattr(overlay.network, "connect", refuse)
    a.do(OpenLink("chordal://nobody.test:1", "c" * 32))
    await trio.sleep(5)
    assert [refused.reason for refused in a.took(LinkRefused)] == [Refused.UNREACHABLE]
    assert len(tried) == 1


async def test_a_call_that_fails_when_the_other_end_has_called_says_nothing_of_it(
    overlay: Overlay, autojump_clock: MockClock, calls: Callable[[int], Calls]
) -> None:
    a, b = await overlay.station("a"), await overlay.station("b")
    made = calls(0)
    overlay.latency = lambda: 50_000_000
    b.do(OpenLink(a.peer.url, a.peer.uid))
    await trio.sleep(0.11)
    made[0].swallow()
    a.do(OpenLink(b.peer.url, b.peer.uid))
    await trio.sleep(0.5)
    made[0].cut()
    await trio.sleep(5)
    assert [refused.reason for refused in b.took(LinkRefused)] == [Refused.DUPLICATE]
    assert len(made) == 2, "nor is it made again"
    assert [len(station.took(LinkUp)) for station in (a, b)] == [1, 1]
    assert (a.linked, b.linked) == (["b"], ["a"])
