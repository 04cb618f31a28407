"""A client that moves gets what it has missed, and then what comes: each event once, in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.client.resuming import resume
from ges.client.watermarks import Watermarks
from ges.delivery import kept, replay, replays
from ges.delivery.delivery import Deliveries
from ges.delivery.interests import Interests
from ges.delivery.kept import KEPT_NS, Fetched, kept_run
from ges.delivery.replay import MAX_ENDED
from ges.matching.asks import ask_for, served
from ges.wire.asked import Ask
from ges.wire.client_messages import Mark, Resubscribe, Resubscription, Subscribe
from ges.wire.delivered import read_delivery
from ges.wire.event_runs import EventRun
from ges.wire.events import pack_event, read_head
from overlay.ids import LinkClass, Nanos, nanos
from overlay.shares import NOWHERE
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, Bytes, frame
from tests.helpers.clusters import realms_alone, sharing_alone
from tests.helpers.runs import run_of

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
EVERYTHING = Resubscription(1, Ask("#"), 60_000)


def uid(publisher: int) -> bytes:
    return bytes([publisher]) * 16


class Outlet:
    """A connection whose other end reads when it is told to."""

    one_way_us = 0

    def __init__(self) -> None:
        self.queue: list[bytes] = []

    @property
    def queued_bytes(self) -> int:
        return sum(map(len, self.queue))

    def send(self, item: Bytes, events: int = 0) -> None:
        self.queue.append(bytes(item))

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        self.queue.append(bytes(item))


class Client:
    """A session at the broker, and the client behind it."""

    def __init__(self, *, secure: bool = False) -> None:
        self.asks: dict[int, Ask] = {}
        self.secure = secure
        self.retains = True
        self.source = NOWHERE
        self.waiting_bytes = 0
        self.last: dict[LinkClass, int] = {}
        self.connection = Outlet()
        self.watermarks = Watermarks()
        #: by number of subscription: publisher, class and sequence
        self.got: defaultdict[int, list[tuple[str, LinkClass, int]]] = defaultdict(list)

    def read(self) -> None:
        reader = FrameReader()
        reader.feed(b"".join(self.connection.queue))
        self.connection.queue.clear()
        for _, body in reader.frames():
            numbers, events = read_delivery(body)
            for event in self.watermarks.fresh(events):
                for number in numbers:
                    self.got[number].append((event.publisher, event.link_class, event.sequence))

    def sequences(self, number: int = 1) -> list[int]:
        self.read()
        return [sequence for _, _, sequence in self.got[number]]


class Desk:
    """A broker as far as its clients see it."""

    def __init__(self) -> None:
        self.now = Nanos(1)
        self.counters: Counter[str] = Counter()
        self.deliveries = Deliveries(
            self.counters,
            lambda: self.now,
            Interests(lambda given: None),
            sharing_alone(),
            realms_alone(),
        )
        self.replays = self.deliveries.replays
        self.published: Counter[tuple[int, bool]] = Counter()

    def event(self, publisher: int = 1, topic: str = "a", *, secure: bool = False) -> bytes:
        """Let the next event of a publisher pass, alone."""
        self.published[publisher, secure] += 1
        sequence = self.published[publisher, secure]
        body = pack_event(secure, uid(publisher), 7, sequence, 1, topic.encode(), b"", b"")
        self.deliveries.deliver(EventRun.of(read_head(body), body), self.now)
        return frame(EVENT, body)

    def run(self, count: int, publisher: int = 1, topic: str = "a") -> bytes:
        """Let a run of events pass, as the router does."""
        first = self.published[publisher, False] + 1
        self.published[publisher, False] += count
        bodies = [
            pack_event(False, uid(publisher), 7, first + i, 1, topic.encode(), b"", b"")
            for i in range(count)
        ]
        data = b"".join(frame(EVENT, body) for body in bodies)
        size = len(data) // count
        run = EventRun(read_head(bodies[0]), data, [i * size for i in range(count + 1)], count)
        self.deliveries.deliver(run, self.now)
        return data

    def subscribe(self, client: Client, request: Subscribe) -> None:
        self.deliveries.subscribe(client, request.number, served(request.ask, secure=client.secure))

    def resubscribe(self, client: Client, *messages: Resubscribe) -> None:
        for message in messages:
            self.replays.take(client, message, lambda each: self.subscribe(client, each))

    def go_on(self, client: Client | None = None) -> None:
        """Go on until nobody is behind; ``client`` reads meanwhile."""
        while (due := self.replays.next_deadline()) is not None:
            self.now = max(self.now, due)
            self.replays.go_on(self.now)
            if client is not None:
                client.read()


def asked(*marks: Mark, subscriptions: tuple[Resubscription, ...] = (EVERYTHING,)) -> Resubscribe:
    return Resubscribe(marks, subscriptions, more=False)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_comes_after_a_mark_is_sent_and_then_what_comes(desk: Desk) -> None:
    desk.run(10)
    client = Client()
    desk.resubscribe(client, asked(Mark(uid(1), 7, False, 6)))
    desk.event()
    desk.run(2)
    assert client.sequences() == [7, 8, 9, 10, 11, 12, 13]
    assert desk.counters["events_replayed"] == 4


def test_of_an_unknown_publisher_all_is_sent(desk: Desk) -> None:
    desk.run(3, publisher=1)
    desk.run(2, publisher=2)
    client = Client()
    desk.resubscribe(client, asked(Mark(uid(1), 7, False, 3), Mark(uid(2), 6, False, 2)))
    assert client.sequences() == [1, 2]


def test_nothing_older_than_the_subscription_is_sent(desk: Desk) -> None:
    desk.event(topic="a")
    desk.event(topic="b")
    desk.now += nanos(2)
    desk.event(topic="b")
    desk.event(topic="a")
    client = Client()
    young, old = Resubscription(1, Ask("b"), 1000), Resubscription(2, Ask("a"), 5000)
    desk.resubscribe(client, asked(subscriptions=(young, old)))
    assert client.sequences(1) == [3]
    assert client.sequences(2) == [1, 4]


def test_a_new_subscription_gets_nothing_old(desk: Desk) -> None:
    desk.event()
    client = Client()
    desk.subscribe(client, Subscribe(1, Ask("#")))
    desk.event()
    assert client.sequences() == [2]
    assert desk.counters["events_replayed"] == 0


def test_secure_events_go_over_secure_hops_alone_and_classes_as_wanted(desk: Desk) -> None:
    desk.event(secure=True)
    desk.event()
    plain, secure = Client(), Client(secure=True)
    only = Resubscription(2, ask_for("#", SECURE), 60_000)
    for client, wanted in ((plain, (EVERYTHING,)), (secure, (EVERYTHING, only))):
        desk.resubscribe(client, asked(subscriptions=wanted))
        client.read()
    assert plain.got == {1: [(uid(1).hex(), NORMAL, 1)]}
    assert secure.got == {
        1: [(uid(1).hex(), SECURE, 1), (uid(1).hex(), NORMAL, 1)],
        2: [(uid(1).hex(), SECURE, 1)],
    }


def test_there_is_one_replay_for_a_connection(desk: Desk) -> None:
    desk.run(3)
    client = Client()
    desk.resubscribe(client, asked(), asked(subscriptions=(Resubscription(2, Ask("#"), 60_000),)))
    assert client.sequences(2) == []
    desk.event()
    assert client.sequences(1) == [1, 2, 3, 4]
    assert client.sequences(2) == [4]


def test_what_does_not_fit_into_one_message_comes_in_several(desk: Desk) -> None:
    for publisher in range(200):
        desk.run(2, publisher=publisher)
    marks = [Mark(uid(publisher), 7, False, 1) for publisher in range(200)] * 4
    requests = [(Subscribe(number, Ask(f"{'b' * 900}/{number}")), 9.0) for number in range(2, 90)]
    messages = list(resume([(Subscribe(1, Ask("a")), 9.0), *requests], marks))
    assert len(messages) > 3
    assert [message.more for message in messages] == [True] * (len(messages) - 1) + [False]
    client = Client()
    for message in messages:
        desk.resubscribe(client, message)
        desk.event(publisher=250)
    desk.go_on(client)
    client.read()
    assert len(client.asks) == 89
    by_publisher = Counter(publisher for publisher, _, _ in client.got[1])
    assert by_publisher.pop(uid(250).hex()) == len(messages)
    assert by_publisher == {uid(publisher).hex(): 1 for publisher in range(200)}


def test_a_client_that_does_not_read_is_sent_no_more_than_a_piece(desk: Desk) -> None:
    for _ in range(500):
        desk.run(50)
    client = Client()
    desk.resubscribe(client, asked())
    for _ in range(50):
        desk.now += nanos(0.05)
        desk.replays.go_on(desk.now)
        desk.event()
    assert client.connection.queued_bytes < 2 * replay.PIECE_BYTES
    desk.go_on(client)
    assert client.sequences() == list(range(1, 25_051))


def test_one_that_reads_too_slowly_goes_on_with_what_comes(desk: Desk) -> None:
    for _ in range(500):
        desk.run(50)
    client = Client()
    desk.resubscribe(client, asked())
    desk.now += KEPT_NS
    desk.event()
    client.read()
    desk.go_on(client)
    desk.event()
    assert desk.counters["replays_overrun"] == 1
    assert client.sequences()[-1] == 25_002


def test_what_was_fetched_is_bounded_and_those_that_have_it_for_longest_miss_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that move here ask for what others keep, and then do not read it."""
    desk.replays.fetch = lambda client, now: True
    clients = [Client() for _ in range(5)]
    for publisher, client in enumerate(clients, start=1):
        desk.resubscribe(client, asked())
        flow = (uid(publisher), 7, NORMAL)
        runs = [kept_run(run_of(flow, n, size=1000), desk.now) for n in range(1, 201)]
        past = Fetched.of(runs)
        monkeypatch.setattr(replays, "FETCHED_BYTES", 2 * past.bytes)
        desk.replays.fetched(client, past, desk.now)
    assert desk.replays.fetched_bytes == 2 * past.bytes
    assert desk.counters["replays_overrun"] == 3
    for _ in range(20):
        desk.now += nanos(0.1)
        desk.replays.go_on(desk.now)
        for client in clients[3:]:
            client.read()
    assert [client.sequences() for client in clients[3:]] == [list(range(1, 201))] * 2
    assert desk.replays.fetched_bytes == 0
    assert len(clients[0].sequences()) < 200
    desk.replays.go_on(desk.now + nanos(0.1))
    desk.event(publisher=9)
    assert clients[0].sequences()[-1] == 1, "it gets what comes now"


