"""Figures of several processes, put together."""

from __future__ import annotations

import sys

import pytest

from ges.bench.figures import (
    Times,
    put_requests_together,
    put_together,
    require_histograms,
)
from ges.bench.load import Answered, Asked, Load, Published, Received
from ges.bench.publishing import shares
from overlay.errors import ConfigError

SECOND = 1_000_000_000


def times(*milliseconds: float) -> bytes:
    found = Times()
    for each in milliseconds:
        found.note(round(each * 1e6))
    return found.encoded()


def test_percentiles_are_of_the_times_of_all_processes() -> None:
    load = Load(topic="t", size=100, count=200, subscribers=2)
    sent = [Published(150, 0, SECOND), Published(50, SECOND // 2, 2 * SECOND)]
    got = [
        Received(200, SECOND, 3 * SECOND, times(*range(1, 100)), 20_000, 0),
        Received(150, SECOND, 2 * SECOND, times(100.0), 15_000, 50),
    ]
    found = put_together(load, sent, got)
    assert (found.published, found.published_per_s) == (200, 100.0)
    assert (found.received, found.received_per_s, found.lost, found.dropped) == (350, 175.0, 50, 50)
    assert found.megabytes_per_s == pytest.approx(0.018, abs=0.001)
    assert found.confirm is None
    assert found.latency is not None
    assert found.latency.p50_ms == pytest.approx(50, rel=0.01)
    assert found.latency.p99_ms == pytest.approx(99, rel=0.01)
    assert found.latency.max_ms == pytest.approx(100, rel=0.01)


def test_where_nothing_came_nothing_is_told_of_times() -> None:
    found = put_together(Load(topic="t"), [], [Received(0, 0, 0, times(), 0, 0)])
    assert (found.published, found.received, found.received_per_s) == (None, 0, 0.0)
    assert (found.lost, found.latency) == (None, None)


def test_round_trips_are_of_all_that_ask_and_what_got_no_reply_is_counted() -> None:
    load = Load(topic="t", size=100, count=200, publishers=2)
    asked = [
        Asked(100, 99, 0, SECOND, times(*range(1, 100)), nobody=1),
        Asked(100, 1, SECOND // 2, 2 * SECOND, times(100.0), nobody=2),
    ]
    found = put_requests_together(load, asked, [Answered(90), Answered(20)])
    assert (found.requests, found.replies, found.replies_per_s) == (200, 100, 50.0)
    assert (found.unanswered, found.nobody, found.answered) == (100, 3, 110)
    assert found.round_trip is not None
    assert found.round_trip.p50_ms == pytest.approx(50, rel=0.01)
    assert found.round_trip.max_ms == pytest.approx(100, rel=0.01)
    none = put_requests_together(load, [Asked(5, 0, 0, SECOND, times(), nobody=5)], [])
    assert (none.replies, none.answered, none.round_trip) == (0, None, None)


@pytest.mark.parametrize(("total", "parts"), [(10, 3), (3, 3), (2, 5), (100_000, 7)])
def test_shares_are_all_of_it_and_alike(total: int, parts: int) -> None:
    found = shares(total, parts)
    assert (len(found), sum(found)) == (parts, total)
    assert max(found) - min(found) <= 1


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    with pytest.raises(ConfigError, match=r"'\.\[bench\]'"):
        require_histograms()
