"""Event frames: what is packed is read, and nothing else passes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ges.wire.events import (
    HEADER,
    MAX_ATTRIBUTE_BYTES,
    MAX_PAYLOAD_BYTES,
    PATCH,
    PATCH_AT,
    PATCH_END,
    SECURE_FLAG,
    Event,
    pack_attributes,
    pack_event,
    pack_matches,
    read_delivery,
    read_event,
    read_head,
)
from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, MAX_FRAME_BYTES, frame

PUBLISHER = bytes(range(16))
counts = st.integers(0, 2**64 - 1)
texts = st.text(max_size=40)


def packed(**changes: Any) -> bytes:  # noqa: ANN401 - fields of an event
    fields: dict[str, Any] = {
        "secure": False,
        "publisher": PUBLISHER,
        "incarnation": 7,
        "sequence": 9,
        "published_ns": 11,
        "topic": b"a/b",
        "attributes": b"",
        "payload": b"payload",
    }
    return pack_event(**fields | changes)


@given(
    st.booleans(),
    st.binary(min_size=16, max_size=16),
    counts,
    st.integers(1, 2**64 - 1),
    counts,
    st.text(min_size=1, max_size=100),
    st.dictionaries(texts, texts, max_size=5),
    st.binary(max_size=300),
)
def test_what_is_packed_is_read(
    secure: bool,
    publisher: bytes,
    incarnation: int,
    sequence: int,
    published_ns: int,
    topic: str,
    attributes: dict[str, str],
    payload: bytes,
) -> None:
    body = packed(
        secure=secure,
        publisher=publisher,
        incarnation=incarnation,
        sequence=sequence,
        published_ns=published_ns,
        topic=topic.encode(),
        attributes=pack_attributes(attributes),
        payload=payload,
    )
    event = read_event(body)
    assert replace(event, attributes=dict(event.attributes)) == Event(
        topic=topic,
        payload=payload,
        attributes=attributes,
        link_class=LinkClass.SECURE if secure else LinkClass.NORMAL,
        publisher=publisher.hex(),
        sequence=sequence,
        published_unix_ns=published_ns,
        hops=0,
        incarnation=incarnation,
    )
    head = read_head(body)
    assert (head.secure, head.publisher, head.incarnation) == (secure, publisher, incarnation)
    assert (head.sequence, head.topic) == (sequence, topic.encode())
    assert (head.hops, head.limit) == (0, 0)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20).map(tuple))
def test_a_delivery_names_the_subscriptions(numbers: tuple[int, ...]) -> None:
    body = pack_matches(numbers) + 2 * frame(EVENT, packed())
    assert read_delivery(body) == (numbers, [read_event(packed())] * 2)


def test_a_patch_changes_hops_and_limit_alone() -> None:
    body = packed()
    patched = body[:PATCH_AT] + PATCH.pack(3, 2**32 - 1) + body[PATCH_END:]
    head = read_head(patched)
    assert (head.hops, head.limit) == (3, 2**32 - 1)
    assert replace(head, hops=0, limit=0) == read_head(body)
    assert replace(read_event(patched), hops=0) == read_event(body)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(lambda b: packed()[:70] + b)))
@example(b"")
@example(packed(attributes=b"\x81"))
@example(packed(attributes=b"\x93\x01\x02\x03"))
@example(packed(topic=b"\xff"))
def test_garbage_raises_nothing_but_codec_errors(body: bytes) -> None:
    for read in (read_event, read_delivery, read_head):
        with contextlib.suppress(CodecError):
            read(body)


@given(st.data())
def test_one_changed_byte_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(packed(attributes=pack_attributes({"k": "v"})))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        read_event(bytes(body))


@pytest.mark.parametrize(
    "body",
    [
        packed()[: HEADER.size - 1],
        packed()[: HEADER.size],
        packed(topic=b""),
        packed(topic=b"a" * (MAX_TOPIC_BYTES + 1)),
        packed(attributes=b"a" * (MAX_ATTRIBUTE_BYTES + 1)),
        packed(payload=b"a" * (MAX_PAYLOAD_BYTES + 1)),
        packed(sequence=0),
        bytes([SECURE_FLAG + 1]) + packed()[1:],
    ],
    ids=["half a header", "no topic", "empty", "topic", "attributes", "payload", "0th", "flags"],
)
def test_heads_that_make_no_sense(body: bytes) -> None:
    with pytest.raises(CodecError):
        read_head(body)


def test_the_largest_event_is_read_and_fits_into_a_frame() -> None:
    body = packed(
        topic=b"a" * MAX_TOPIC_BYTES,
        attributes=b"a" * MAX_ATTRIBUTE_BYTES,
        payload=b"a" * MAX_PAYLOAD_BYTES,
    )
    assert len(read_head(body).topic) == MAX_TOPIC_BYTES
    assert len(body) + len(pack_matches((1,) * 500)) + 2 <= MAX_FRAME_BYTES


def test_attributes_have_a_limit() -> None:
    assert len(pack_attributes({"k": "v" * (MAX_ATTRIBUTE_BYTES - 10)})) <= MAX_ATTRIBUTE_BYTES
    with pytest.raises(ConfigError, match="4096 are allowed"):
        pack_attributes({"k": "v" * MAX_ATTRIBUTE_BYTES})
