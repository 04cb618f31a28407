"""A router on a bench: broker ``a``, linked to ``b`` and ``c``; the test plays everybody else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

import trio.testing

from ges.delivery.interests import Interests
from ges.matching.asks import ask_for, served
from ges.routing.holding import Holding
from ges.routing.known import Known
from ges.routing.outlets import EventLines
from ges.routing.parts import ExpressRules, RoutingParts
from ges.sessions.session import Session
from ges.statements.held import Statements
from ges.wire.delivered import read_delivery
from ges.wire.event_runs import EventRun
from ges.wire.events import Head, pack_event, read_head
from overlay.ids import LinkClass, Nanos, Peer
from overlay.links.link import Link
from overlay.machine import Input
from overlay.net.connection import Connection
from overlay.net.turn import Turn, Waiting
from overlay.queues.resend import Item
from overlay.queues.streams import Streams
from overlay.wire.codec import FrameReader
from overlay.wire.frames import DELIVERY, EVENT
from ring.wire.messages import Member
from tests.helpers.clusters import HandCluster

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE
PUBLISHER = b"p" * 16


def member(name: str, ring_id: int) -> Member:
    return Member(Peer(name * 32, 1, f"chordal://{name}.test:1", secure=True), ring_id)


RING = {name: member(name, ring_id) for name, ring_id in (("a", 0), ("b", 10), ("c", 20))}


class Bench:
    """The router of broker ``a``, linked to ``b`` and ``c``; what it sends stays in the queues."""

    def __init__(self, *secure: str, limit_bytes: int = 10_000) -> None:
        self.limit = limit_bytes
        self.now = Nanos(0)
        self.links: dict[tuple[str, LinkClass], Link] = {}
        self.counters: Counter[str] = Counter()
        self.failed: set[str] = set()  #: names of brokers that live, behind links that have failed
        self.named: set[str] = set()  #: uids, links to which are named for events
        self.dead: set[str] = set()  #: names of brokers that were declared so
        self.streams = Streams()  #: of links that :meth:`acknowledged` was called for
        self.holding = Holding(
            self.streams,
            lambda peer: peer.uid[0] in self.dead,
            lambda peer: peer.uid[0] in self.failed,
        )
        self.cluster = HandCluster()  #: without a slot: events go by arcs of the ring
        self.given: list[Input] = []  #: to the machine
        self.turn = Turn()  #: knows which queues are crowded
        self.parts = RoutingParts.build(
            EventLines(self.links, is_named=self.named.__contains__),
            self.holding,
            Known(
                self.cluster,
                self.cluster.mask_of,
                self.cluster.groups,
                Statements(),
            ),
            Interests(self.given.append),
            self.counters,
            ExpressRules(),
            rng=random.Random(1),
            now=lambda: self.now,
        )
        self.publisher = Session(PUBLISHER.hex(), 1, self.connection(secure=True))
        for name in "bc":
            for link_class in (NORMAL, SECURE):
                if link_class is NORMAL or name in secure:
                    self.links[name * 32, link_class] = Link(
                        RING[name].peer, link_class, self.connection(link_class is SECURE), 0
                    )
        others = {"b" * 32: RING["b"], "c" * 32: RING["c"]}
        self.update(RING["a"], others, others.values())

    def acknowledged(self, name: str, link_class: LinkClass = NORMAL) -> None:
        """From now on the other end of a link is to acknowledge what it has."""
        link = self.links[name * 32, link_class]
        self.streams.attach((name * 32, link_class), link.peer, 1, link.connection.outbox)

    def gone(self, name: str) -> None:
        """A broker has left: it is off the ring, and its links are down."""
        others = {other.peer.uid: other for key, other in RING.items() if key not in ("a", name)}
        self.update(RING["a"], others, others.values())
        for link_class in (NORMAL, SECURE):
            if self.links.pop((name * 32, link_class), None) is not None:
                self.streams.detach((name * 32, link_class))
                self.on_cut(name * 32, link_class)

    def cut(self, name: str, link_class: LinkClass) -> None:
        """A link broke; the broker behind it is still on the ring."""
        del self.links[name * 32, link_class]
        self.streams.detach((name * 32, link_class))
        self.on_cut(name * 32, link_class)

    def connection(self, secure: bool) -> Connection:
        stream, _ = trio.testing.memory_stream_pair()
        return Connection(stream, secure=secure, limit_bytes=self.limit, turn=self.turn)

    def update(
        self,
        member: Member | None,
        linked: Mapping[str, Member],
        around: Iterable[Member] = (),
    ) -> None:
        """Let broker ``a`` stand there on the ring, or nowhere, among these."""
        self.parts.router.update(member, linked, around, now=self.now)

    def publish(self, head: Head, body: bytes) -> None:
        """Let the client that publishes all these events publish one."""
        self.publish_run(EventRun.of(head, body))

    def publish_run(self, run: EventRun) -> None:
        """Let it publish several."""
        self.parts.router.publish(self.publisher, run, self.now)

    def relay(self, head: Head, body: bytes) -> None:
        """Let an event come over the link to ``c``."""
        self.parts.router.relay(self._line_to_c(), EventRun.of(head, body), self.now)

    def on_cut(self, uid: str, link_class: LinkClass) -> None:
        """A link broke."""
        self.parts.passing.on_cut(uid, link_class, self.now)

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        """Events are for a broker that will not get them."""
        self.parts.passing.on_orphans(peer, link_class, items, self.now)

    def part(self) -> None:
        """Broker ``a`` is about to leave."""
        self.parts.passing.part(self.now)

    @property
    def keeps_events(self) -> bool:
        """Events wait for a link."""
        return self.parts.passing.keeps_events

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` has something to do."""
        ends = (self.parts.recalls.next_deadline(), self.parts.passing.next_deadline(self.now))
        return min((end for end in ends if end is not None), default=None)

    def expire(self) -> None:
        """Let what is due be given up."""
        self.parts.passing.expire(self.now)
        self.parts.answers.send_answers(self.parts.recalls.expire(self.now), self.now)

    def why_not(self, session: Session, head: Head) -> str | None:
        """Return why an event from a client cannot be taken."""
        return self.parts.reach.why_not(session, head)

    def subscribe(
        self,
        session: Session,
        number: int,
        text: str,
        only: LinkClass | None = None,
        queue: str | None = None,
    ) -> None:
        """Let a client have a filter."""
        ask = served(ask_for(text, only, queue), secure=session.secure)
        self.parts.deliveries.subscribe(session, number, ask)

    @property
    def crowded(self) -> set[Waiting]:
        """Queues that who can should wait for."""
        return self.turn.crowded

    def _line_to_c(self) -> Link:
        """Return the link to ``c``, or one like it: most tests play one that is not there."""
        known = self.links.get(("c" * 32, NORMAL))
        return known or Link(RING["c"].peer, NORMAL, self.connection(secure=False), 0)

    def session(self, *filters: str, secure: bool = False) -> Session:
        session = Session("d" * 32, 1, self.connection(secure))
        for number, text in enumerate(filters, start=1):
            self.subscribe(session, number, text)
        return session

    def sent(self, name: str, link_class: LinkClass = NORMAL) -> list[Head]:
        """Return the heads of the events queued for a broker."""
        return [read_head(body) for body in self.sent_bodies(name, link_class)]

    def sent_bodies(self, name: str, link_class: LinkClass = NORMAL) -> list[bytes]:
        frames = frames_to(self.links[name * 32, link_class].connection)
        assert all(kind == EVENT for kind, _ in frames)
        return [body for _, body in frames]


