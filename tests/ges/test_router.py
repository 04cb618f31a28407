"""One broker's routing: onward by tree or by the graph of secure links, out to those who match."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from weakref import WeakKeyDictionary

import msgspec
import pytest
import trio.testing

from ges.events import (
    FLOOD_FLAG,
    MAX_HOPS,
    PATCH,
    PATCH_AT,
    PATCH_END,
    SECURE_FLAG,
    Head,
    pack_event,
    read_delivery,
    read_head,
)
from ges.forwarding import MAX_REROUTED_HOPS
from ges.holding import Holding
from ges.linkstate import SecureGraph
from ges.messages import SecureState
from ges.roundabout import pack_way, read_way
from ges.router import HELD_BYTES, Router
from ges.runs import event_runs
from ges.session import Session
from overlay.codec import DELIVERY, DETOUR, EVENT, FrameReader, frame
from overlay.connection import Connection
from overlay.errors import CodecError, ProtocolError
from overlay.ids import LinkClass, Peer
from overlay.lanes import Policy
from overlay.link import Link
from overlay.streams import Streams
from ring.messages import Member

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
PUBLISHER = b"p" * 16


def member(name: str, ring_id: int) -> Member:
    return Member(Peer(name * 32, 1, f"chordal://{name}.test:1", secure=True), ring_id)


RING = {name: member(name, ring_id) for name, ring_id in (("a", 0), ("b", 10), ("c", 20))}


class Bench:
    """The router of broker ``a``, linked to ``b`` and ``c``; what it sends stays in the queues."""

    def __init__(self, *secure: str, limit_bytes: int = 10_000) -> None:
        self.limit = limit_bytes
        self.links: dict[tuple[str, LinkClass], Link] = {}
        self.graph = SecureGraph("a" * 32)
        self.counters: Counter[str] = Counter()
        self.detours: dict[str, tuple[str, ...]] = {}
        self.ways: dict[tuple[str, LinkClass], tuple[str, ...]] = {}  #: relay paths in use
        self.paths: dict[tuple[str, LinkClass], tuple[str, ...]] = {}  #: any that are known
        self.streams = Streams()  #: of links that :meth:`acknowledged` was called for
        self.router = Router(
            self.links,
            self.graph,
            self.counters,
            lambda: 0,
            self.detours,
            self.ways,
            path=self.paths.get,
            holding=Holding(self.streams, lambda peer: False),
        )
        self.publisher = Session(PUBLISHER.hex(), 1, self.connection(secure=True))
        for name in "bc":
            for link_class in (NORMAL, SECURE):
                if link_class is NORMAL or name in secure:
                    self.links[name * 32, link_class] = Link(
                        RING[name].peer, link_class, self.connection(link_class is SECURE), 0
                    )
        others = {"b" * 32: RING["b"], "c" * 32: RING["c"]}
        self.router.update(RING["a"], others, others.values())
        for name, linked in (("a", "b"), ("b", "ac"), ("c", "b")):
            uids = tuple(other * 32 for other in linked)
            self.graph.learn(SecureState(name * 32, 1, 1, RING[name].ring_id, uids, False))

    def acknowledged(self, name: str, link_class: LinkClass = NORMAL) -> None:
        """From now on the other end of a link is to acknowledge what it has."""
        link = self.links[name * 32, link_class]
        self.streams.attach((name * 32, link_class), link.peer, 1, link.connection.outbox)

    def gone(self, name: str) -> None:
        """A broker has left: it is off the ring, and its links are down."""
        others = {other.peer.uid: other for key, other in RING.items() if key not in ("a", name)}
        self.router.update(RING["a"], others, others.values())
        for link_class in (NORMAL, SECURE):
            if self.links.pop((name * 32, link_class), None) is not None:
                self.streams.detach((name * 32, link_class))
                self.router.on_cut(name * 32, link_class)

    def connection(self, secure: bool) -> Connection:
        stream, _ = trio.testing.memory_stream_pair()
        return Connection(stream, secure=secure, limit_bytes=self.limit)

    def publish(self, head: Head, body: bytes) -> None:
        """Let the client that publishes all these events publish one."""
        self.router.publish(self.publisher, head, body)

    def pass_on(self, body: bytes, link_class: LinkClass = NORMAL) -> None:
        """Let an event for somebody else come over the link to ``c``."""
        self.router.pass_on(self.links["c" * 32, link_class], body)

    def session(self, *filters: str, secure: bool = False) -> Session:
        session = Session("d" * 32, 1, self.connection(secure))
        for number, text in enumerate(filters, start=1):
            self.router.subscribe(session, number, text, None)
        return session

    def sent(self, name: str, link_class: LinkClass = NORMAL) -> list[Head]:
        """Return the heads of the events queued for a broker."""
        return [read_head(body) for body in self.sent_bodies(name, link_class)]

    def sent_round(
        self, name: str, link_class: LinkClass = NORMAL
    ) -> list[tuple[tuple[str, ...], Head]]:
        """Return the events queued for a broker on their way round a link."""
        frames = _frames(self.links[name * 32, link_class].connection)
        found = [read_way(body) for kind, body in frames if kind == DETOUR]
        return [(way, read_head(body)) for way, body in found]

    def sent_bodies(self, name: str, link_class: LinkClass = NORMAL) -> list[bytes]:
        frames = _frames(self.links[name * 32, link_class].connection)
        assert all(kind == EVENT for kind, _ in frames)
        return [body for _, body in frames]


_TAKEN: WeakKeyDictionary[Connection, bytes] = WeakKeyDictionary()  #: out of the queues so far


def _frames(connection: Connection) -> list[tuple[int, bytes]]:
    while items := connection.outbox.take(0):
        _TAKEN[connection] = _TAKEN.get(connection, b"") + b"".join(items)
    reader = FrameReader()
    reader.feed(_TAKEN.get(connection, b""))
    return reader.frames()


def delivered(session: Session) -> list[tuple[tuple[int, ...], bytes]]:
    frames = _frames(session.connection)
    assert all(kind == DELIVERY for kind, _ in frames)
    found = [read_delivery(body) for _, body in frames]
    return [(numbers, event.payload) for numbers, events in found for event in events]


def event(sequence: int = 1, *, secure: bool = False, topic: bytes = b"t") -> tuple[Head, bytes]:
    body = pack_event(secure, PUBLISHER, 1, sequence, 0, topic, b"", b"%d" % sequence)
    return read_head(body), body


async def test_a_normal_event_goes_by_the_tree() -> None:
    bench = Bench("b")
    bench.publish(*event())
    assert [(head.limit, head.hops) for head in bench.sent("b")] == [(20, 1)]
    assert [(head.limit, head.hops) for head in bench.sent("c")] == [(0, 1)]
    assert bench.sent("b", SECURE) == []


async def test_a_secure_event_goes_by_secure_links_alone() -> None:
    bench = Bench("b")
    bench.publish(*event(secure=True))
    (head,) = bench.sent("b", SECURE)
    assert head.secure
    assert (head.limit, head.hops) == (RING["a"].ring_id, 1), "the place it was published at"
    assert head.flood, "a ring neighbour without a secure link: the tree would have a hole"
    assert bench.sent("b") == bench.sent("c") == []


async def test_secure_events_that_come_together_go_by_secure_links_alone() -> None:
    """The short way that runs of normal events take is none for them."""
    bench = Bench("b")
    plain, secured = bench.session("t"), bench.session("t", secure=True)
    bench.publish(*event(1, secure=True))
    bodies = [event(number, secure=True)[1] for number in (2, 3)]
    data = b"".join(frame(EVENT, body) for body in bodies)
    bounds = list(accumulate((len(frame(EVENT, body)) for body in bodies), initial=0))
    for run in event_runs(data, bounds):
        bench.router.publish_run(bench.publisher, run)
    assert [head.sequence for head in bench.sent("b", SECURE)] == [1, 2, 3]
    assert bench.sent("b") == bench.sent("c") == []
    assert delivered(plain) == []
    assert [payload for _, payload in delivered(secured)] == [b"1", b"2", b"3"]


def complete(bench: Bench, *names: str) -> None:
    """Let these brokers say that all their ring neighbours have secure links to them."""
    for name in names:
        uids = tuple(other * 32 for other in "abc" if other != name)
        place = RING[name].ring_id
        bench.graph.learn(SecureState(name * 32, 1, 9, place, uids, False, True))


async def test_where_all_links_are_secure_a_secure_event_goes_by_the_tree() -> None:
    bench = Bench("b", "c")
    complete(bench, "a", "b", "c")
    bench.publish(*event(secure=True))
    found = [bench.sent(name, SECURE)[0] for name in "bc"]
    assert [(head.limit, head.flood) for head in found] == [(20, False), (0, False)]


async def test_a_hole_anywhere_makes_a_secure_event_go_to_all_linked() -> None:
    bench = Bench("b", "c")
    complete(bench, "a", "b")
    bench.publish(*event(secure=True))
    assert all(bench.sent(name, SECURE)[0].flood for name in "bc")


async def test_what_goes_to_all_linked_goes_on_so() -> None:
    bench = Bench("b", "c")
    complete(bench, "a", "b", "c")
    flooded = Bench("b")
    flooded.publish(*event(secure=True))
    (kind, body), *_ = _frames(flooded.links["b" * 32, SECURE].connection)
    assert kind == EVENT
    bench.router.relay(read_head(body), body)
    assert all(bench.sent(name, SECURE)[0].flood for name in "bc")
    bench.router.relay(read_head(body), body)
    assert all(len(bench.sent(name, SECURE)) == 1 for name in "bc"), "and ends where it came before"


async def test_a_secure_link_that_is_gone_has_no_substitute() -> None:
    bench = Bench("b")
    del bench.links["b" * 32, SECURE]
    bench.publish(*event(secure=True))
    assert bench.sent("b") == bench.sent("c") == []
    assert bench.counters["events_without_link"] == 1


async def test_what_came_before_is_not_passed_on_again() -> None:
    bench = Bench()
    for sequence in (1, 2, 2, 1):
        bench.router.relay(*event(sequence))
    assert [head.sequence for head in bench.sent("b")] == [1, 2]
    assert bench.counters["events_duplicate"] == 2


async def test_what_came_too_early_is_passed_on_at_once_and_delivered_in_order() -> None:
    bench = Bench()
    session = bench.session("t")
    for sequence in (1, 3, 2):
        bench.router.relay(*event(sequence))
    assert [head.sequence for head in bench.sent("b")] == [1, 3, 2]
    assert [payload for _, payload in delivered(session)] == [b"1", b"2", b"3"]


async def test_a_new_subscription_counts_at_once() -> None:
    bench = Bench()
    early = bench.session("t")
    bench.publish(*event(1))
    late = bench.session("+")
    bench.publish(*event(2))
    assert delivered(early) == [((1,), b"1"), ((1,), b"2")]
    assert delivered(late) == [((1,), b"2")]


@pytest.mark.parametrize("how", ["unsubscribe", "forget"])
async def test_one_that_ended_counts_no_more(how: str) -> None:
    bench = Bench()
    session = bench.session("t")
    bench.publish(*event(1))
    if how == "forget":
        bench.router.forget(session)
    else:
        bench.router.unsubscribe(session, 1)
    bench.publish(*event(2))
    assert delivered(session) == [((1,), b"1")]
    assert bench.router.subscriptions == 0


async def test_a_number_used_again_replaces_its_filter() -> None:
    bench = Bench()
    session = bench.session("t")
    bench.router.subscribe(session, 1, "u", None)
    bench.publish(*event(1))
    bench.publish(*event(2, topic=b"u"))
    assert delivered(session) == [((1,), b"2")]
    assert bench.router.subscriptions == 1


async def test_one_client_gets_an_event_once_with_all_its_numbers() -> None:
    bench = Bench()
    session = bench.session("t", "#", "x", "+")
    bench.publish(*event())
    assert delivered(session) == [((1, 2, 4), b"1")]


async def test_classes_are_kept_apart() -> None:
    bench = Bench("b")
    plain, secured = bench.session("#"), bench.session("#", secure=True)
    bench.router.subscribe(secured, 2, "#", SECURE)
    bench.router.subscribe(secured, 3, "#", NORMAL)
    bench.publish(*event(1, secure=True))
    bench.publish(*event(1))
    assert delivered(plain) == [((1,), b"1")]
    assert [numbers for numbers, _ in delivered(secured)] == [(1, 2), (1, 3)]


async def test_crowded_queues_are_named() -> None:
    bench = Bench(limit_bytes=150)
    session = bench.session("t")
    bench.publish(*event(1))
    assert bench.router.crowded == set()
    bench.publish(*event(2))
    b, c = (bench.links[name * 32, NORMAL].connection for name in "bc")
    assert bench.router.crowded == {session.connection, b, c}
    bench.router.forget(session)
    assert bench.router.crowded == {b, c}


async def test_off_the_ring_nothing_is_taken_or_passed_on() -> None:
    bench = Bench()
    session = bench.session("t")
    bench.router.update(None, {})
    head, body = event()
    assert bench.router.why_not(session, head) == "this broker is not on the ring at the moment"
    bench.router.relay(head, body)
    assert bench.sent("b") == []
    assert delivered(session) == [((1,), b"1")], "but those who are here get what comes"


async def test_why_a_secure_event_is_not_taken() -> None:
    bench = Bench("b")
    plain, secured = bench.session(), bench.session(secure=True)
    head, body = event(secure=True)
    assert body[0] == SECURE_FLAG
    assert bench.router.why_not(secured, head) is None
    assert "chordals://" in (bench.router.why_not(plain, head) or "")
    bench.graph.learn(SecureState("c" * 32, 1, 2, 20, (), False))
    assert "cccccccc (ring id 20)" in (bench.router.why_not(secured, head) or "")
    assert bench.router.why_not(secured, event()[0]) is None, "a normal one is"


async def test_after_a_broken_link_the_next_event_of_everybody_is_marked() -> None:
    bench = Bench()
    bench.publish(*event(1))
    bench.router.on_loss()
    bench.publish(*event(2))
    bench.publish(*event(3))
    assert [head.marked for head in bench.sent("b")] == [False, True, False]


async def test_where_nobody_sees_the_mark_the_next_event_is_marked_too() -> None:
    """A broker that is cut off loses all links; what it publishes then must not use the mark up."""
    bench = Bench()
    bench.publish(*event(1))
    bench.router.on_loss()
    bench.router.update(RING["a"], {})
    bench.publish(*event(2))
    others = {"b" * 32: RING["b"]}
    bench.router.update(RING["a"], others)
    bench.publish(*event(3))
    bench.publish(*event(4))
    assert [(head.sequence, head.marked) for head in bench.sent("b")] == [
        (1, False),
        (3, True),
        (4, False),
    ]


async def test_a_mark_goes_all_the_way() -> None:
    bench, next_bench = Bench(), Bench()
    bench.publish(*event(1))
    bench.router.on_loss()
    bench.publish(*event(2))
    for head, body in zip(bench.sent("b"), bench.sent_bodies("b"), strict=True):
        next_bench.router.relay(head, body)
    assert [head.marked for head in next_bench.sent("b")] == [False, True]


async def test_who_published_elsewhere_before_or_was_refused_is_marked() -> None:
    bench = Bench()
    for sequence in (7, 8, 10, 11):
        bench.publish(*event(sequence))
    assert [head.marked for head in bench.sent("b")] == [True, False, True, False]


async def test_publishers_to_be_marked_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that is nobody's neighbour could name one after the other."""
    monkeypatch.setattr("ges.router.MAX_TO_MARK", 3)
    bench = Bench()
    for number in range(10):
        head = msgspec.structs.replace(event()[0], publisher=b"%016d" % number)
        bench.router.on_loss(head)
    assert [key[0] for key in bench.router._to_mark] == [b"%016d" % n for n in (7, 8, 9)]


