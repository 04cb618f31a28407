"""Which clients are told that a subscription is active."""

from __future__ import annotations

from typing import cast

from ges.sessions.active_notices import PATIENCE_NS, ActiveNotices
from ges.sessions.session import ClientOutlet, Session
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, Active, Level, Subscribed
from overlay.machine import Message
from overlay.wire.codec import FrameReader


class Sent:
    """A connection that keeps what is sent."""

    secure = False

    def __init__(self) -> None:
        self._reader = FrameReader()

    def send(self, item: bytes, events: int = 0) -> None:
        self._reader.feed(item)

    def messages(self) -> list[Message]:
        return [CLIENT_CODEC.decode(body) for _, body in self._reader.frames()]


def session(*numbers: int) -> tuple[Session, Sent]:
    sent = Sent()
    made = Session("a" * 32, 1, cast("ClientOutlet", sent))
    made.asks = dict.fromkeys(numbers, Ask("a"))
    return made, sent


def told(notices: ActiveNotices, *keys: tuple[Session, int]) -> None:
    for client, number in keys:
        notices.begin(client, number, 0)
    notices.on_active(keys, Level.SYSTEM)


def test_each_client_is_told_of_its_own() -> None:
    (one, to_one), (other, to_other) = session(1, 2), session(1)
    told(ActiveNotices(), (one, 1), (other, 1), (one, 2))
    first, second = Active(1, Level.SYSTEM), Active(2, Level.SYSTEM)
    assert to_one.messages() == [Subscribed(1), first, Subscribed(2), second]
    assert to_other.messages() == [Subscribed(1), Active(1, Level.SYSTEM)]


def test_one_that_is_active_at_once_is_accepted_at_once() -> None:
    client, sent = session(1)
    notices = ActiveNotices()
    told(notices, (client, 1))
    assert notices.next_deadline() is None
    assert sent.messages() == [Subscribed(1), Active(1, Level.SYSTEM)]


def test_it_is_accepted_after_a_second_and_active_later() -> None:
    """A broker that does not answer keeps no client from going on."""
    notices = ActiveNotices()
    client, sent = session(1)
    notices.begin(client, 1, 5)
    assert notices.next_deadline() == 5 + PATIENCE_NS
    notices.expire(4 + PATIENCE_NS)
    assert sent.messages() == []
    notices.expire(5 + PATIENCE_NS)
    assert sent.messages() == [Subscribed(1)]
    notices.on_active([(client, 1)], Level.SYSTEM)
    assert sent.messages() == [Active(1, Level.SYSTEM)]


def test_what_has_ended_meanwhile_is_not_told() -> None:
    notices = ActiveNotices()
    client, sent = session(1, 2)
    notices.begin(client, 1, 0)
    notices.end(client, 1)
    del client.asks[1]
    notices.on_active([(client, 1)], Level.SYSTEM)
    assert sent.messages() == [Subscribed(1)], "whoever waits for it waits no longer"
    notices.begin(client, 2, 0)
    client.is_detached = True
    notices.on_active([(client, 2)], Level.SYSTEM)
    assert sent.messages() == []


def test_each_level_is_told_and_it_is_accepted_with_the_last() -> None:
    notices = ActiveNotices()
    client, sent = session(1)
    notices.begin(client, 1, 0)
    for level in (Level.CLUSTER, Level.SUPER_CLUSTER, Level.SYSTEM):
        notices.on_active([(client, 1)], level)
    lower = [Active(1, Level.CLUSTER), Active(1, Level.SUPER_CLUSTER)]
    assert sent.messages() == [*lower, Subscribed(1), Active(1, Level.SYSTEM)]