_TAKEN: WeakKeyDictionary[Connection, bytes] = WeakKeyDictionary()  #: out of the queues so far


def frames_to(connection: Connection) -> list[tuple[int, bytes]]:
    while items := connection.outbox.take(0):
        _TAKEN[connection] = _TAKEN.get(connection, b"") + b"".join(items)
    reader = FrameReader()
    reader.feed(_TAKEN.get(connection, b""))
    return reader.frames()


def delivered(session: Session) -> list[tuple[tuple[int, ...], bytes]]:
    assert isinstance(session.connection, Connection)
    frames = frames_to(session.connection)
    assert all(kind == DELIVERY for kind, _ in frames)
    found = [read_delivery(body) for _, body in frames]
    return [(numbers, event.payload) for numbers, events in found for event in events]


def event(sequence: int = 1, *, secure: bool = False, topic: bytes = b"t") -> tuple[Head, bytes]:
    body = pack_event(secure, PUBLISHER, 1, sequence, 0, topic, b"", b"%d" % sequence)
    return read_head(body), body


def cluster(bench: Bench, *wanting: str) -> None:
    """Let all brokers have slots, and links of all classes that are up here; some want ``t``."""
    bench.cluster.found("a" * 32, {name * 32: RING[name].ring_id for name in RING})
    for link_class in (NORMAL, SECURE):
        up = (uid for uid, of in bench.links if of is link_class)
        bench.cluster.link([("a" * 32, uid) for uid in up], [link_class])
    bench.cluster.wanted[b"t"] = sum(1 << "abc".index(name) for name in wanting)


def limit_of(head: Head) -> int:
    """Return where the arc ends that the receiver of an event is to serve."""
    return head.duty.target
