"""Runs of events: the same as one event after the other, found faster."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.wire.attributes import pack_attributes
from ges.wire.event_flags import GROUPS_FLAG, MARK_FLAG, NAMED_FLAG, STORED_FLAG
from ges.wire.event_runs import RUN_BYTES, EventRun, event_runs
from ges.wire.events import (
    FRONT,
    MAX_PAYLOAD_BYTES,
    NO_DUTY,
    Duty,
    Head,
    pack_event,
    pack_express,
    pack_front,
    read_head,
)
from ges.wire.groups import Serving
from ges.wire.names import pack_names
from overlay.errors import CodecError
from overlay.ids import MAX_SEQUENCE
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.frames import EVENT, HEADER, frame

PUBLISHERS = (b"p" * 16, b"q" * 16)


def one(
    sequence: int = 1,
    publisher: bytes = PUBLISHERS[0],
    topic: bytes = b"t",
    payload: bytes = b"",
    attributes: bytes = b"",
) -> bytes:
    return pack_event(False, publisher, 1, sequence, 0, topic, attributes, payload)


def cut(bodies: list[bytes]) -> FrameRun:
    reader = FrameReader()
    reader.feed(b"".join(frame(EVENT, body) for body in bodies))
    (run,) = reader.runs()
    return run


def runs(bodies: list[bytes]) -> list[EventRun]:
    run = cut(bodies)
    return list(event_runs(run.data, run.bounds))


bodies_ = st.lists(
    st.one_of(
        st.builds(
            one,
            st.integers(1, 4),
            st.sampled_from(PUBLISHERS),
            st.sampled_from([b"t", b"u", b"tt"]),
            st.binary(max_size=3),
        ),
        st.builds(
            pack_express,
            st.sampled_from(PUBLISHERS),
            st.just(1),
            st.integers(1, 4),
            st.just(0),
            st.just(b"t"),
            st.just(b""),
            st.binary(max_size=3),
            st.integers(0, 9),
        ),
    ),
    min_size=1,
    max_size=30,
)


@given(bodies_)
def test_runs_are_the_events_in_order_and_alike(bodies: list[bytes]) -> None:
    found = runs(bodies)
    singles = [pair for run in found for pair in run.singles()]
    assert singles == [(read_head(body), body) for body in bodies]
    for run in found:
        heads = [head for head, _ in run.singles()]
        assert run.count == len(heads)
        assert run.head == heads[0]
        assert len({(h.publisher, h.incarnation, h.topic, h.link_class) for h in heads}) == 1
        first = heads[0].sequence
        assert [h.sequence for h in heads] == list(range(first, first + len(heads)))
        assert run.count == 1 or not run.head.express


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 500))
def test_frames_are_cut_the_same_whatever_their_lengths(sizes: list[int], piece: int) -> None:
    """Many of one length are found by columns; a few are not."""
    frames = [frame(EVENT, bytes([size]) * size) for size in sizes]
    stream = b"".join(frames)
    reader = FrameReader()
    found = []
    for at in range(0, len(stream), piece):
        reader.feed(stream[at : at + piece])
        found += reader.frames()
    assert found == [(EVENT, bytes([size]) * size) for size in sizes]


def test_a_steady_publisher_makes_one_run() -> None:
    (run,) = runs([one(n, payload=bytes(n % 7)) for n in range(5, 105)])
    assert (run.count, run.head.sequence) == (100, 5)


def test_a_run_is_bounded() -> None:
    found = runs([one(n, payload=bytes(1000)) for n in range(1, 200)])
    assert max(run.bounds[-1] - run.bounds[0] for run in found) <= RUN_BYTES
    assert sum(run.count for run in found) == 199
    assert len(found) == 4
    (large,) = runs([one(1, payload=bytes(200_000))])
    assert large.count == 1


@pytest.mark.parametrize(
    "sizes", [[1, 2, 3], [5] * 3, [5] * 40, [5] * 40 + [6], [5] * 20 + [6] + [5] * 20]
)
def test_patched_frames_differ_in_front_alone(sizes: list[int]) -> None:
    bodies = [one(n, payload=b"x" * size) for n, size in enumerate(sizes, start=1)]
    (run,) = runs(bodies)
    reader = FrameReader()
    duty = Duty(1, 2**32 - 1, 2**64 - 1, 7)
    reader.feed(run.patched(pack_front(MARK_FLAG, 3, 2**32 - 1, 5, duty)))
    patched = [body for _, body in reader.frames()]
    assert [body[FRONT.size :] for body in patched] == [body[FRONT.size :] for body in bodies]
    heads = [read_head(body) for body in patched]
    found = [(h.marked, h.hops, h.via, h.source, h.duty) for h in heads]
    assert found == [(True, 3, 2**32 - 1, 5, duty)] * len(sizes)


def test_what_a_client_sets_that_is_not_for_it_is_taken_back() -> None:
    front = pack_front(MARK_FLAG, 9, 8, 7, Duty(1, 2, 3, 4))
    bodies = [front + one(n)[FRONT.size :] for n in (1, 2)]
    (run,) = runs(bodies)
    clean = run.unpatched()
    assert [body for _, body in clean.singles()] == [one(1), one(2)]
    assert isinstance(clean.head, Head)
    assert (clean.head.hops, clean.head.duty) == (0, NO_DUTY)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_event_in_the_middle_that_makes_no_sense(place: int) -> None:
    bodies = [one(1), one(2), one(3)]
    bodies[place] = bodies[place][:-2]
    with pytest.raises(CodecError):
        runs(bodies)


def test_attributes_that_are_none_are_found_wherever_they_stand() -> None:
    good, bad = pack_attributes({"k": "v"}), b"\x93\x01\x02\x03\x04"
    bad = bad[: len(good)].ljust(len(good), b"\xc1")
    assert [run.count for run in runs([one(n, attributes=good) for n in (1, 2)])] == [2]
    with pytest.raises(CodecError, match="attributes"):
        runs([one(1, attributes=good), one(2, attributes=bad)])


def test_a_run_ends_with_the_highest_number_that_messages_can_name() -> None:
    assert [run.count for run in runs([one(MAX_SEQUENCE - 1), one(MAX_SEQUENCE)])] == [2]
    with pytest.raises(CodecError):
        runs([one(MAX_SEQUENCE), one(MAX_SEQUENCE + 1)])


GROUPS = Serving({1: 2}).pack()
NAMES = pack_names(["kitchen"])


def other(flags: int, payload: bytes, *, named: bool = False) -> bytes:
    """Return an event that says more than a client writes; ``payload``: with all beside it."""
    body = bytearray(one(payload=payload))
    body[:4] = (flags | (NAMED_FLAG if named else 0)).to_bytes(4)
    return bytes(body)


@pytest.mark.parametrize(
    "body",
    [
        other(0, b"\xff\xff", named=True),
        other(0, NAMES[:-1], named=True),
        other(GROUPS_FLAG, b"\xff\xff"),
        other(GROUPS_FLAG, GROUPS[1:]),
        other(GROUPS_FLAG | STORED_FLAG, GROUPS),
        other(0, NAMES + bytes(MAX_PAYLOAD_BYTES + 1), named=True),
        other(GROUPS_FLAG, bytes(MAX_PAYLOAD_BYTES + 1) + GROUPS),
    ],
    ids=[
        *("no names", "half a name", "no groups", "half a group", "a value of groups"),
        *("large behind names", "large before groups"),
    ],
)
def test_what_is_behind_the_header_is_read_as_it_comes_in(body: bytes) -> None:
    with pytest.raises(CodecError):
        runs([body])


def test_the_largest_payload_may_have_names_or_groups_beside_it() -> None:
    payload = bytes(MAX_PAYLOAD_BYTES)
    for body in (other(0, NAMES + payload, named=True), other(GROUPS_FLAG, payload + GROUPS)):
        assert runs([body])[0].head == read_head(body)


def test_bounds_of_a_run_lead_to_its_frames() -> None:
    bodies = [one(n) for n in (1, 2, 3)]
    run = cut(bodies)
    sizes = [HEADER.size + len(body) for body in bodies]
    assert run.bounds == [0, *accumulate(sizes)]
    assert list(run.bodies()) == bodies
