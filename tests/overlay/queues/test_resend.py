"""A reliable stream over connections that are cut, overlap and lose what was under way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Peer
from overlay.queues import resend
from overlay.queues.lanes import ExpressLane, NormalLane, Policy
from overlay.queues.outbox import Outbox
from overlay.queues.resend import Ack, ConnectionPart, Outgoing, Resume
from overlay.queues.streams import Streams
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame

KEY = ("b" * 32, LinkClass.NORMAL)
B = Peer("b" * 32, 1, "chordal://b.test:1")


def outbox() -> Outbox:
    return Outbox(NormalLane(1 << 26, Policy.DISCONNECT), ExpressLane(1 << 20))


def event(number: int, size: int = 4) -> bytes:
    return frame(EVENT, number.to_bytes(4, "big") + bytes(size - 4))


class Connection:
    """What one connection carries: bytes written that have not arrived yet."""

    def __init__(self, resume: Resume) -> None:
        self.outbox = outbox()
        self.resume = resume
        self.wire = b""
        self.reader = FrameReader()
        self.arrivals: ConnectionPart | None = None


class Flapping(RuleBasedStateMachine):
    """Events go from one broker to another over connections that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = Streams(), Streams()
        self.sent = 0
        self.got: list[int] = []
        self.all: list[Connection] = []  #: every connection; the last may be up
        self.is_up = False
        self.connect()

    @rule()
    def connect(self) -> None:
        """A new connection; the one before may still bring something."""
        fresh = Connection(Resume(0, 0, 0))
        resume, again, orphans = self.here.attach(KEY, B, 1, fresh.outbox)
        assert orphans == []
        fresh.resume = resume
        for item, events in again:
            fresh.outbox.normal.put(item, events)
        self.all.append(fresh)
        self.is_up = True

    @rule()
    def lose(self) -> None:
        """This end finds that the connection is gone."""
        self.here.detach(KEY)
        self.is_up = False

    @rule(count=st.integers(1, 5), size=st.integers(4, 300))
    def send(self, count: int, size: int) -> None:
        item = b"".join(event(self.sent + n, size) for n in range(count))
        if self.is_up:
            self.all[-1].outbox.normal.put(item, count)
        elif not self.here.keep(KEY, item, count):
            return
        self.sent += count

    @rule(most=st.integers(1, 2000))
    def write(self, most: int) -> None:
        connection = self.all[-1]
        connection.wire += b"".join(connection.outbox.take(0, most))

    @rule(which=st.integers(0, 3), part=st.floats(0, 1))
    def arrive(self, which: int, part: float) -> None:
        """Some bytes come out of a connection, perhaps of an old one, perhaps half a frame."""
        connection = self.all[-1 - which % len(self.all)]
        cut = round(part * len(connection.wire))
        data, connection.wire = connection.wire[:cut], connection.wire[cut:]
        if connection.arrivals is None:
            connection.arrivals = self.there.arrivals(
                ("a" * 32, LinkClass.NORMAL), connection.resume
            )
        connection.reader.feed(data)
        bodies = [body for _, body in connection.reader.frames()]
        known = connection.arrivals.take(len(bodies)) if bodies else 0
        self.got += [int.from_bytes(body[:4], "big") for body in bodies[known:]]

    @rule()
    def vanish(self) -> None:
        """What is under way is lost."""
        self.all[-1].wire = b""
        self.connect()

    @rule(which=st.integers(0, 3))
    def acknowledge(self, which: int) -> None:
        arrivals = self.all[-1 - which % len(self.all)].arrivals
        if arrivals is not None:
            self.here.on_ack(KEY, arrivals.incoming.ack())

    @invariant()
    def memory_is_counted(self) -> None:
        assert self.here.waiting_bytes == (0 if self.is_up else self.here._outgoing[KEY].memory)

    @invariant()
    def each_comes_once_in_order(self) -> None:
        assert self.got == list(range(len(self.got)))

    def teardown(self) -> None:
        """Once a connection holds, everything comes."""
        self.connect()
        connection = self.all[-1]
        while items := connection.outbox.take(0):
            connection.wire += b"".join(items)
        self.arrive(0, 1.0)
        assert self.got == list(range(self.sent))


TestFlapping = Flapping.TestCase


def kept(stream: Outgoing) -> int:
    return stream.count


def test_what_is_acknowledged_is_forgotten_by_whole_items() -> None:
    stream = Outgoing(1, 7, 1)
    stream.keep(b"x" * 10, 3)
    stream.keep(b"y" * 20, 2)
    stream.on_ack(Ack(7, 2))
    assert (stream.first, stream.next, stream.size) == (0, 5, 30)
    stream.on_ack(Ack(7, 4))
    assert (stream.first, stream.next, stream.size) == (3, 5, 20)
    stream.on_ack(Ack(6, 5))
    assert kept(stream) == 2, "of another stream"
    with pytest.raises(ProtocolError, match="6 events acknowledged, 5 were sent"):
        stream.on_ack(Ack(7, 6))


def test_what_is_acknowledged_while_it_is_sent_again_is_forgotten() -> None:
    stream = Outgoing(1, 1, 1)
    for _ in range(3):
        stream.keep(b"event", 1)
    again = stream.take_back()
    stream.on_ack(Ack(1, 2))
    for item, events in again:
        stream.keep(item, events)
    assert (stream.first, stream.next, stream.size) == (2, 3, 5)