async def test_what_waits_counts_with_the_memory_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small events take more memory than they have bytes."""
    monkeypatch.setattr("ges.sequence.MAX_HELD_BYTES", 10 * HELD_BYTES)
    bench = Bench()
    got = bench.session("#")
    bench.router.relay(*event(1))
    for sequence in range(3, 12):
        bench.router.relay(*event(sequence))
    assert len(_frames(got.connection)) > 1, "what is missing is given up"


async def test_where_not_all_can_be_known_nothing_secure_is_taken() -> None:
    bench = Bench("b", "c")
    head, _ = event(1, secure=True)
    assert bench.router.why_not(bench.publisher, head) is None
    bench.graph.is_overfull = True
    assert "keep track" in (bench.router.why_not(bench.publisher, head) or "")


async def test_what_came_by_the_tree_and_comes_again_to_all_is_passed_on_once() -> None:
    bench = Bench("b", "c")
    complete(bench, "a", "b", "c")
    _, body = event(secure=True)
    flooded = bytes((SECURE_FLAG | FLOOD_FLAG,)) + body[1:]
    for copy in (body, flooded, flooded):
        bench.router.relay(read_head(copy), copy)
    assert [head.flood for head in bench.sent("b", SECURE)] == [False, True]
    assert bench.counters["events_duplicate"] == 2


# Round a failed link: C is linked to both, A and B are not


A_B = ("a" * 32, "c" * 32, "b" * 32)


async def test_an_event_for_a_broker_behind_a_failed_link_goes_round_it() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = A_B
    bench.publish(*event())
    assert [(way, head.limit, head.hops) for way, head in bench.sent_round("c")] == [
        (("b" * 32,), 20, 1)
    ]
    assert bench.counters["events_sent_round"] == 1
    assert bench.counters["events_without_link"] == 0


async def test_the_one_in_between_makes_a_plain_event_of_it_again() -> None:
    bench, between = Bench(), Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = A_B
    session = between.session("t")
    bench.publish(*event())
    [body] = [
        body for kind, body in _frames(bench.links["c" * 32, NORMAL].connection) if kind == DETOUR
    ]
    between.pass_on(body)
    [head] = between.sent("b")
    assert (head.limit, head.hops, head.sequence) == (20, 1, 1)
    assert delivered(session) == [], "it was not meant for this broker"


async def test_a_longer_way_is_struck_off_step_by_step() -> None:
    bench = Bench()
    _, body = event()
    bench.router.pass_on(
        bench.links["b" * 32, NORMAL], pack_way(("b" * 32, "d" * 32, "e" * 32)) + body
    )
    assert [way for way, _ in bench.sent_round("b")] == [("d" * 32, "e" * 32)]


async def test_a_link_that_is_back_is_used_again() -> None:
    bench = Bench()
    bench.detours["b" * 32] = A_B
    bench.publish(*event())
    assert len(bench.sent("b")) == 1
    assert bench.counters["events_sent_round"] == 0


async def test_where_the_way_round_is_gone_too_the_event_is_counted_as_lost() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = ("a" * 32, "d" * 32, "b" * 32)
    bench.publish(*event())
    assert bench.counters["events_without_link"] == 1
    _, body = event()
    bench.pass_on(pack_way(("d" * 32,)) + body)
    assert bench.counters["events_without_link"] == 2


async def test_secure_events_do_not_go_round_over_normal_links() -> None:
    bench = Bench("b")
    del bench.links["b" * 32, SECURE]
    bench.detours["b" * 32] = A_B
    bench.publish(*event(secure=True))
    assert bench.sent("b") == bench.sent("c") == []
    _, body = event(secure=True)
    with pytest.raises(ProtocolError, match="secure"):
        bench.pass_on(pack_way(("b" * 32,)) + body)


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\x01" + b"b" * 15, bytes((16,)) + b"b" * 300, b"\x01" + b"b" * 16]
)
async def test_a_way_round_that_makes_no_sense(body: bytes) -> None:
    with pytest.raises(CodecError):
        Bench().pass_on(body)


async def test_queues_on_the_way_round_are_watched_as_others() -> None:
    bench = Bench(limit_bytes=150)
    _, body = event()
    for _ in range(2):
        bench.pass_on(pack_way(("b" * 32,)) + body)
    assert bench.router.crowded == {bench.links["b" * 32, NORMAL].connection}


# By a relay that is faster


async def test_an_event_takes_the_relay_that_was_chosen_and_not_the_link() -> None:
    bench = Bench()
    bench.ways["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event())
    assert [way for way, _ in bench.sent_round("c")] == [("b" * 32,)]
    assert bench.sent("b") == []
    assert bench.counters["events_sent_round"] == 1
    assert bench.counters["events_forwarded"] == 2, "to b and to c"
    assert list(bench.router.told) == ["c" * 32], (
        "b does not hear from us, so it is due a heartbeat"
    )


async def test_the_relay_comes_before_the_way_round_a_failed_link() -> None:
    bench = Bench()
    del bench.links["b" * 32, NORMAL]
    bench.detours["b" * 32] = ("a" * 32, "d" * 32, "b" * 32)
    bench.ways["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event())
    assert [way for way, _ in bench.sent_round("c")] == [("b" * 32,)]


async def test_a_relay_for_one_class_is_none_for_another() -> None:
    bench = Bench("b", "c")
    bench.ways["b" * 32, NORMAL] = ("c" * 32, "b" * 32)
    bench.publish(*event(secure=True))
    assert len(bench.sent("b", SECURE)) == 1
    assert len(bench.sent("c", SECURE)) == 1


async def test_a_secure_event_takes_a_relay_over_secure_links_alone() -> None:
    bench, between = Bench("b", "c"), Bench("b", "c")
    bench.ways["b" * 32, SECURE] = ("c" * 32, "b" * 32)
    bench.publish(*event(secure=True))
    assert [way for way, _ in bench.sent_round("c", SECURE)] == [("b" * 32,)]
    assert bench.sent("b") == bench.sent("c") == bench.sent("b", SECURE) == []
    frames = _frames(bench.links["c" * 32, SECURE].connection)
    [body] = [body for kind, body in frames if kind == DETOUR]
    between.pass_on(body, SECURE)
    assert len(between.sent("b", SECURE)) == 1
    assert between.sent("b") == []
    with pytest.raises(ProtocolError, match="secure"):
        between.pass_on(body)


async def test_without_its_secure_link_a_relay_passes_no_secure_event_on() -> None:
    between = Bench("c")
    _, body = event(secure=True)
    between.pass_on(pack_way(("b" * 32,)) + body, SECURE)
    assert between.sent("b") == []
    assert between.counters["events_without_link"] == 1


async def test_where_the_next_link_has_gone_the_one_behind_it_will_do() -> None:
    bench = Bench()
    _, body = event()
    bench.pass_on(pack_way(("d" * 32, "b" * 32, "e" * 32)) + body)
    assert [way for way, _ in bench.sent_round("b")] == [("e" * 32,)]
    assert bench.counters["events_without_link"] == 0


async def test_without_a_link_to_the_next_an_event_takes_the_way_that_is_known_here() -> None:
    bench = Bench()
    bench.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    _, body = event()
    hops = read_head(body).hops
    bench.pass_on(pack_way(("d" * 32,)) + body)
    assert [(way, head.hops) for way, head in bench.sent_round("c")] == [(("d" * 32,), hops + 1)]
    assert bench.counters["events_rerouted"] == 1
    assert bench.counters["events_without_link"] == 0


async def test_no_event_takes_yet_another_way_for_ever() -> None:
    """Two brokers that each hold the other for the way there."""
    here, there = Bench(), Bench()
    here.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    there.paths["d" * 32, NORMAL] = ("a" * 32, "b" * 32, "d" * 32)
    _, body = event()
    benches = [(here, "c"), (there, "b")]
    frame = pack_way(("d" * 32,)) + body
    for turn in range(2 * MAX_REROUTED_HOPS):
        bench, towards = benches[turn % 2]
        bench.pass_on(frame)
        sent = _frames(bench.links[towards * 32, NORMAL].connection)
        if len(sent) <= turn // 2:
            break
        frame = sent[-1][1]
    assert here.counters["events_rerouted"] + there.counters["events_rerouted"] == MAX_REROUTED_HOPS
    assert here.counters["events_without_link"] + there.counters["events_without_link"] == 1


async def test_a_secure_event_takes_another_way_over_secure_links_alone() -> None:
    bench = Bench("b", "c")
    bench.paths["d" * 32, NORMAL] = ("a" * 32, "c" * 32, "d" * 32)
    _, body = event(secure=True)
    bench.pass_on(pack_way(("d" * 32,)) + body, SECURE)
    assert bench.sent("c") == bench.sent("b", SECURE) == bench.sent("c", SECURE) == []
    assert bench.counters["events_without_link"] == 1
    bench.paths["d" * 32, SECURE] = ("a" * 32, "b" * 32, "d" * 32)
    bench.pass_on(pack_way(("d" * 32,)) + body, SECURE)
    assert [way for way, _ in bench.sent_round("b", SECURE)] == [("d" * 32,)]


async def test_secure_events_that_wait_do_not_go_round_over_normal_links() -> None:
    """Their link is cut, and there is a way round the normal one beside it."""
    bench = Bench("b")
    key = ("b" * 32, SECURE)
    streams = bench.router._holding._streams
    cut = bench.links.pop(key).connection
    streams.attach(key, RING["b"].peer, 1, cut.outbox)
    cut.send(frame(EVENT, event(secure=True)[1]), 1)
    streams.detach(key)
    bench.router.on_cut(*key)
    bench.links.pop(("b" * 32, NORMAL))
    bench.detours["b" * 32] = ("a" * 32, "c" * 32, "b" * 32)
    bench.router.update(RING["a"], {"c" * 32: RING["c"]}, (RING["b"], RING["c"]))
    assert bench.sent_round("c") == []
    assert key in bench.router._holding.held, "it waits on"


async def test_secure_events_are_not_dropped_for_a_slow_client() -> None:
    """Normal ones are, where the broker is set so; a secure one is never lost without a word."""
    bench = Bench("b", "c", limit_bytes=3000)
    session = bench.session("t", secure=True)
    lane = session.connection.outbox.normal
    lane.policy = Policy.DROP_OLDEST
    for sequence in range(1, 100):
        bench.publish(*event(sequence))
    assert lane.dropped > 0
    assert not session.connection.overflowed
    for sequence in range(1, 100):
        bench.publish(*event(sequence, secure=True))
    assert session.connection.overflowed


# In place of a broker that has left


async def test_what_a_broker_that_left_has_not_acknowledged_goes_to_who_stands_in() -> None:
    bench = Bench()
    bench.acknowledged("c")
    bench.publish(*event())
    assert [head.limit for head in bench.sent("c")] == [0]
    bench.gone("c")
    assert [(head.limit, head.again) for head in bench.sent("b")] == [(20, False), (0, True)]
    assert bench.counters["events_sent_on"] == 1
    assert bench.counters["events_unacknowledged_dropped"] == 0


async def test_secure_events_for_it_go_to_all_over_secure_links() -> None:
    bench = Bench("b", "c")
    complete(bench, "a", "b", "c")
    bench.acknowledged("c", SECURE)
    bench.publish(*event(secure=True))
    assert len(bench.sent("c", SECURE)) == 1
    bench.gone("c")
    assert [head.flood for head in bench.sent("b", SECURE)] == [False, True]
    assert bench.sent("b") == []


async def test_where_it_was_alone_in_its_part_of_the_ring_nothing_is_lost() -> None:
    bench = Bench()
    bench.acknowledged("b")
    bench.publish(*event())
    assert [head.limit for head in bench.sent("b")] == [20]
    bench.gone("b")
    assert [head.limit for head in bench.sent("c")] == [0]
    assert bench.counters["events_unacknowledged_dropped"] == 0


async def test_an_event_on_its_way_to_a_broker_that_left_goes_to_who_stands_in() -> None:
    bench = Bench()
    bench.gone("c")
    _, body = event()
    bench.router.pass_on(bench.links["b" * 32, NORMAL], pack_way(("c" * 32,)) + body)
    assert [(head.limit, head.again) for head in bench.sent("b")] == [(0, True)]
    assert bench.counters["events_without_link"] == 0


async def test_events_that_went_too_far_are_counted_and_the_next_is_marked() -> None:
    bench = Bench()
    head, body = event()
    far = body[:PATCH_AT] + PATCH.pack(MAX_HOPS, 0) + body[PATCH_END:]
    bench.router.relay(read_head(far), far)
    assert bench.counters["events_too_many_hops"] == 1
    assert bench.sent("b") == bench.sent("c") == []
    head, body = event(2)
    bench.router.relay(head, body)
    assert [head.marked for head in bench.sent("b")] == [True]
