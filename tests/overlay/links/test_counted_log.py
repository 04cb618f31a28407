"""Counted each time, logged once a minute."""

from __future__ import annotations

from collections import Counter

import pytest
import structlog

from overlay.errors import ConfigError
from overlay.ids import nanos
from overlay.limits import SPARE_FILES, Limits
from overlay.links.counted_log import CountedLog, OncePerWhile


def test_one_of_each_kind_passes_in_a_minute() -> None:
    once = OncePerWhile()
    assert once.passes("a", 0) == 0
    assert [once.passes("a", nanos(second)) for second in range(1, 60)] == [None] * 59
    assert once.passes("b", nanos(1)) == 0, "kinds do not hold each other back"
    assert once.passes("a", nanos(60)) == 59, "it says how many were held back"
    assert once.passes("a", nanos(61)) is None
    assert once.passes("a", nanos(200)) == 1


def test_a_flood_is_counted_and_logged_in_one_line() -> None:
    now = [0]
    counters: Counter[str] = Counter()
    with structlog.testing.capture_logs() as lines:
        log = structlog.get_logger()
        counted_log = CountedLog(counters, log, lambda: now[0])
        for _ in range(10_000):
            counted_log.note("garbage", "stranger dropped", why="noise")
        now[0] = nanos(61)
        counted_log.note("garbage", "stranger dropped", why="noise")
    assert counters == {"garbage": 10_001}
    told = [line for line in lines if line["log_level"] == "warning"]
    assert [line.get("more_since_last_line") for line in told] == [None, 9999]


def test_limits_keep_to_the_files_a_process_may_open() -> None:
    limits = Limits().within(1024)
    assert limits.strangers + limits.connections <= 1024 - SPARE_FILES
    assert limits.clients < limits.connections, "there is room for brokers"
    assert Limits().within(1_000_000) == Limits()
    with pytest.raises(ConfigError, match="ulimit -n"):
        Limits().within(100)
