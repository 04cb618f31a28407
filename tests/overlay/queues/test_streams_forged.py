"""A peer that lies about streams: what it has, where it begins; it harms its own link alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from overlay.ids import LinkClass
from overlay.machine import Closed, LinkDown, Message
from overlay.queues.resend import Ack, Resume
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, EVENT, frame
from overlay.wire.greetings import GREETINGS, Welcome
from overlay.wire.versions import DIALECT
from tests.helpers.stations import CODEC, Overlay, Station, hello

HIGHEST = 2**63 - 1


class Liar:
    """The other end of a link to a station, played by the test."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.reader = FrameReader()
        self.events: list[bytes] = []  #: that have come

    async def say(self, *messages: Message, events: int = 0) -> None:
        words = b"".join(CODEC.encode(message) for message in messages)
        await self.stream.send_all(words + frame(EVENT, b"event") * events)
        await trio.sleep(0.5)

    async def hear(self) -> list[Message]:
        """Return the messages that have come; events are noted."""
        found = []
        with trio.move_on_after(0.5):
            while True:
                for kind, body in self.reader.frames():
                    if kind == CONTROL:
                        found.append(CODEC.decode(body))
                    else:
                        self.events.append(body)
                self.reader.feed(await self.stream.receive_some())
        return found


@asynccontextmanager
async def liar(overlay: Overlay, to: Station, serial: int = 1) -> AsyncIterator[tuple[Liar, int]]:
    """Link to a station; also returns the number of the stream that comes from there."""
    async with await overlay.dial(to) as stream:
        made = Liar(stream)
        greeting = hello(capabilities=DIALECT.names, serial=serial)
        await stream.send_all(GREETINGS.encode(greeting))
        welcome = None
        while welcome is None:
            made.reader.feed(await stream.receive_some())
            welcome = made.reader.next_frame()
        assert isinstance(GREETINGS.decode(welcome[1]), Welcome)
        (resume,) = await made.hear()
        assert isinstance(resume, Resume)
        yield made, resume.stream


def publish(a: Station, *events: bytes) -> None:
    link = a.driver.links["c" * 32, LinkClass.NORMAL]
    for event in events:
        link.connection.send(frame(EVENT, event), 1)


@pytest.mark.parametrize(
    "lies",
    [
        lambda number: [Ack(number, 3)],
        lambda number: [Ack(number, HIGHEST)],
        lambda number: [Ack(number, 1), Ack(number, 0), Ack(number, HIGHEST)],
        lambda number: [Resume(1, 1, 0), Resume(1, 1, 0)],
        lambda number: [Resume(1, 1, HIGHEST), Resume(1, 1, 0)],
    ],
    ids=["beyond", "far beyond", "back and beyond", "begun twice", "begun back"],
)
async def test_a_lie_that_shows_ends_that_link_alone(
    overlay: Overlay, autojump_clock: MockClock, lies: Callable[[int], list[Message]]
) -> None:
    a, _ = await overlay.linked()
    async with liar(overlay, a) as (c, number):
        publish(a, b"one", b"two")
        await c.hear()
        await c.say(*lies(number))
    assert a.took(LinkDown) == [LinkDown("c" * 32, Closed.PROTOCOL)]
    assert a.linked == ["b"]
    assert a.driver.counters["protocol_errors"] == 1
    assert a.driver.counters["internal_errors"] == 0


async def test_what_is_acknowledged_stays_so_whatever_is_said_later(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    """Nor does it count what is said of another stream."""
    long = [bytes([number]) * 20_000 for number in range(3)]  # short ones are sent together
    a, _ = await overlay.linked()
    async with liar(overlay, a) as (c, number):
        publish(a, *long)
        await c.hear()
        lies = [Ack(number, 0), Ack(number, 1), Ack(number + 1, HIGHEST), Ack(HIGHEST, 3)]
        await c.say(Ack(number, 2), *lies * 100)
        assert a.took(LinkDown) == []
    async with liar(overlay, a, serial=2) as (c, again):
        assert again == number
        assert c.events == long[2:]


async def test_a_stream_that_begins_at_the_highest_number_harms_nobody(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, b = await overlay.linked()
    async with liar(overlay, a) as (c, _):
        await c.say(Resume(1, 1, HIGHEST), events=3)
    assert len(a.frames) == 3
    b.driver.links["a" * 32, LinkClass.NORMAL].connection.send(frame(EVENT, b"right"), 1)
    await trio.sleep(0.5)
    assert a.frames[3:] == [(EVENT, b"right")]
    assert a.driver.counters["internal_errors"] == 0
    assert a.linked == ["b"]


async def test_who_comes_again_and_again_is_sent_the_same_and_nothing_grows(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, _ = await overlay.linked()
    async with liar(overlay, a):
        publish(a, *(b"%d" % number for number in range(10)))
    for serial in range(2, 30):
        async with liar(overlay, a, serial) as (c, _):
            assert c.events == [b"%d" % number for number in range(10)]
    assert a.driver.streams.waiting_bytes < 10_000
    assert a.driver.counters["events_sent_again"] == 28 * 10
