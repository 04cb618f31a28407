"""The client's core, without an event loop: what it sends, and what it makes of what comes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from ges.client.attachment import TRIO
from ges.client.core import ClientCore
from ges.client.gaps import Gap
from ges.client.keepalive import SILENCE_SECONDS
from ges.client.subscription import Subscription
from ges.client.wish import Wish
from ges.errors import ClientClosed, ConnectionLost
from ges.wire.asked import Ask
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Accepted,
    Active,
    Attached,
    KeepAlive,
    Leaving,
    Level,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ges.wire.delivered import pack_matches
from overlay.address import Address
from overlay.errors import CodecError
from overlay.ids import MAX_SEQUENCE, LinkClass
from overlay.machine import Message
from overlay.queues.lanes import ExpressLane, NormalLane, Policy
from overlay.queues.outbox import Outbox
from overlay.queues.resend import Item
from overlay.wire.codec import FrameReader
from overlay.wire.frames import DELIVERY, EVENT, Bytes, frame
from overlay.wire.versions import DIALECT
from tests.helpers.packed import packed

LIMIT = 2**20
WISH = Wish(
    addresses=(Address("a.test", 1),),
    identity=None,
    overlay="chordal",
    uid="c" * 32,
    incarnation=1,
    timeout=math.inf,
    reattach=True,
)


class Sent:
    """A connection that keeps what it is to send."""

    def __init__(self) -> None:
        self.outbox = Outbox(NormalLane(LIMIT, Policy.DISCONNECT), ExpressLane(LIMIT))
        self.crowded = False
        self.queued_bytes = 0
        self.one_way_us = 0
        self.is_finished = False
        self._reader = FrameReader()

    def send(self, item: Bytes, events: int = 0) -> None:
        self._reader.feed(bytes(item))

    def send_again(self, items: Iterable[Item]) -> None:
        for item, events in items:
            self.send(item, events)

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        self.send(item, 1)

    def finish(self) -> None:
        self.is_finished = True

    async def room(self) -> None:
        raise AssertionError("nobody waits here")

    def said(self) -> list[Message]:
        """Return the messages since last asked."""
        return [CLIENT_CODEC.decode(body) for _, body in self._reader.frames()]


def attach(core: ClientCore, url: str, now: float) -> Sent:
    sent = Sent()
    attached = Attached("b" * 32, url, False, DIALECT.highest)
    core.attach(url, attached, FrameReader(), sent, now, 0)
    return sent


def told(message: Message) -> bytes:
    return CLIENT_CODEC.encode(message)


@pytest.fixture
def gaps() -> list[Gap]:
    return []


@pytest.fixture
def core(gaps: list[Gap]) -> ClientCore:
    return ClientCore(WISH, on_gap=gaps.append)


@pytest.fixture
def subscription() -> Subscription:
    return Subscription(TRIO, 1, Ask("a/#"))


def test_the_next_broker_is_asked_for_the_same_and_the_gap_is_told(
    core: ClientCore, subscription: Subscription, gaps: list[Gap]
) -> None:
    first = attach(core, "chordal://a.test:1", 10)
    core.subscribe(subscription)
    assert first.said() == [Subscribe(1, Ask("a/#"))]
    core.receive(told(Active(1, Level.SYSTEM)), 11)
    assert subscription.active.is_set()
    core.lose()
    assert not subscription.active.is_set()
    second = attach(core, "chordal://b.test:1", 13)
    assert second.said() == [Subscribe(1, Ask("a/#"))]
    assert gaps == core.gaps.noted == [Gap("chordal://a.test:1", "chordal://b.test:1", 2)]
    core.unsubscribe(subscription)
    core.unsubscribe(subscription)
    assert second.said() == [Unsubscribe(1)]
    assert first.said() == []


def test_a_broker_that_asks_is_answered_and_one_that_says_nothing_is_asked(
    core: ClientCore,
) -> None:
    sent = attach(core, "chordal://a.test:1", 10)
    core.receive(told(KeepAlive(7, answer=False)), 10)
    assert sent.said() == [KeepAlive(7, answer=True)]
    now = 10.0
    for _ in range(10):
        now += core.state.keepalive.pause(now)
        if core.is_silent(now):
            break
    assert sent.said() == [KeepAlive(token, answer=False) for token in (1, 2)]
    assert now == 10 + SILENCE_SECONDS


def test_a_broker_that_leaves_is_left_once_it_has_taken_all_that_may_not_come_twice(
    core: ClientCore,
) -> None:
    sent = attach(core, "chordal://a.test:1", 10)
    core.send(bytes(core.state.outgoing[LinkClass.EXPRESS].pack_express(b"a", b"", b"", 0, 0)))
    core.receive(told(Leaving()), 10)
    assert core.connection is None, "who publishes waits for the next broker"
    assert not sent.is_finished
    core.receive(told(Accepted(LinkClass.EXPRESS, 1)), 10)
    assert sent.is_finished
    core.lose()
    assert core.leaving is None
    assert core.state.is_confirmed()


def test_bytes_may_come_in_any_pieces(core: ClientCore, subscription: Subscription) -> None:
    attach(core, "chordal://a.test:1", 10)
    core.subscribe(subscription)
    for byte in told(Subscribed(1)) + told(Active(1, Level.SYSTEM)):
        core.receive(bytes([byte]), 10)
    assert core.state.is_decided(1)
    assert subscription.active.is_set()
    with pytest.raises(CodecError):
        core.receive(b"\xff" * 100, 10)


def test_a_client_that_is_closed_takes_nothing_more(
    core: ClientCore, subscription: Subscription
) -> None:
    """Though its connection may bring something until it is closed as well."""
    attach(core, "chordal://a.test:1", 10)
    core.subscribe(subscription)
    core.receive(told(Subscribed(1)), 10)
    core.close()
    core.receive(told(Active(1, Level.SYSTEM)), 10)
    assert subscription.is_over
    assert not subscription.active.is_set()
    with pytest.raises(ClientClosed):
        core.check()


def test_one_that_has_lost_all_brokers_says_why(
    core: ClientCore, subscription: Subscription
) -> None:
    attach(core, "chordal://a.test:1", 10)
    core.check()
    changes: list[bool] = []
    core.on_change = lambda: changes.append(core.is_lost)
    core.lose()
    core.check()
    core.give_up(ConnectionLost("none is left"))
    assert changes == [False, True]
    with pytest.raises(ConnectionLost, match="none is left"):
        core.check()


def test_an_event_that_makes_no_sense_is_left_out_and_the_broker_stays(
    core: ClientCore, subscription: Subscription
) -> None:
    """Whatever a broker of an earlier version has let in."""
    attach(core, "chordal://a.test:1", 10)
    core.subscribe(subscription)
    bodies = [
        packed(sequence=1, payload=b"1"),
        packed(sequence=2, attributes=b"\xc1"),
        packed(sequence=3, attributes=b"\x81\xa1k\xc0"),
        packed(sequence=4, topic=b"\xff"),
        packed(sequence=5)[:80],
        packed(sequence=MAX_SEQUENCE + 1),
        packed(sequence=7, payload=b"7"),
    ]
    events = b"".join(frame(EVENT, body) for body in bodies)
    core.receive(frame(DELIVERY, pack_matches((1,)) + events), 11)
    assert [subscription.pop().payload for _ in range(2)] == [b"1", b"7"]  # type: ignore[union-attr]
    assert core.unreadable == 5
    core.receive(told(Subscribed(1)), 12)
    assert core.state.is_decided(1), "the broker is heard on"
    with pytest.raises(CodecError):
        core.receive(frame(DELIVERY, pack_matches((1,)) + frame(DELIVERY, b"")), 13)
