"""Promises, as users write them."""

from __future__ import annotations

import pytest

from spark.errors import PromiseError
from spark.watch.command import read_duration
from spark.watch.promise import Promise, read_promise


@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("recovery.p99 < 3", Promise("recovery", "p99", "<", 3.0)),
        ("confirmation.max<=0.5 s", Promise("confirmation", "max", "<=", 0.5)),
        (" messages.mean >= 10 ", Promise("messages", "mean", ">=", 10.0)),
    ],
)
def test_a_promise_is_a_measure_a_statistic_and_a_bound(text: str, promise: Promise) -> None:
    assert read_promise(text) == promise
    assert read_promise(str(promise)) == promise


def test_a_promise_holds_or_not() -> None:
    assert read_promise("recovery.p99 < 3").holds(2.9)
    assert not read_promise("recovery.p99 < 3").holds(3.0)
    assert read_promise("recovery.p99 <= 3").holds(3.0)
    assert not read_promise("repair.count > 3").holds(3.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("fast", "give one such as 'recovery.p99 < 3'"),
        ("recovery.p99 < -1", "give one such as"),
        ("speed.p99 < 3", "no measure 'speed'; there are recovery, "),
        ("recovery.p42 < 3", "no statistic 'p42'; there are p50, "),
    ],
)
def test_what_is_no_promise_is_named(text: str, named: str) -> None:
    with pytest.raises(PromiseError, match=named):
        read_promise(text)


def test_times_have_units() -> None:
    assert [read_duration(text) for text in ("90s", "1.5m", "2h", "1d")] == [90, 90, 7200, 86400]
    for text in ("", "5", "h", "0s", "5w"):
        with pytest.raises(PromiseError, match="such as 90s"):
            read_duration(text)
