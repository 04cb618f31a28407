"""Versions and capabilities: what two ends agree on, and brokers of two versions together."""

from __future__ import annotations

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from overlay.errors import CodecError
from overlay.ids import LinkClass
from overlay.machine import (
    LinkRefused,
    Message,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from overlay.queues.resend import STREAM_MESSAGES
from overlay.wire.codec import FrameReader, MessageCodec
from overlay.wire.frames import CONTROL, HEADER, PROTOCOL_VERSION, frame
from overlay.wire.greetings import GREETINGS, Goodbye, Refusal, Welcome
from overlay.wire.versions import CAPABILITIES, DIALECT, MAX_CAPABILITIES, Agreement, Dialect
from tests.helpers.stations import CODEC, Beat, Overlay, Puppet, answer, hello

NEXT = PROTOCOL_VERSION + 1
NEWER = Dialect(PROTOCOL_VERSION, NEXT, CAPABILITIES | {"gossip"})
NEWEST = Dialect(NEXT, NEXT + 1)

versions = st.integers(0, 6)
dialects = st.builds(
    lambda ends, names: Dialect(min(ends), max(ends), frozenset(names)),
    st.tuples(versions, versions),
    st.sets(st.sampled_from("abc")),
)


# Agreeing


@given(one=dialects, other=dialects)
def test_both_ends_agree_on_the_highest_version_both_speak(one: Dialect, other: Dialect) -> None:
    spoken = range(one.lowest, one.highest + 1)
    common = [version for version in spoken if other.lowest <= version <= other.highest]
    found = one.agree(other.lowest, other.highest, other.names)
    if not common:
        assert found is None
        return
    assert found == Agreement(max(common), one.capabilities & other.capabilities)
    assert other.accept(found.version, one.names) == found, "the caller sees it alike"


def test_a_caller_that_names_no_lowest_version_speaks_one_alone() -> None:
    assert Dialect(1, 3).agree(None, 2, ()) == Agreement(2, frozenset())
    assert Dialect(1, 3).agree(None, 4, ()) is None


def test_an_answer_in_a_version_not_spoken_is_no_answer() -> None:
    assert DIALECT.accept(NEXT, ()) is None


@pytest.mark.parametrize("names", [("x" * 33,), tuple("x" for _ in range(MAX_CAPABILITIES + 1))])
def test_capabilities_in_a_greeting_are_bounded(names: tuple[str, ...]) -> None:
    with pytest.raises(CodecError):
        GREETINGS.decode(GREETINGS.encode(hello(capabilities=names))[HEADER.size :])


def test_frames_newer_than_agreed_are_refused_and_older_ones_taken() -> None:
    reader = FrameReader()
    reader.agree(NEXT)
    reader.feed(frame(CONTROL, b"old", PROTOCOL_VERSION) + frame(CONTROL, b"new", NEXT))
    assert reader.frames() == [(CONTROL, b"old"), (CONTROL, b"new")]
    reader.feed(frame(CONTROL, b"newest", NEXT + 1))
    with pytest.raises(CodecError, match=f"version {NEXT + 1}, agreed is at most {NEXT}"):
        reader.frames()


# Two versions in one overlay


class Gossip(Message, frozen=True):
    """A message that brokers of the next version have."""

    words: str
    capability = "gossip"


class NewBeat(Message, frozen=True, tag="Beat"):
    """A message that has one more field in the next version."""

    number: int
    pulse: int = 60


NEWER_CODEC = MessageCodec(*STREAM_MESSAGES, NewBeat, Gossip, Goodbye)


async def test_brokers_of_two_versions_speak_the_older(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    old = await overlay.station("a")
    new = await overlay.station("b", codec=NEWER_CODEC, dialect=NEWER)
    new.do(OpenLink(old.peer.url, old.peer.uid))
    await trio.sleep(0.1)
    for here, there in ((old, new), (new, old)):
        link = here.driver.links[there.peer.uid, LinkClass.NORMAL]
        assert link.agreed == Agreement(PROTOCOL_VERSION, CAPABILITIES)
    new.do(Send(old.peer.uid, Gossip("unheard of")), Send(old.peer.uid, NewBeat(1, 72)))
    old.do(Send(new.peer.uid, Beat(2)))
    await trio.sleep(0.1)
    assert old.took(MessageReceived) == [MessageReceived(new.peer.uid, Beat(1))]
    assert new.took(MessageReceived) == [MessageReceived(old.peer.uid, NewBeat(2))]
    assert new.driver.counters["control_messages_not_known_there"] == 1
    assert old.driver.counters["protocol_errors"] == 0


async def test_brokers_of_the_next_version_speak_that(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    one = await overlay.station("a", codec=NEWER_CODEC, dialect=NEWER)
    other = await overlay.station("b", codec=NEWER_CODEC, dialect=NEWER)
    one.do(OpenLink(other.peer.url, other.peer.uid))
    await trio.sleep(0.1)
    one.do(Send(other.peer.uid, Gossip("news")))
    await trio.sleep(0.1)
    assert one.driver.links[other.peer.uid, LinkClass.NORMAL].agreed.version == NEXT
    assert other.took(MessageReceived) == [MessageReceived(one.peer.uid, Gossip("news"))]


async def test_without_a_version_in_common_both_ranges_are_named(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    old = await overlay.station("a")
    new = await overlay.station("b", dialect=NEWEST)
    for caller, called in ((old, new), (new, old)):
        caller.do(OpenLink(called.peer.url, called.peer.uid))
        await trio.sleep(0.1)
        (refused,) = caller.took(LinkRefused)
        assert refused.reason is Refused.OTHER_VERSION
        assert f"version {PROTOCOL_VERSION}" in refused.detail
        assert f"versions {NEXT} to {NEXT + 1}" in refused.detail
    assert (old.linked, new.linked) == ([], [])


async def test_one_that_answers_in_a_version_we_do_not_speak(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")

    async def ahead(stream: trio.abc.Stream) -> None:
        await stream.send_all(GREETINGS.encode(Welcome(Puppet("b").peer, 1, NEXT)))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(overlay.network.listen, "chordal://b.test:9470", ahead)
        a.do(OpenLink("chordal://b.test:9470", "b" * 32))
        await trio.sleep(0.1)
        assert [refused.reason for refused in a.took(LinkRefused)] == [Refused.OTHER_VERSION]
        nursery.cancel_scope.cancel()


async def test_a_caller_from_before_there_were_ranges_is_welcome(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a", dialect=NEWER)
    stream = await overlay.dial(a)
    fields = msgspec.msgpack.decode(GREETINGS.encode(hello())[HEADER.size :])
    await stream.send_all(frame(CONTROL, msgspec.msgpack.encode(fields[:9])))  # tag, 8 fields
    welcome = await answer(stream)
    assert isinstance(welcome, Welcome)
    assert welcome.version == PROTOCOL_VERSION
    await stream.send_all(CODEC.encode(Beat(1)))
    await trio.sleep(0.1)
    assert a.linked == ["c"]


async def test_a_greeting_with_fields_of_the_future_is_understood(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    greeting = hello(version=NEXT, lowest=PROTOCOL_VERSION, capabilities=("telepathy",))
    fields = msgspec.msgpack.decode(GREETINGS.encode(greeting)[HEADER.size :])
    await stream.send_all(frame(CONTROL, msgspec.msgpack.encode([*fields, {"mood": "fine"}, 7])))
    assert isinstance(await answer(stream), Welcome)
    (link,) = a.driver.links.values()
    assert link.agreed == Agreement(PROTOCOL_VERSION, frozenset())


async def test_a_client_of_another_version_is_told(
    overlay: Overlay, autojump_clock: MockClock
) -> None:
    a = await overlay.station("a")
    stream = await overlay.dial(a)
    await stream.send_all(GREETINGS.encode(hello(peer=None, version=NEXT)))
    refusal = await answer(stream)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Refused.OTHER_VERSION
    assert a.clients == []