def test_clients_that_come_together_share_what_was_fetched(desk: Desk) -> None:
    desk.replays.fetch = lambda client, now: True
    past = Fetched.of([kept_run(run_of((uid(1), 7, NORMAL), n, size=60_000), 1) for n in (1, 2, 3)])
    clients = Client(), Client()
    for client in clients:
        desk.resubscribe(client, asked())
        desk.replays.fetched(client, past, desk.now)
    assert desk.replays.fetched_bytes == past.bytes
    desk.deliveries.forget(clients[0])
    assert desk.replays.fetched_bytes == past.bytes
    desk.go_on(clients[1])
    assert clients[1].sequences() == [1, 2, 3]
    assert desk.replays.fetched_bytes == 0


def test_what_is_kept_from_a_client_counts_as_delivered_to_others_alone(desk: Desk) -> None:
    for _ in range(500):
        desk.run(50)
    client, other = Client(), Client()
    desk.subscribe(other, Subscribe(1, Ask("#")))
    desk.resubscribe(client, asked())
    assert desk.replays.is_behind(client)
    desk.event()
    assert desk.counters["events_delivered"] == 1


def test_a_client_that_goes_leaves_nothing(desk: Desk) -> None:
    for _ in range(500):
        desk.run(50)
    client = Client()
    desk.resubscribe(client, asked())
    desk.deliveries.forget(client)
    desk.go_on()
    assert not desk.replays.is_behind(client)
    assert client.sequences()[-1] < 25_000


