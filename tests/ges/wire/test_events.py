"""Event frames: what is packed is read by brokers, and nothing else passes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ges.wire.attributes import MAX_ATTRIBUTE_BYTES, pack_attributes
from ges.wire.event_flags import EXPRESS_FLAG, MARK_FLAG, SECURE_FLAG
from ges.wire.events import (
    HEADER,
    MAX_PAYLOAD_BYTES,
    NO_DUTY,
    Duty,
    read_head,
)
from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import MAX_COUNT, MAX_SEQUENCE
from tests.helpers.packed import event_fields, packed
from tests.helpers.runs import under_way


@given(event_fields)
def test_what_is_packed_is_read(fields: dict[str, Any]) -> None:
    topic = fields["topic"].encode()
    attributes = pack_attributes(fields["attributes"])
    head = read_head(packed(**fields | {"topic": topic, "attributes": attributes}))
    assert head.secure == fields["secure"]
    assert head.publisher == fields["publisher"]
    assert (head.incarnation, head.sequence) == (fields["incarnation"], fields["sequence"])
    assert (head.topic, head.attribute_bytes) == (topic, len(attributes))
    assert (head.hops, head.duty) == (0, NO_DUTY)


def test_a_patch_changes_what_is_in_front_alone() -> None:
    body = packed()
    duty = Duty(1, 2, 3, 4)
    head = read_head(under_way(body, duty, flags=MARK_FLAG, hops=3, via=5, source=6))
    assert (head.flags, head.hops, head.via, head.source, head.duty) == (MARK_FLAG, 3, 5, 6, duty)
    assert replace(head, flags=0, hops=0, via=0, source=0, duty=NO_DUTY) == read_head(body)


def test_an_event_says_how_far_it_may_go_and_what_it_replies_to() -> None:
    head = read_head(packed(max_hops=3, priority=9, correlation=bytes(range(16))))
    assert (head.max_hops, head.priority, head.topic) == (3, 9, b"a/b")
    with pytest.raises(CodecError):
        read_head(packed(priority=10))


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(lambda b: packed()[:100] + b)))
@example(b"")
@example(packed(attributes=b"\x81"))
@example(packed(attributes=b"\x93\x01\x02\x03"))
@example(packed(topic=b"\xff"))
def test_garbage_raises_nothing_but_codec_errors(body: bytes) -> None:
    with contextlib.suppress(CodecError):
        read_head(body)


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
        packed(sequence=MAX_SEQUENCE + 1),
        packed(incarnation=MAX_COUNT + 1),
        bytes([0, 0, 0, SECURE_FLAG | EXPRESS_FLAG]) + packed()[4:],
    ],
    ids=[
        "half a header",
        "no topic",
        "empty",
        "topic",
        "attributes",
        "payload",
        "0th",
        "last",
        "life",
        "flags",
    ],
)
def test_heads_that_make_no_sense(body: bytes) -> None:
    with pytest.raises(CodecError):
        read_head(body)


def test_the_largest_event_is_read() -> None:
    body = packed(
        topic=b"a" * MAX_TOPIC_BYTES,
        attributes=b"a" * MAX_ATTRIBUTE_BYTES,
        payload=b"a" * MAX_PAYLOAD_BYTES,
    )
    assert len(read_head(body).topic) == MAX_TOPIC_BYTES


def test_attributes_have_a_limit() -> None:
    assert len(pack_attributes({"k": "v" * (MAX_ATTRIBUTE_BYTES - 10)})) <= MAX_ATTRIBUTE_BYTES
    with pytest.raises(ConfigError, match="4096 are allowed"):
        pack_attributes({"k": "v" * MAX_ATTRIBUTE_BYTES})
