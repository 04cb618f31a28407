"""Profiles on the wire: what is sent arrives, nothing is without a bound, all of it fits."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from ges.wire.profile_messages import (
    PROFILE_MESSAGES,
    ProfileDelta,
)
from overlay.errors import CodecError
from overlay.machine import Message
from overlay.wire.codec import FrameReader, MessageCodec
from tests.helpers.examples import examples
from tests.helpers.strategies import structs

CODEC = MessageCodec(*PROFILE_MESSAGES)


def read(item: bytes) -> list[Message]:
    reader = FrameReader()
    reader.feed(item)
    return [CODEC.decode(body) for _, body in reader.frames()]


@pytest.mark.parametrize("kind", PROFILE_MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_arrives_as_it_was_sent(kind: type[Message]) -> None:
    @settings(max_examples=examples(25))
    @given(structs(kind))
    def arrives(message: Message) -> None:
        assert read(CODEC.encode(message)) == [message]

    arrives()


@pytest.mark.parametrize(
    "ask",
    [
        [1, "a", 0, None],
        [1, "a", 8, None],
        [1, "a" * 1025, 7, None],
        [1, "a", 7, ""],
        [256, "a", 7],
    ],
    ids=["no class", "an unknown class", "too long", "no group", "no kind of filter"],
)
def test_what_is_no_ask_is_refused(ask: list[object]) -> None:
    version = [1, 1]
    body = ["ProfileDelta", "a" * 32, version, version, [ask], [], 0, 0]
    with pytest.raises(CodecError):
        CODEC.decode(msgspec.msgpack.encode(body))


def test_a_field_of_a_later_version_is_ignored() -> None:
    body = [
        "ProfileDelta",
        "a" * 32,
        [1, 0],
        [1, 1],
        [["a", 7, None, 4, "later"]],
        [],
        0,
        0,
        "later",
    ]
    found = CODEC.decode(msgspec.msgpack.encode(body))
    assert isinstance(found, ProfileDelta)
    assert found.added[0].filter == "a"
