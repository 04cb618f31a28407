"""What comes behind a client's greeting counts, however it is cut, and though the client closes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach, running
from benchmarks.stage.greetings import SECRET, client_hello
from benchmarks.stage.virtual import Weather
from ges.client import connect
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, Accepted, KeepAlive, Subscribe, Subscribed
from overlay.address import parse_url
from overlay.wire.frames import EVENT, frame
from overlay.wire.greetings import GREETINGS
from tests.ges.sessions.test_clients import Raw, event

DEADLINE_SECONDS = 20
COUNT = 3


def said_by(secret: bytes) -> bytes:
    """Return all that a client says, its greeting first."""
    hello = client_hello(secret)
    fields = {"publisher": bytes.fromhex(hello.uid)}
    events = (event(each, payload=b"%d" % each, **fields) for each in range(1, COUNT + 1))
    return b"".join(
        (
            GREETINGS.encode(hello),
            CLIENT_CODEC.encode(Subscribe(1, Ask("other"))),
            *(frame(EVENT, each) for each in events),
            CLIENT_CODEC.encode(KeepAlive(7, answer=False)),
        )
    )


SAID = said_by(SECRET)
EXPECTED = [b"%d" % number for number in range(1, COUNT + 1)]


def cut(said: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the pieces between these places."""
    places = sorted({0, len(said), *(at for at in cuts if at < len(said))})
    return [said[start:end] for start, end in pairwise(places)]


async def play(cuts: Sequence[int], *, stays: bool) -> tuple[list[bytes], list[object]]:
    """Return what a subscriber has got, and what the client was told, if it has stayed for it."""
    got: list[bytes] = []
    told: list[object] = []
    weather = Weather()
    async with running(weather.transport) as brokers:
        broker = await brokers.start()
        async with attach(broker) as watcher, watcher.subscribe("a") as events:
            stream = await weather.network.connect("chordal://127.0.0.1:1", broker.url)
            for piece in cut(SAID, cuts):
                await stream.send_all(piece)
            client = Raw(stream)
            while stays and not _is_all(told):
                told.append(await client.hear())
            await stream.aclose()
            with trio.move_on_after(1):
                while True:
                    got.append((await anext(events)).payload)
    return got, told


def _is_all(told: list[object]) -> bool:
    accepted = max((each.sequence for each in told if isinstance(each, Accepted)), default=0)
    return Subscribed(1) in told and KeepAlive(7, answer=True) in told and accepted == COUNT


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "goes"])
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, len(SAID))))
@example(cuts=[])
@example(cuts=range(len(SAID)))
def test_all_behind_the_greeting_counts(stays: bool, cuts: Sequence[int]) -> None:
    async def run() -> tuple[list[bytes], list[object]]:
        return await play(cuts, stays=stays)

    got, _ = trio.run(run, clock=MockClock(autojump_threshold=0))
    assert got == EXPECTED


@pytest.mark.parametrize("is_whole", [True, False], ids=["one segment", "byte by byte"])
async def test_over_tcp_what_was_said_before_a_close_counts(
    brokers: Brokers, is_whole: bool
) -> None:
    """The client has not read what it was told, so that closing resets the connection."""
    broker = await brokers.start()
    address = parse_url(broker.url)
    got: list[bytes] = []
    async with connect(broker.url) as watcher, watcher.subscribe("a") as events:
        await events.active.wait()
        for number in range(10):
            said = said_by(bytes([number]) * 32)
            stream = await trio.open_tcp_stream(address.host, address.port)
            for piece in cut(said, [] if is_whole else range(len(said))):
                await stream.send_all(piece)
            await stream.aclose()
        with trio.fail_after(DEADLINE_SECONDS):
            while len(got) < 10 * COUNT:
                got.append((await anext(events)).payload)
    assert sorted(got) == sorted(EXPECTED * 10)
