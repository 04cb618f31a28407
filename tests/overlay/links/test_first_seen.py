"""Who comes is logged once, and floods are not."""

from __future__ import annotations

import structlog

from overlay.ids import Nanos
from overlay.links import first_seen
from overlay.links.first_seen import LINES, WHILE_NS, FirstSeen


class Clock:
    now: Nanos = 0


def test_each_is_logged_once_and_floods_are_counted() -> None:
    clock = Clock()
    with structlog.testing.capture_logs() as lines:
        seen = FirstSeen(structlog.get_logger(), lambda: clock.now)
        for _ in range(3):
            seen.note("linked", "a", peer="a")
            seen.note("attached", "a")
        assert [line["event"] for line in lines] == ["linked", "attached"]
        for number in range(100):
            seen.note("linked", number)
        assert len(lines) == LINES
        clock.now = WHILE_NS
        seen.note("linked", 7)
        assert len(lines) == LINES, "it was counted already"
        seen.note("linked", "b")
    assert len(lines) == LINES + 1
    assert lines[-1]["more_since_last_line"] == 100 - (LINES - 2)
    assert {line["log_level"] for line in lines} == {"info"}


def test_so_many_are_remembered() -> None:
    with structlog.testing.capture_logs() as lines:
        seen = FirstSeen(structlog.get_logger(), lambda: 0)
        for number in (*range(first_seen.REMEMBERED + 1), 0):
            seen.note("linked", number)
    assert len(seen._seen) == first_seen.REMEMBERED
    assert len(lines) == LINES
