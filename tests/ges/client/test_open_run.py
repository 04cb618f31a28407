"""Events that wait to be packed: they go as they would one by one, in order, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.client.open_run import RUN_BYTES, OpenRun, RunLane
from ges.client.outgoing import CONFIRMED_SECONDS, OutgoingStream
from overlay.ids import LinkClass

LIMIT = 1 << 24
NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE


def stream_of(link_class: LinkClass = NORMAL) -> OutgoingStream:
    return OutgoingStream(link_class, b"p" * 16, 1)


class Publisher:
    """Publishes as a client does."""

    def __init__(self) -> None:
        self.run = OpenRun()
        self.lane = self.run.lane(LIMIT)
        self.streams = {each: stream_of(each) for each in (NORMAL, SECURE)}
        self.is_connected = True

    def publish(self, topic: str, payload: bytes, link_class: LinkClass = NORMAL) -> bool:
        """Return whether the event waits to be packed."""
        run, now = self.run, 5
        fits = len(payload) + run.overhead <= run.room
        if topic == run.topic and link_class is run.link_class and fits:
            run.room -= len(payload) + run.overhead
            run.payloads.append(payload)
            run.times.append(now)
            return True
        run.close()
        stream = self.streams[link_class]
        item = stream.pack(topic.encode(), b"", payload, now)
        stream.keep(item)
        if self.is_connected:
            self.lane.put(item, 1)
        run.follow(item, payload, topic, topic.encode(), stream)
        return False

    def sent(self) -> bytes:
        return taken(self.lane)


def taken(lane: RunLane) -> bytes:
    items = []
    while lane:
        items.append(lane.pop())
        lane.size -= len(items[-1])
    assert lane.size == 0
    return b"".join(items)


events = st.tuples(
    st.just("publish"),
    st.sampled_from("ab"),
    st.sampled_from([0, 1, 256, 20_000]),
    st.sampled_from([NORMAL, SECURE]),
    st.integers(1, 20),
)
others = st.sampled_from([("control",), ("write",), ("close",)])


@given(st.lists(st.one_of(events, others), max_size=20))
def test_what_is_sent_is_the_same_as_one_by_one(steps: list[tuple[object, ...]]) -> None:
    publisher = Publisher()
    alone = {each: stream_of(each) for each in (NORMAL, SECURE)}
    sent = expected = b""
    for step in steps:
        match step:
            case ("publish", str(topic), int(size), LinkClass() as link_class, int(count)):
                for number in range(count):
                    payload = b"%c" % number * size
                    publisher.publish(topic, payload, link_class)
                    expected += alone[link_class].pack(topic.encode(), b"", payload, 5)
            case ("control",):
                publisher.lane.put(b"control", 0)
                expected += b"control"
            case ("write",):
                sent += publisher.sent()
                assert sent == expected, "what was published before is not left behind"
            case ("close",):
                publisher.run.close()
    assert sent + publisher.sent() == expected
    for link_class, stream in publisher.streams.items():
        assert stream.sequence == alone[link_class].sequence


def test_only_behind_an_event_that_is_queued_do_others_wait() -> None:
    publisher = Publisher()
    assert not publisher.publish("a", b"")
    assert publisher.publish("a", b"")
    publisher.sent()
    assert not publisher.publish("a", b""), "its writer may have nothing more to do"
    publisher.lane.clear()
    publisher.is_connected = False
    for _ in range(2):
        assert not publisher.publish("a", b""), "the connection takes nothing more"
    publisher.run.detach()
    for _ in range(2):
        assert not publisher.publish("a", b""), "there is none"


def test_what_waits_is_bounded() -> None:
    publisher = Publisher()
    for _ in range(RUN_BYTES):
        publisher.publish("a", b"xx")
        assert sum(map(len, publisher.run.payloads)) < RUN_BYTES
    assert publisher.run.turn_bytes < 0, "it counts as published in this turn"


@pytest.mark.parametrize("how", ["clear", "detach", "lane"])
def test_what_waits_when_the_connection_is_lost_is_kept(how: str) -> None:
    publisher = Publisher()
    for _ in range(5):
        publisher.publish("a", b"x")
    match how:
        case "clear":
            publisher.lane.clear()
            assert not publisher.lane
        case "detach":
            publisher.run.detach()
        case _:
            assert not publisher.run.lane(LIMIT), "it goes again with all that is kept"
    assert len(list(publisher.streams[NORMAL].again((), 5))) == 5


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_events_packed_together_are_confirmed_one_by_one(
    counts: list[int], data: st.DataObject
) -> None:
    together, single = stream_of(), stream_of()
    for number, count in enumerate(counts):
        payloads = [b"x" * (number % 3 and each) for each in range(count)]
        together.keep(together.pack_all(b"a", payloads, [5] * count), count)
        for payload in payloads:
            single.keep(single.pack(b"a", b"", payload, 5))
    numbers = st.integers(0, sum(counts))
    refused = data.draw(st.sets(numbers))
    for at, sequence in enumerate(sorted(data.draw(st.lists(numbers, max_size=4)))):
        now = at * 0.7 * CONFIRMED_SECONDS
        for stream in (together, single):
            stream.confirm(sequence, now, refused)
        assert together.kept_bytes == single.kept_bytes
        assert list(together.again(refused, 5)) == list(single.again(refused, 5))
        assert list(together.again((), 5)) == list(single.again((), 5))
