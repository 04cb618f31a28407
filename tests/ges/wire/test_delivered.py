"""Deliveries to clients: what is packed is read, and garbage is refused."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ges.wire.attributes import MAX_ATTRIBUTE_BYTES, pack_attributes
from ges.wire.delivered import ALIKE, PROBE, Event, pack_matches, read_delivery, read_events
from ges.wire.events import (
    MAX_PAYLOAD_BYTES,
    NO_DUTY,
)
from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError
from overlay.ids import LinkClass
from overlay.wire.frames import EVENT, MAX_FRAME_BYTES, frame
from tests.helpers.packed import event_fields, packed
from tests.helpers.runs import under_way


def read_event(body: bytes) -> Event:
    (event,) = read_events(frame(EVENT, body))
    return event


@given(event_fields)
def test_what_is_packed_is_read(fields: dict[str, Any]) -> None:
    topic, attributes = fields["topic"], fields["attributes"]
    text = {"topic": topic.encode(), "attributes": pack_attributes(attributes)}
    event = read_event(packed(**fields | text))
    assert replace(event, attributes=dict(event.attributes)) == Event(
        topic=topic,
        payload=fields["payload"],
        attributes=attributes,
        link_class=LinkClass.SECURE if fields["secure"] else LinkClass.NORMAL,
        publisher=fields["publisher"].hex(),
        sequence=fields["sequence"],
        published_unix_ns=fields["published_ns"],
        hops=0,
        incarnation=fields["incarnation"],
    )


bodies = st.builds(
    packed,
    sequence=st.integers(1, 5),
    secure=st.booleans(),
    publisher=st.sampled_from([b"p" * 16, b"q" * 16]),
    incarnation=st.integers(1, 2),
    topic=st.sampled_from([b"t", b"u", b"tt"]),
    attributes=st.sampled_from([b"", pack_attributes({"unit": "C"})]),
    payload=st.binary(max_size=3),
)


@given(st.lists(bodies, max_size=12))
@example([packed(sequence=n, payload=b"x" * n) for n in range(1, 6)])
def test_events_read_together_are_those_read_one_by_one(found: list[bytes]) -> None:
    """What the event before has in common with the next is not decoded twice."""
    together = read_events(b"".join(frame(EVENT, body) for body in found))
    assert together == [read_event(body) for body in found]


runs = st.tuples(bodies, st.integers(1, 3 * PROBE)).map(lambda run: [run[0]] * run[1])


@given(st.lists(runs, max_size=4).map(lambda found: [body for run in found for body in run]))
@example([packed(sequence=n, payload=b"x%3d" % n) for n in range(1, 2 * ALIKE)])
@example([packed(payload=b"x" * (n == PROBE)) for n in range(1, 2 * PROBE)])
@example([packed(topic=b"u" if n == PROBE else b"t") for n in range(1, 2 * PROBE)])
@example([packed(publisher=b"%16d" % (n == PROBE + 3)) for n in range(1, 2 * PROBE)])
def test_events_of_one_size_are_read_as_others_are(found: list[bytes]) -> None:
    together = read_events(b"".join(frame(EVENT, body) for body in found))
    assert together == [read_event(body) for body in found]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20).map(tuple))
def test_a_delivery_names_the_subscriptions(numbers: tuple[int, ...]) -> None:
    body = pack_matches(numbers) + 2 * frame(EVENT, packed())
    assert read_delivery(body) == (numbers, [read_event(packed())] * 2)


def test_a_patch_changes_the_hops_alone() -> None:
    body = packed()
    patched = under_way(body, NO_DUTY, hops=3)
    assert read_event(patched).hops == 3
    assert replace(read_event(patched), hops=0) == read_event(body)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(lambda b: packed()[:100] + b)))
@example(b"")
@example(packed(attributes=b"\x81"))
@example(packed(attributes=b"\x93\x01\x02\x03"))
@example(packed(topic=b"\xff"))
def test_garbage_raises_nothing_but_codec_errors(body: bytes) -> None:
    for read in (read_event, read_delivery):
        with contextlib.suppress(CodecError):
            read(body)


@given(st.lists(bodies, max_size=3), st.integers(0, 200), st.binary(max_size=9))
def test_a_delivery_ends_where_it_is_said_to(found: list[bytes], short: int, before: bytes) -> None:
    """What follows it in memory is not read, even if its last event is cut off."""
    whole = pack_matches((7,)) + b"".join(frame(EVENT, body) for body in found)
    cut = whole[: max(0, len(whole) - short)]
    data = before + whole + frame(EVENT, packed())
    expected = read_or_error(cut, 0, len(cut))
    assert read_or_error(data, len(before), len(before) + len(cut)) == expected


def read_or_error(data: bytes, at: int, end: int) -> object:
    try:
        return read_delivery(data, at=at, end=end)
    except CodecError:
        return CodecError


@given(st.data())
def test_one_changed_byte_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(packed(attributes=pack_attributes({"k": "v"})))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        read_event(bytes(body))


def test_the_largest_event_fits_into_a_frame_for_many_subscriptions() -> None:
    body = packed(
        topic=b"a" * MAX_TOPIC_BYTES,
        attributes=b"a" * MAX_ATTRIBUTE_BYTES,
        payload=b"a" * MAX_PAYLOAD_BYTES,
    )
    assert len(body) + len(pack_matches((1,) * 500)) + 2 <= MAX_FRAME_BYTES
