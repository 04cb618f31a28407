"""What is said over one link: frames, good-byes, acknowledgements, and what ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from overlay.errors import ProtocolError
from overlay.ids import LinkClass
from overlay.links import lifecycle
from overlay.machine import Closed, LinkDown, Message, MessageReceived, Send
from overlay.queues.resend import Ack, Resume
from overlay.wire.frames import EVENT, frame
from overlay.wire.greetings import GREETINGS, Goodbye, Hello, Welcome
from overlay.wire.versions import DIALECT
from tests.helpers.stations import CODEC, NORMAL, Beat, Knock, Overlay, Station, answer, hello


@asynccontextmanager
async def caller(
    overlay: Overlay, a: Station, greeting: Hello | None = None
) -> AsyncIterator[trio.abc.Stream]:
    """A broker played by the test, linked to ``a``."""
    stream = await overlay.dial(a)
    await stream.send_all(GREETINGS.encode(greeting or hello()))
    assert isinstance(await answer(stream), Welcome)
    assert "c" in a.linked
    async with stream:
        yield stream


# Good-byes


async def test_a_last_word_is_heard_by_one_that_writes_after_it(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    b = await overlay.dial(a)
    await b.send_all(GREETINGS.encode(hello()))
    assert isinstance(await answer(b), Welcome)
    a.busy = trio.Event()  # as if it stood still
    await b.send_all(CODEC.encode(Beat(1)))
    await trio.sleep(0.1)
    await b.send_all(CODEC.encode(Goodbye(Closed.DECLARED_DEAD)))
    await b.aclose()
    for number in range(3):
        a.do(Send("c" * 32, Beat(number)))
        await trio.sleep(0.1)
    a.busy.set()
    await trio.sleep(0.1)
    assert [down.reason for down in a.took(LinkDown)] == [Closed.DECLARED_DEAD]
    await a.driver.drained()


async def test_behind_a_good_bye_only_acknowledgements_count(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    async with caller(overlay, a, hello(capabilities=DIALECT.names)) as stream:
        link = a.driver.links["c" * 32, NORMAL]
        link.connection.send(frame(EVENT, b"event"), 1)
        await trio.sleep(0.1)
        stream_number = a.driver.streams._outgoing["c" * 32, NORMAL].number
        behind = CODEC.encode(Beat(2)) + frame(EVENT, b"late") + CODEC.encode(Ack(stream_number, 1))
        goodbye = CODEC.encode(Goodbye(Closed.UNWANTED))
        await stream.send_all(CODEC.encode(Beat(1)) + goodbye + behind)
        await trio.sleep(0.1)
    await a.driver.drained()
    assert a.took(MessageReceived) == [MessageReceived("c" * 32, Beat(1))]
    assert a.took(LinkDown) == [LinkDown("c" * 32, Closed.UNWANTED)]
    assert (a.frames, a.orphans) == ([], [])


# Frames


async def test_frames_come_by_the_batch_and_a_busy_layer_holds_back_the_reader(
    overlay: Overlay,
    autojump_clock: MockClock,
) -> None:
    a, b = await overlay.linked()
    b.batches.clear()
    b.busy = trio.Event()
    link = a.driver.links[b.peer.uid, NORMAL]
    bodies = [bytes([number]) for number in range(20)]
    for body in bodies[:10]:
        link.connection.send(frame(EVENT, body), 1)
    await trio.sleep(0.1)
    for body in bodies[10:]:
        link.connection.send(frame(EVENT, body), 1)
    await trio.sleep(0.1)
    assert b.batches == [10]
    b.busy.set()
    await trio.sleep(0.1)
    assert b.batches == [10, 20]
    assert b.frames == [(EVENT, body) for body in bodies]


# What ends a link


@pytest.mark.parametrize(
    "words",
    [b"\xff" * 50, frame(0, b"\xc1"), GREETINGS.encode(hello())],
    ids=["no frame", "no message", "no message for a link"],
)
async def test_a_protocol_error_ends_that_link_alone(
    overlay: Overlay, autojump_clock: MockClock, words: bytes
) -> None:
    a, _ = await overlay.linked()
    async with caller(overlay, a) as stream:
        await stream.send_all(CODEC.encode(Beat(7)) + words)
        with trio.fail_after(5):
            assert await stream.receive_some() == b""
    await trio.sleep(1)
    assert a.took(LinkDown) == [LinkDown("c" * 32, Closed.PROTOCOL)]
    assert a.linked == ["b"]
    assert a.driver.counters["protocol_errors"] == 1


@pytest.mark.parametrize(
    "message", [Ack(1, 1), Resume(1, 1, 0), Beat(1)], ids=["ack", "resume", "control"]
)
async def test_what_an_express_link_has_no_place_for_ends_it(
    overlay: Overlay, autojump_clock: MockClock, message: Message
) -> None:
    a, _ = await overlay.linked()
    greeting = hello(link_class=LinkClass.EXPRESS, capabilities=DIALECT.names)
    async with caller(overlay, a, greeting) as stream:
        await stream.send_all(CODEC.encode(Knock(1)) + CODEC.encode(message))
        await trio.sleep(1)
    assert a.took(MessageReceived) == [MessageReceived("c" * 32, Knock(1), LinkClass.EXPRESS)]
    assert a.took(LinkDown) == [LinkDown("c" * 32, Closed.PROTOCOL, LinkClass.EXPRESS)]
    assert a.linked == ["b"]


async def test_a_fault_of_ours_ends_that_link_and_the_machine_is_told(
    overlay: Overlay, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = await overlay.linked()
    async with caller(overlay, a) as stream:
        a.fault = KeyError("impossible")
        await stream.send_all(frame(EVENT, b"event"))
        with trio.fail_after(5):
            assert await stream.receive_some() == b""
    await trio.sleep(1)
    assert a.driver.counters["internal_errors"] == 1
    assert a.linked == ["b"]
    assert [down.uid for down in a.took(LinkDown)] == ["c" * 32]
    assert "BUG" in capsys.readouterr().out
    b.do(Send(a.peer.uid, Beat(1)))
    await trio.sleep(0.1)
    assert a.took(MessageReceived) == [MessageReceived(b.peer.uid, Beat(1))]


async def test_the_layer_above_may_find_a_frame_senseless(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a, _ = await overlay.linked()
    a.fault = ProtocolError("not for me")
    async with caller(overlay, a) as stream:
        await stream.send_all(frame(EVENT, b"event"))
        with trio.fail_after(5):
            assert await stream.receive_some() == b""
    await trio.sleep(1)
    assert a.took(LinkDown) == [LinkDown("c" * 32, Closed.PROTOCOL)]
    assert a.linked == ["b"]


async def test_a_link_whose_queue_overflows_is_given_up(
    overlay: Overlay, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LINK_QUEUE_BYTES", 400)
    a, b = await overlay.linked()
    a.do(*(Send(b.peer.uid, Beat(number)) for number in range(100)))
    await trio.sleep(5)
    assert a.took(LinkDown) == [LinkDown(b.peer.uid, Closed.OVERFLOW)]
    assert b.took(LinkDown) == [LinkDown(a.peer.uid, Closed.LOST)]
    assert b.took(MessageReceived) == []
    assert (a.linked, b.linked) == ([], [])
