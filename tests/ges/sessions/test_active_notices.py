"""Which clients are told that a subscription is active."""

from __future__ import annotations

from typing import cast

from ges.sessions.active_notices import tell_active
from ges.sessions.session import ClientOutlet, Session
from ges.wire.client_messages import CLIENT_CODEC, Active
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


def session(*numbers: int, hears_active: bool = True) -> tuple[Session, Sent]:
    sent = Sent()
    made = Session("a" * 32, 1, cast("ClientOutlet", sent), hears_active=hears_active)
    made.filters = dict.fromkeys(numbers, ("a", None))
    return made, sent


def test_each_client_is_told_of_its_own() -> None:
    (one, to_one), (other, to_other) = session(1, 2), session(1)
    tell_active([(one, 1), (other, 1), (one, 2)])
    assert to_one.messages() == [Active(1, 1), Active(2, 1)]
    assert to_other.messages() == [Active(1, 1)]


def test_a_client_of_an_earlier_version_is_not_told() -> None:
    """It would take it for nonsense, and close the connection."""
    old, sent = session(1, hears_active=False)
    tell_active([(old, 1)])
    assert sent.messages() == []


def test_what_has_ended_meanwhile_is_not_told() -> None:
    client, sent = session(1)
    tell_active([(client, 2)])
    client.is_detached = True
    tell_active([(client, 1)])
    assert sent.messages() == []


def test_a_wider_unit_has_a_higher_level() -> None:
    client, sent = session(1)
    tell_active([(client, 1)], level=2)
    assert sent.messages() == [Active(1, 2)]