def test_what_is_unsubscribed_meanwhile_gets_nothing_more(desk: Desk) -> None:
    for _ in range(500):
        desk.run(50)
    client = Client()
    desk.resubscribe(client, asked())
    client.read()
    had = client.sequences()[-1]
    desk.deliveries.unsubscribe(client, 1)
    desk.go_on(client)
    desk.event()
    assert client.sequences()[-1] == had


def test_of_subscriptions_that_end_or_are_refused_little_is_remembered(desk: Desk) -> None:
    client = Client()
    desk.resubscribe(client, Resubscribe((), (EVERYTHING,), more=True))
    remembered = desk.replays._behind[client]._begins
    for number in range(2, 3000):
        desk.subscribe(client, Subscribe(number, Ask("a")))
        desk.deliveries.unsubscribe(client, number)
        refused = Resubscribe((), (Resubscription(9000 + number, Ask("#"), 0),), more=True)
        desk.replays.take(client, refused, lambda each: None)
        remembered = desk.replays._behind[client]._begins
        assert len(remembered) <= MAX_ENDED + 2
    assert 1 in remembered


steps = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 2), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("run"), st.integers(0, 2), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("lag"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("read"), st.just(0), st.just("")),
        st.tuples(st.just("go on"), st.just(0), st.just("")),
        st.tuples(st.just("subscribe"), st.integers(2, 3), st.sampled_from(["a", "+"])),
        st.tuples(st.just("move"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("wait"), st.integers(0, 12), st.just("")),
    ),
    max_size=60,
)


