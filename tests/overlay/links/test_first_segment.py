"""What comes behind a broker's greeting counts, however the bytes are cut, and though it closes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from overlay.ids import LinkClass
from overlay.machine import MessageReceived, OpenLink
from overlay.wire.frames import EVENT, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Welcome
from overlay.wire.versions import DIALECT
from tests.helpers.stations import CODEC, Beat, Overlay, Puppet, Station, hello

BEHIND = b"".join(
    [*(CODEC.encode(Beat(number)) for number in range(3)), frame(EVENT, b"an event"), b""]
)
MOST = 600  #: what is said is shorter
CUTS = {
    "one segment": [],
    "byte by byte": range(MOST),
    **{f"cut by {seed}": random.Random(seed).sample(range(MOST), 9) for seed in range(8)},
}
CUT = pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)


async def say(stream: trio.abc.Stream, said: bytes, cuts: Sequence[int], *, closes: bool) -> None:
    """Say it in pieces."""
    assert len(said) < MOST
    places = sorted({0, len(said), *(at for at in cuts if at < len(said))})
    for start, end in pairwise(places):
        await stream.send_all(said[start:end])
    if closes:
        await stream.aclose()


def came(station: Station) -> tuple[list[int], list[bytes]]:
    """Return the numbers of the messages, and the events, that have come."""
    messages = [each.message for each in station.took(MessageReceived)]
    beats = [each.number for each in messages if isinstance(each, Beat)]
    return beats, [body for _, body in station.frames]


@CUT
@pytest.mark.parametrize("closes", [False, True])
async def test_behind_the_greeting_of_who_calls(
    overlay: Overlay, autojump_clock: MockClock, cuts: Sequence[int], closes: bool
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    await say(stream, GREETINGS.encode(hello()) + BEHIND, cuts, closes=closes)
    await trio.sleep(1)
    assert came(a) == ([0, 1, 2], [b"an event"])


@CUT
@pytest.mark.parametrize("closes", [False, True])
async def test_behind_the_answer_of_who_is_called(
    overlay: Overlay, autojump_clock: MockClock, cuts: Sequence[int], closes: bool
) -> None:
    a, called = await overlay.station("a"), Puppet("b").peer
    welcome = Welcome(called, 1, PROTOCOL_VERSION, DIALECT.names, "b")

    async def answer(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await say(stream, GREETINGS.encode(welcome) + BEHIND, cuts, closes=closes)
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, called.url, answer)
        a.do(OpenLink(called.url, called.uid, LinkClass.NORMAL))
        await trio.sleep(1)
        assert came(a) == ([0, 1, 2], [b"an event"])
        nursery.cancel_scope.cancel()
