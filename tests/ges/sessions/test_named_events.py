"""Events for named clients that wait for answers: what one client, one address and all may have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ges.sessions import named_events
from ges.sessions.named_events import NamedEvents
from ges.sessions.session import Session
from ges.stack import Stack
from ges.wire.event_runs import EventRun
from ges.wire.events import pack_event, read_head
from overlay.shares import source_of


class Deaf:
    """A stack to which nobody answers where named clients are."""

    on_names: Any = None

    def watch(self, timed: object) -> None:
        """It has no timer."""

    def holders(self, name: str) -> None:
        """Nobody knows."""

    def follow_holders(self) -> None:
        """Nothing went to anybody."""

    def ask_for_names(self, names: list[str]) -> None:
        """Nobody is asked."""


def session(host: str) -> Session:
    return Session("a" * 32, 1, cast("Any", None), source=source_of(host, None))


def event(sequence: int, size: int) -> EventRun:
    body = pack_event(False, b"p" * 16, 1, sequence, 0, b"t", b"", bytes(size), to=("n",))
    return EventRun.of(read_head(body), body)


def test_events_of_one_address_leave_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty connections of it keep no more than its share, and who goes frees what it had."""
    monkeypatch.setattr(named_events, "MAX_ALL_BYTES", 64 * 1024)
    waiting = NamedEvents(cast("Stack", Deaf()), lambda *_: None, lambda _: None)
    strangers = [session("10.0.0.1") for _ in range(20)]
    run = event(1, 1024)
    why = [waiting.keep(each, run) for each in strangers if waiting.must_wait(each, run)]
    assert why[:12] == [None] * 12
    assert why[-1] is not None
    assert why[-1].startswith("address 10.0.0.1 may have 14336 bytes of events for named clients")
    assert waiting.keep(session("10.0.0.2"), run) is None
    for each in strangers:
        waiting.forget(each)
    assert waiting.keep(strangers[0], run) is None


def test_one_client_keeps_no_more_than_its_own_limit() -> None:
    waiting = NamedEvents(cast("Stack", Deaf()), lambda *_: None, lambda _: None)
    one = session("10.0.0.1")
    kept = [waiting.keep(one, event(number, 500_000)) for number in range(1, 5)]
    assert kept[:3] == [None] * 3
    assert kept[3] is not None
    assert "of this client wait for answers" in kept[3]
