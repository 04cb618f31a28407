"""A broker without I/O: what the machine and the way of events tell each other."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ges.node import BrokerNode
from ges.stack import Stack
from ges.wire.events import Duty, redirected
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Nanos, Peer
from overlay.machine import Input
from overlay.queues.streams import Streams
from overlay.wire.codec import FrameRun
from overlay.wire.frames import DELIVERY, EVENT, Bytes, frame
from ring.config import LAN
from tests.helpers.router_bench import event

NORMAL, SECURE = LinkClass.NORMAL, LinkClass.SECURE


class Queue:
    """An outlet that shows what is put into it."""

    one_way_us = 0
    queued_bytes = 0

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def send(self, item: Bytes, events: int = 0) -> None:
        self.items.append(bytes(item))

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        self.items.append(bytes(item))


class Wire:
    """A line without anything behind it."""

    def __init__(self, name: str, link_class: LinkClass = NORMAL) -> None:
        self.peer = Peer(name * 32, 1, f"chordal://{name}.test:1", secure=True)
        self.link_class = link_class
        self.connection = Queue()
        self.known = 0  #: events that have come before

    def arrived(self, count: int) -> int:
        return min(count, self.known)


class Bench:
    """The stack of broker ``a``, off the ring, with lines to ``b`` and ``c``."""

    def __init__(self) -> None:
        self.given: list[Input] = []
        self.counters: Counter[str] = Counter()
        wires = [Wire("b"), Wire("c"), Wire("b", SECURE)]
        self.lines = {(wire.peer.uid, wire.link_class): wire for wire in wires}
        node = BrokerNode(LAN, Peer("a" * 32, 1, "chordal://a.test:1"), random.Random(1))
        self.stack = Stack(
            node,
            self.lines,
            Streams(),
            self.counters,
            now=lambda: Nanos(0),
            give=self.given.append,
        )

    def take(self, name: str, kind: int, body: bytes, link_class: LinkClass = NORMAL) -> None:
        data = frame(kind, body)
        run = FrameRun(kind, data, [0, len(data)])
        for _ in self.stack.take(self.lines[name * 32, link_class], run):
            pass


def test_a_secure_event_does_not_come_over_a_link_that_is_not() -> None:
    bench = Bench()
    head, body = event(secure=True)
    named = redirected(body, head.flags, 1, 0, 0, Duty(1, 0, 1, 0))
    with pytest.raises(ProtocolError, match="on a link that is not"):
        bench.take("c", EVENT, named)
    bench.take("b", EVENT, named, SECURE)
    with pytest.raises(ProtocolError, match="names no broker"):
        bench.take("b", EVENT, body, SECURE)


def test_a_broker_delivers_nothing_to_another() -> None:
    with pytest.raises(ProtocolError, match="delivery"):
        Bench().take("c", DELIVERY, b"")


def test_what_came_over_an_earlier_connection_is_dropped() -> None:
    bench = Bench()
    line = bench.lines["c" * 32, NORMAL]
    line.known = 1
    bench.take("c", EVENT, event()[1])
    assert bench.counters["events_received_twice"] == 1
    assert bench.counters["events_received"] == 0
    line.known = 0
    bench.take("c", EVENT, event()[1])
    assert bench.counters["events_received"] == 1


def test_an_event_of_an_older_broker_whose_topic_acts_on_terminals_is_dropped() -> None:
    bench = Bench()
    bench.take("c", EVENT, event(1, topic=b"a\x1b[2J")[1])
    assert bench.counters == {"events_topic_refused": 1}
    assert bench.lines["b" * 32, NORMAL].connection.items == []
    bench.take("c", EVENT, event(2, topic=b"a")[1])
    assert bench.counters["events_topic_refused"] == 1, "the link goes on"
