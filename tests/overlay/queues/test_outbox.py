"""What is sent next: express first, long frames in slices, and never more than the limits."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import CodecError
from overlay.queues.lanes import ExpressLane, NormalLane, Overflow, Policy
from overlay.queues.outbox import MOST_QUICK, Outbox
from overlay.wire.codec import FrameReader
from overlay.wire.fragments import SLICE_BYTES
from overlay.wire.frames import CONTROL, EVENT, FRAGMENT, HEADER, Bytes, frame

LIMIT = 1_000_000
STAMP_AT = HEADER.size


def outbox(limit: int = LIMIT, policy: Policy = Policy.DISCONNECT) -> Outbox:
    return Outbox(NormalLane(limit, policy), ExpressLane(limit))


def express(box: Outbox, name: bytes = b"e", now: int = 0, spent_us: int = 0) -> None:
    box.express.put(bytearray(frame(EVENT, struct.pack("!I", spent_us) + name)), STAMP_AT, now)


def all_of(box: Outbox, now: int = 0) -> list[bytes]:
    """Return everything that goes out, write by write."""
    writes: list[bytes] = []
    while items := box.take(now):
        writes.append(b"".join(items))
    return writes


def bodies(writes: list[bytes]) -> list[bytes]:
    reader = FrameReader()
    reader.feed(b"".join(writes))
    return [body for _, body in reader.frames()]


def test_express_goes_before_all_that_waits() -> None:
    box = outbox()
    for name in (b"1", b"2"):
        box.normal.put(frame(EVENT, name), 1)
    express(box, b"first")
    assert [body[-5:] for body in bodies(all_of(box))] == [b"first", b"1", b"2"]
    assert not box
    assert box.size == 0


def test_an_acknowledgement_goes_before_all_that_waits_but_what_a_connection_begins_with() -> None:
    box = outbox()
    box.normal.put(frame(EVENT, b"n"), 1)
    express(box)
    box.ack, box.first = frame(EVENT, b"ack"), frame(EVENT, b"welcome")
    assert bodies(all_of(box))[:2] == [b"welcome", b"ack"]
    assert not box
    box.first = frame(EVENT, b"welcome")
    assert box
    box.clear()
    assert not box


def test_quick_frames_go_before_all_that_waits_and_few_of_them_do() -> None:
    box = outbox()
    box.normal.put(frame(EVENT, bytes(500_000)), 1)
    first = b"".join(box.take(0))
    express(box)
    assert all(box.put_quick(frame(CONTROL, b"quick")) for _ in range(MOST_QUICK))
    assert not box.put_quick(frame(CONTROL, b"one too many"))
    box.ack = frame(CONTROL, b"ack")
    assert bodies([first, *all_of(box)])[: MOST_QUICK + 1] == [b"ack", *[b"quick"] * MOST_QUICK]
    assert not box
    assert box.put_quick(frame(CONTROL, b"quick"))
    assert box
    box.clear()
    assert not box


def test_an_express_event_waits_for_one_slice_of_a_long_frame_at_most() -> None:
    box = outbox()
    box.normal.put(frame(EVENT, bytes(500_000)), 1)
    first = b"".join(box.take(0))
    assert len(first) <= SLICE_BYTES + HEADER.size + 1
    express(box)
    assert b"".join(box.take(0))[HEADER.size - 1] == EVENT
    rest = all_of(box)
    assert bodies([first, *rest]) == [bytes(500_000)]
    assert all(write[HEADER.size - 1] == FRAGMENT for write in rest)
    assert box.size == 0


def test_an_express_event_waits_for_one_write_of_many_frames_at_most() -> None:
    box = outbox()
    for _ in range(5_000):
        box.normal.put(frame(EVENT, bytes(100)), 1)
    assert sum(map(len, box.take(0))) < SLICE_BYTES + 1000
    express(box, b"now")
    assert bodies([b"".join(box.take(0))])[0][4:] == b"now"


def test_a_little_goes_along_with_what_fills_a_write_by_itself() -> None:
    """As where a read ends within an event: the rest of it comes apart from what follows."""
    box = outbox()
    box.normal.put(frame(EVENT, bytes(4_000)), 1)
    many = frame(EVENT, bytes(4_000)) * 16
    box.normal.put(many, 16)
    box.normal.put(many, 16)
    assert [len(write) // len(many) for write in all_of(box)] == [1, 1]
    assert box.size == 0


def test_a_long_frame_is_sent_in_slices_even_behind_a_little() -> None:
    box = outbox()
    box.normal.put(frame(EVENT, b"little"), 1)
    box.normal.put(frame(EVENT, bytes(500_000)), 1)
    writes = all_of(box)
    assert max(map(len, writes)) <= SLICE_BYTES + HEADER.size + 1
    assert bodies(writes) == [b"little", bytes(500_000)]


@given(st.lists(st.tuples(st.integers(0, 200_000), st.booleans()), max_size=12), st.integers(1, 9))
def test_each_lane_keeps_its_order_whatever_is_sent(
    sizes: list[tuple[int, bool]], every: int
) -> None:
    box = outbox(limit=10_000_000)
    writes = []
    for number, (size, is_express) in enumerate(sizes):
        if is_express:
            express(box, b"e%d" % number)
        else:
            box.normal.put(frame(EVENT, b"%d:" % number + bytes(size)), 1)
        if number % every == 0:
            writes.append(b"".join(box.take(0)))
    found = bodies([*writes, *all_of(box)])
    expected = [
        b"e%d" % number if is_express else b"%d:" % number + bytes(size)
        for number, (size, is_express) in enumerate(sizes)
    ]
    names = [body[4:] if body[4:5] == b"e" else body for body in found]
    for is_express in (True, False):
        assert [n for n in names if n.startswith(b"e") == is_express] == [
            n for n in expected if n.startswith(b"e") == is_express
        ]


def test_what_an_express_event_has_waited_is_added_to_its_stamp() -> None:
    box = outbox()
    express(box, now=1_000_000, spent_us=7)
    (body,) = bodies([b"".join(box.take(now=4_500_000))])
    assert struct.unpack("!I", body[:4]) == (7 + 3_500,)


def test_a_stamp_does_not_run_over() -> None:
    box = outbox()
    express(box, spent_us=2**32 - 2)
    (body,) = bodies([b"".join(box.take(now=10**12))])
    assert struct.unpack("!I", body[:4]) == (2**32 - 1,)


# Full lanes


def test_a_full_lane_is_given_up_where_nothing_may_be_lost() -> None:
    lane = NormalLane(100, Policy.DISCONNECT)
    lane.put(bytes(101), 1)
    with pytest.raises(Overflow):
        lane.make_room(100)


def test_the_oldest_events_go_and_are_counted_and_all_else_stays() -> None:
    lane = NormalLane(100_000, Policy.DROP_OLDEST)
    lane.put(frame(CONTROL, b"kept"), 0)
    for number in range(5):
        lane.put(frame(EVENT, b"%d" % number + bytes(30_000)), 3)
    lane.make_room(100_000)
    assert lane.dropped == 6
    assert lane.size <= 100_000
    left: list[Bytes] = []
    while lane:
        left.append(lane.pop())
    assert left[0] == frame(CONTROL, b"kept")
    assert [bytes(item)[6:7] for item in left[1:]] == [b"2", b"3", b"4"]


def test_a_lane_full_of_what_may_not_be_dropped_is_given_up() -> None:
    lane = NormalLane(100, Policy.DROP_OLDEST)
    lane.put(bytes(101), 0)
    with pytest.raises(Overflow):
        lane.make_room(100)


def test_of_express_events_the_oldest_go() -> None:
    lane = ExpressLane(100)
    for number in range(20):
        lane.put(bytearray(b"%020d" % number), 0, 0)
        assert lane.size <= 100
    assert lane.dropped == 15
    assert bytes(lane.pop(0))[-2:] == b"15"


# Slices from a stranger


def slices(*bodies: bytes) -> FrameReader:
    reader = FrameReader(100_000)
    reader.feed(b"".join(frame(FRAGMENT, body) for body in bodies))
    return reader


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"\x01"],
        [b"\x02" + bytes(2000)],
        [b"\x00" + bytes(100)],
        [b"\x00" + bytes(60_000)] * 2,
        [b"\x01" + bytes(5)],
        [b"\x01" + frame(EVENT, b"1") + b"more"],
        [b"\x01" + frame(CONTROL, b"1")],
        [b"\x01" + frame(FRAGMENT, b"\x01" + frame(EVENT, b"1"))],
        [b"\x01" + frame(EVENT, bytes(200))[:-1]],
    ],
    ids=[
        "empty",
        "nothing",
        "flag",
        "too fine",
        "too long",
        "no header",
        "more than one",
        "control",
        "nested",
        "cut",
    ],
)
def test_slices_that_make_no_sense(parts: list[bytes]) -> None:
    with pytest.raises(CodecError):
        slices(*parts).frames()


def test_an_unfinished_long_frame_is_bounded() -> None:
    reader = slices(*[b"\x00" + bytes(20_000)] * 5)
    assert reader.frames() == []
    reader.feed(frame(FRAGMENT, b"\x00" + bytes(2000)))
    with pytest.raises(CodecError, match="102000"):
        reader.frames()