def test_a_full_window_holds_events_back_but_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend, "WINDOW_FRAMES", 3)
    box = outbox()
    box.stream = Outgoing(1, 1, 1)
    for number in range(5):
        box.normal.put(event(number, 20_000), 1)
    box.normal.put(b"control", 0)
    taken = []
    while items := box.take(0, 20_000):
        taken += items
    assert taken == [event(number, 20_000) for number in range(3)]
    assert not box, "there is nothing to be written"
    box.ack = b"ack"
    assert (bool(box), box.take(0)) == (True, [b"ack"])
    box.stream.on_ack(Ack(1, 2))
    assert box.take(0, 20_000) == [event(3, 20_000)]
    box.is_last = True
    rest = b"".join(b"".join(items) for items in iter(lambda: box.take(0), []))
    assert rest.endswith(event(4, 20_000) + b"control"), "a connection that ends sends all"


def test_an_acknowledgement_is_due_long_before_the_window_is_full() -> None:
    arrivals = Streams().arrivals(KEY, Resume(1, 1, 0))
    arrivals.size = resend.WINDOW_BYTES
    assert not arrivals.is_due, "there is nothing to acknowledge"
    arrivals.take(1)
    assert arrivals.is_due
    arrivals.size = resend.WINDOW_BYTES // 4
    assert arrivals.is_due
    arrivals.size = 0
    assert not arrivals.is_due, "one event waits for others, or for its time"
    arrivals.take(resend.WINDOW_FRAMES // 4)
    assert arrivals.is_due


def test_a_stream_is_for_one_life_of_a_broker() -> None:
    streams = Streams()
    first, _, _ = streams.attach(KEY, B, 1, outbox())
    streams.detach(KEY)
    assert streams.keep(KEY, b"event", 1)
    later = Peer(B.uid, 2, B.url)
    second, again, orphans = streams.attach(KEY, later, 1, outbox())
    assert (again, orphans) == ([], [(b"event", 1)])
    assert (second.stream != first.stream, second.first) == (True, 0)


def test_what_went_another_way_is_no_gap_for_the_receiver() -> None:
    streams = Streams()
    streams.attach(KEY, B, 1, outbox())
    streams.detach(KEY)
    streams.keep(KEY, b"event", 1)
    assert streams.give_away(KEY) == [(b"event", 1)]
    resume, again, _ = streams.attach(KEY, B, 1, outbox())
    assert (resume.first, again) == (1, [])
    arrivals = Streams().arrivals(KEY, resume)
    assert arrivals.take(1) == 0
    assert arrivals.incoming.ack() == Ack(resume.stream, 2)


def test_what_is_kept_without_a_link_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend, "KEPT_BYTES", 100)
    streams = Streams()
    assert not streams.keep(KEY, b"x", 1), "never linked"
    streams.attach(KEY, B, 1, outbox())
    assert not streams.keep(KEY, b"x", 1), "linked"
    streams.detach(KEY)
    assert [streams.keep(KEY, b"x" * 60, 1) for _ in range(3)] == [True, True, False]


def test_what_is_kept_for_all_lost_links_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; what waits for the peer for whom most does is given up first."""
    monkeypatch.setattr(resend, "KEPT_BYTES_TOTAL", 10_000)
    streams = Streams()
    peers = [Peer(f"{n:032x}", 1, f"chordal://{n}.test:1") for n in range(4)]
    for n, peer in enumerate(peers):
        box = outbox()
        key = (peer.uid, LinkClass.NORMAL)
        streams.attach(key, peer, 1, box)
        box.normal.put(b"x" * (4000 - 1000 * n), 1)
        streams.detach(key)
    given_up = []
    while (found := streams.relieve()) is not None:
        given_up.append((found[0], found[1], [len(item) for item, _ in found[2]]))
    assert given_up == [(peers[0], LinkClass.NORMAL, [4000])]
    assert 6000 < streams.waiting_bytes < 7000
    assert streams.keep((peers[3].uid, LinkClass.NORMAL), b"x" * 3000, 1)
    assert not streams.keep((peers[3].uid, LinkClass.NORMAL), b"x" * 3000, 1)
    for peer in peers:
        streams.give_away((peer.uid, LinkClass.NORMAL))
    assert streams.waiting_bytes == 0


def test_many_that_come_and_go_do_not_make_a_link_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came by the link that is up is known, however many others are heard of meanwhile."""
    monkeypatch.setattr("overlay.queues.streams.MAX_STREAMS", 4)
    streams = Streams()
    streams.attach(KEY, B, 1, outbox())
    streams.arrivals(KEY, Resume(1, 1, 0)).take(10)
    for number in range(20):
        streams.arrivals((f"{number:032x}", LinkClass.NORMAL), Resume(1, 1, 0))
    assert streams.arrivals(KEY, Resume(1, 1, 0)).take(10) == 10


def test_small_events_count_with_the_memory_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend, "KEPT_BYTES_TOTAL", 10_000)
    streams = Streams()
    streams.attach(KEY, B, 1, outbox())
    streams.detach(KEY)
    kept = sum(streams.keep(KEY, b"x", 1) for _ in range(1000))
    assert kept < 100


@given(st.lists(st.integers(1, 100), max_size=20), st.integers(0, 300))
def test_a_receiver_drops_exactly_what_it_has(runs: list[int], known: int) -> None:
    streams = Streams()
    streams.arrivals(KEY, Resume(1, 1, 0)).take(known)
    again = streams.arrivals(KEY, Resume(1, 1, 0))
    dropped = [again.take(count) for count in runs]
    assert sum(dropped) == min(known, sum(runs))
    assert again.incoming.count == max(known, sum(runs))
