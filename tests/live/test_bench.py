"""``chordal bench`` against real brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def measured(*arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    done = chordal_here("bench", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return document["conditions"], document["runs"]


def test_all_events_of_all_publishers_reach_all_subscribers(brokers: Fleet) -> None:
    here, there = brokers.ring_of(2)
    conditions, runs = measured(
        *("pubsub", "--broker", here.url, "--sub-broker", there.url, "--processes", "2"),
        *("--publishers", "3", "--subscribers", "2", "--count", "1000", "--size", "64"),
    )
    assert [row["url"] for row in conditions["brokers"]] == [here.url, there.url]
    assert conditions["processors"] > 0
    (run,) = runs
    figures = run["figures"]
    assert (figures["size"], run["load"]["publishers"]) == (64, 3)
    assert (figures["published"], figures["received"], figures["lost"]) == (1000, 2000, 0)
    assert figures["published_per_s"] > 0 < figures["received_per_s"]
    latency = figures["latency"]
    assert 0 < latency["p50_ms"] <= latency["p99_ms"] <= latency["max_ms"]
    assert here.status()["counters"]["events_published"] == 1000


def test_a_rate_is_kept_and_late_events_count_as_late(brokers: Fleet) -> None:
    url = brokers.broker().url
    arguments = ("--rate", "500", "--count", "250", "--class", "express")
    _, runs = measured("pubsub", "--broker", url, *arguments, "--confirm")
    assert [run["figures"]["link_class"] for run in runs] == ["express"]
    for run in runs:
        figures = run["figures"]
        assert figures["published_per_s"] < 550, "as slow as it was told to"
        assert (figures["received"], figures["lost"]) == (250, 0)
        assert figures["confirm"]["p50_ms"] > 0


def test_the_two_ends_can_be_two_commands(brokers: Fleet) -> None:
    url = brokers.broker().url
    subscriber = brokers.run("bench", "sub", "b/+", "--count", "300", "--broker", url, "--json")
    eventually(lambda: brokers.brokers[0].status()["subscriptions"] == 1)
    done = chordal_here("bench", "pub", "--topic", "b/1", "--count", "300", "--broker", url)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "1 publisher, as fast as they go" in lines[-3]
    assert lines[-1].split()[:3] == ["normal", "256", "300"]
    assert subscriber.ended() == 0, subscriber.err
    (run,) = json.loads(subscriber.out)["runs"]
    assert (run["figures"]["published"], run["figures"]["received"]) == (None, 300)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--topic", "a/#"], 2, "wildcards belong into filters"),
        (["--class", "fast"], 2, "normal, express, secure"),
        (["--size", "2000000"], 2, "a payload has 0 to 1048576 bytes"),
        (["--class", "secure"], 1, "attach over chordals://"),
    ],
)
def test_what_cannot_be_measured_is_said(
    brokers: Fleet, arguments: list[str], code: int, why: str
) -> None:
    url = brokers.broker().url if code == 1 else "chordal://127.0.0.1:1"  # not even looked for
    done = chordal_here("bench", "pub", "--count", "1", *arguments, "--broker", url)
    assert done.returncode == code
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_refuses_says_why(brokers: Fleet, tmp_path: Path) -> None:
    rules = tmp_path / "access.toml"
    rules.write_text('[[allow]]\nsubject = "anyone"\nsubscribe = ["#"]\n')
    url = brokers.broker("--access", str(rules)).url
    done = chordal_here("bench", "pubsub", "--topic", "x", "--count", "1", "--broker", url)
    assert done.returncode == 1
    assert "publishing to 'x' is denied" in done.stderr
