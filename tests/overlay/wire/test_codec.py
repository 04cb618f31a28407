"""Frames and control messages: what is sent arrives, and nothing a stranger sends does harm."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.errors import CodecError
from overlay.machine import Message
from overlay.wire.codec import SMALL_PIECE, FrameReader, MessageCodec
from overlay.wire.frames import (
    CONTROL,
    DELIVERY,
    EVENT,
    FRAGMENT,
    HEADER,
    MAX_CONTROL_BYTES,
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    frame,
)
from ring.wire.messages import Heartbeat, Peers
from ring.wire.registry import RING_MESSAGES
from tests.helpers.examples import examples
from tests.helpers.strategies import largest, structs

CODEC = MessageCodec(*RING_MESSAGES)
LIMIT = 4096
MESSAGES = st.sampled_from(RING_MESSAGES).flatmap(structs)


def read(reader: FrameReader, pieces: list[bytes]) -> list[Message]:
    """Feed the pieces one by one, and decode what control frames come out."""
    found = []
    for piece in pieces:
        reader.feed(piece)
        found += [CODEC.decode(body) for kind, body in reader.frames() if kind == CONTROL]
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


# What is sent arrives


@pytest.mark.parametrize("kind", RING_MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_arrives_as_it_was_sent(kind: type[Message]) -> None:
    @settings(max_examples=examples(25))
    @given(structs(kind))
    def arrives(message: Message) -> None:
        assert read(FrameReader(), [CODEC.encode(message)]) == [message]

    arrives()


@pytest.mark.parametrize("kind", RING_MESSAGES, ids=lambda kind: kind.__name__)
def test_the_largest_message_of_a_kind_fits_in_a_frame(kind: type[Message]) -> None:
    message = largest(kind)
    assert read(FrameReader(), [CODEC.encode(message)]) == [message]


@settings(max_examples=examples(50))
@given(st.lists(MESSAGES, max_size=4), st.lists(st.integers(0, 10_000), max_size=6))
def test_it_does_not_matter_how_the_stream_is_cut(
    messages: list[Message], places: list[int]
) -> None:
    stream = b"".join(map(CODEC.encode, messages))
    assert read(FrameReader(), cut(stream, places)) == messages


def test_events_pass_undecoded() -> None:
    reader = FrameReader()
    reader.feed(frame(EVENT, b"\xffnot msgpack") + frame(DELIVERY, b""))
    assert reader.frames() == [(EVENT, b"\xffnot msgpack"), (DELIVERY, b"")]


def test_frames_can_be_taken_one_by_one() -> None:
    reader = FrameReader()
    reader.feed(frame(EVENT, b"1") + frame(EVENT, b"2") + frame(EVENT, b"3")[:-1])
    assert reader.next_frame() == (EVENT, b"1")
    assert reader.frames() == [(EVENT, b"2")]
    assert reader.next_frame() is None
    reader.feed(b"3")
    assert reader.next_frame() == (EVENT, b"3")


# What strangers send does no harm


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=200), max_size=8))
def test_garbage_is_a_codec_error_or_nothing(pieces: list[bytes]) -> None:
    survives(pieces)


@settings(max_examples=examples(200))
@given(MESSAGES, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3), st.data())
def test_a_damaged_frame_is_a_codec_error_or_another_message(
    message: Message, damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    stream = bytearray(CODEC.encode(message))
    for place, byte in damage:
        stream[place % len(stream)] = byte
    length = data.draw(st.integers(0, len(stream)))
    survives([bytes(stream[:length]), bytes(stream[length:])])
    survives([bytes(stream[:length])])


@settings(max_examples=examples(100))
@given(st.binary(max_size=300))
def test_a_body_of_garbage_is_a_codec_error_or_a_message(body: bytes) -> None:
    survives([frame(CONTROL, body)])


def survives(pieces: list[bytes]) -> None:
    """Only codec errors come out, and never more than one unfinished frame is kept."""
    reader = FrameReader(LIMIT)
    for piece in pieces:
        try:
            read(reader, [piece])
        except CodecError:
            return
        assert sum(map(len, reader._pieces)) <= LIMIT + 4


def test_deep_nesting_is_a_codec_error() -> None:
    with pytest.raises(CodecError):
        CODEC.decode(b"\x91" * 60_000)


def test_a_frame_of_another_version_is_named() -> None:
    reader = FrameReader()
    reader.feed(HEADER.pack(2, PROTOCOL_VERSION + 1, CONTROL))
    with pytest.raises(CodecError, match=f"version {PROTOCOL_VERSION + 1}.*{PROTOCOL_VERSION}$"):
        reader.frames()


@pytest.mark.parametrize(
    ("length", "kind"),
    [(LIMIT + 1, EVENT), (2**32 - 1, EVENT), (1, EVENT), (0, CONTROL), (2, 3), (2, FRAGMENT + 1)],
)
def test_an_impossible_length_or_kind_is_refused_before_a_body_comes(
    length: int, kind: int
) -> None:
    reader = FrameReader(LIMIT)
    reader.feed(HEADER.pack(length, PROTOCOL_VERSION, kind))
    with pytest.raises(CodecError):
        reader.frames()


def test_control_messages_have_a_limit_of_their_own() -> None:
    reader = FrameReader()
    reader.feed(HEADER.pack(MAX_CONTROL_BYTES, PROTOCOL_VERSION, CONTROL))
    assert reader.frames() == []
    reader = FrameReader()
    reader.feed(HEADER.pack(MAX_CONTROL_BYTES + 1, PROTOCOL_VERSION, CONTROL))
    with pytest.raises(CodecError, match=str(MAX_CONTROL_BYTES + 1)):
        reader.frames()


def test_the_limit_can_grow_when_a_stranger_has_become_a_peer() -> None:
    reader = FrameReader(8)
    reader.limit(LIMIT)
    reader.feed(frame(EVENT, bytes(100)))
    assert reader.frames() == [(EVENT, bytes(100))]


def test_a_frame_taken_alone_does_not_suffer_from_what_follows() -> None:
    reader = FrameReader()
    reader.feed(frame(EVENT, b"1") + b"\xff" * 6)
    assert reader.next_frame() == (EVENT, b"1")
    with pytest.raises(CodecError):
        reader.next_frame()


@pytest.mark.parametrize(
    "array",
    [
        ["Heartbeat", -1],
        ["Heartbeat", "1"],
        ["Heartbeat"],
        ["Nothing", 1],
        ["Failed", [["x" * 32, 1, "u", False], 0], [], None],
        ["Failed", [["0" * 32, 1, "u", False], 2**32], [], None],
        ["Peers", [[["0" * 32, 1, "u", False], 0]] * 65],
        ["Backup", 1, [["0" * 32, 1, "u", False]] * 129],
        ["Intent", "friendship"],
        [],
        7,
    ],
)
def test_a_field_out_of_bounds_is_a_codec_error(array: object) -> None:
    with pytest.raises(CodecError, match="bad message"):
        CODEC.decode(msgspec.msgpack.encode(array))


def test_two_messages_of_one_name_are_refused() -> None:
    class Twin(Message, frozen=True, tag="Heartbeat"):
        pass

    with pytest.raises(ValueError, match=r"share a name.*Heartbeat"):
        MessageCodec(Heartbeat, Peers, Twin)


@given(st.lists(st.integers(1, 6000), min_size=1, max_size=30))
def test_an_unfinished_frame_takes_hardly_more_than_its_bytes(sizes: list[int]) -> None:
    """However small the pieces it comes in: each would take memory of its own."""
    reader = FrameReader()
    reader.feed(HEADER.pack(MAX_FRAME_BYTES, PROTOCOL_VERSION, EVENT))
    assert reader.runs() == []
    for size in sizes:
        reader.feed(b"x" * size)
        assert reader.runs() == []
    assert reader.kept_bytes == HEADER.size + sum(sizes)
    assert len(reader._pieces) <= 2 + 2 * reader.kept_bytes // SMALL_PIECE


def test_the_slices_of_an_unfinished_frame_count_as_kept() -> None:
    reader = FrameReader()
    reader.feed(frame(FRAGMENT, b"\0" + bytes(5000)))
    assert reader.runs() == []
    assert reader.kept_bytes == 5000