@given(steps, st.booleans())
def test_whatever_is_kept_lost_and_known_each_event_comes_at_most_once_in_order(
    script: list[tuple[str, int, str]], is_tight: bool
) -> None:
    """A client moves to and fro between two brokers, one of which may lag behind the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "PIECE_RUNS", 3)
        patch.setattr(replay, "PIECE_BYTES", 300)
        patch.setattr(replays, "PIECE_BYTES", 300)
        if is_tight:
            patch.setattr(kept, "KEPT_BYTES", 3000)
        desks = Desk(), Desk()
        lagging: list[tuple[str, int, str]] = []  #: what the second broker has not got yet
        client, home = Client(), 0
        served: dict[int, tuple[Subscribe, Nanos]] = {}

        def subscribe(number: int, text: str) -> None:
            if number not in served:
                request = Subscribe(number, Ask(text))
                served[number] = request, desks[0].now
                desks[home].subscribe(client, request)

        def let_pass(desk: Desk, what: str, publisher: int, topic: str) -> None:
            if what == "event":
                desk.event(publisher, topic)
            else:
                desk.run(4, publisher, topic)

        def settle() -> None:
            """Let the second broker have what the first has."""
            while lagging:
                let_pass(desks[1], *lagging.pop(0))

        subscribe(1, "#")
        for what, number, text in script:
            if what in ("event", "run"):
                let_pass(desks[0], what, number, text)
                lagging.append((what, number, text))
            elif what == "lag":
                for _ in range(min(number, len(lagging))):
                    let_pass(desks[1], *lagging.pop(0))
            elif what == "read":
                client.read()
            elif what == "go on":
                for desk in desks:
                    desk.now += nanos(0.05)
                    desk.replays.go_on(desk.now)
            elif what == "subscribe":
                subscribe(number, text)
            elif what == "wait":
                for desk in desks:
                    desk.now += nanos(number / 5)
            elif what == "move":
                if number:
                    client.read()  # else what is under way is lost with the broker
                lost = client
                desks[home].deliveries.forget(client)
                client = Client()
                client.watermarks, client.got = lost.watermarks, lost.got
                client.watermarks.move()
                home = 1 - home
                now = desks[0].now
                requests = [(each, (now - since) / 1e9) for each, since in served.values()]
                desks[home].resubscribe(client, *resume(requests, list(client.watermarks.marks())))
        settle()
        for desk in desks:
            desk.go_on(client)
        client.read()
        for number in served:
            by_stream: defaultdict[str, list[int]] = defaultdict(list)
            for publisher, _, sequence in client.got[number]:
                by_stream[publisher].append(sequence)
            for got in by_stream.values():
                assert all(a < b for a, b in pairwise(got))
        waited = sum(number for what, number, _ in script if what == "wait") / 5
        if waited < 9 and not is_tight:  # then nothing is forgotten: nothing is missed either
            for (who, secure), last in desks[0].published.items():
                got = [s for p, _, s in client.got[1] if p == uid(who).hex()]
                assert got == list(range(1, last + 1)), (who, secure)
