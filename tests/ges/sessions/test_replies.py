"""When a publisher is told that its events are taken: at once if it waits, or before long."""

from __future__ import annotations

from collections import Counter

import pytest
import structlog
import trio.testing

from ges.sessions.replies import CONFIRM_EVENTS, CONFIRM_NS, Replies
from ges.sessions.session import Session
from ges.wire.client_messages import CLIENT_CODEC, Accepted
from overlay.ids import LinkClass, Nanos
from overlay.links.counted_log import CountedLog
from overlay.net.connection import Connection
from overlay.wire.codec import FrameReader

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS


class Desk:
    """The replies of one broker; the test takes the events."""

    def __init__(self) -> None:
        self.now = Nanos(0)
        self.looks = 0
        counters: Counter[str] = Counter()
        log = CountedLog(counters, structlog.get_logger(), lambda: self.now)
        self.replies = Replies(counters, log, lambda: self.now)
        self.replies.on_due = self._look

    def _look(self) -> None:
        self.looks += 1

    def client(self, *, asks: bool = True) -> Session:
        stream, _ = trio.testing.memory_stream_pair()
        connection = Connection(stream, secure=False, limit_bytes=10_000)
        return Session("a" * 32, 1, connection, mqtt_client_id=None if asks else "m")

    def take(self, client: Session, sequence: int, link_class: LinkClass = NORMAL) -> None:
        """Take an event, alone in what was read."""
        client.accepted[link_class] = sequence
        client.unsaid += 1
        self.replies.settle(client)


def told(client: Session) -> list[tuple[LinkClass, int]]:
    """Return, once, what the client is told to be taken."""
    reader = FrameReader()
    reader.feed(b"".join(client.connection.outbox.take(0)))
    found = [CLIENT_CODEC.decode(body) for _, body in reader.frames()]
    assert all(isinstance(message, Accepted) for message in found)
    return [(m.link_class, m.sequence) for m in found if isinstance(m, Accepted)]


async def test_who_does_not_wait_is_told_once_for_all_before_long() -> None:
    desk = Desk()
    client = desk.client()
    for sequence in (1, 2, 3):
        desk.take(client, sequence)
    assert told(client) == []
    assert desk.replies.next_deadline() == CONFIRM_NS
    assert desk.looks == 1, "the alarm is woken once"
    desk.replies.expire(Nanos(CONFIRM_NS))
    assert told(client) == [(NORMAL, 3)]
    assert desk.replies.next_deadline() is None


async def test_who_waits_is_told_at_once_what_was_taken_before_it_asked() -> None:
    desk = Desk()
    client = desk.client()
    desk.take(client, 1)
    client.is_asking = True
    desk.replies.settle(client)
    assert told(client) == [(NORMAL, 1)]
    desk.take(client, 2)
    assert told(client) == [], "one question is one answer"


async def test_a_question_with_nothing_to_say_is_forgotten() -> None:
    desk = Desk()
    client = desk.client()
    client.is_asking = True
    desk.replies.settle(client)
    desk.take(client, 1)
    assert told(client) == []


@pytest.mark.parametrize(
    ("asks", "link_class"), [(False, NORMAL), (True, EXPRESS)], ids=["never asks", "express"]
)
async def test_others_are_told_at_once(asks: bool, link_class: LinkClass) -> None:
    """A client of MQTT does not ask; express events are not sent again."""
    desk = Desk()
    client = desk.client(asks=asks)
    desk.take(client, 1, link_class)
    assert told(client) == [(link_class, 1)]


async def test_many_events_are_not_left_unsaid() -> None:
    desk = Desk()
    client = desk.client()
    for sequence in range(1, CONFIRM_EVENTS + 1):
        desk.take(client, sequence)
    assert told(client) == [(NORMAL, CONFIRM_EVENTS)]


async def test_who_has_gone_is_told_nothing() -> None:
    desk = Desk()
    client = desk.client()
    desk.take(client, 1)
    desk.replies.forget(client)
    desk.replies.expire(Nanos(CONFIRM_NS))
    assert told(client) == []
