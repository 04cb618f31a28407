"""Operators' commands at real brokers: who is attached, cutting one off, and who may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def listed(url: str, *arguments: str) -> list[dict[str, Any]]:
    done = chordal_here("clients", "--json", "--broker", url, *arguments)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["clients"]
    return found


def test_clients_are_listed_where_they_are_with_rates(brokers: Fleet) -> None:
    here, there = brokers.ring_of(2)
    subscriber = brokers.subscriber("a/#", there.url, "--json")
    publisher = brokers.run(
        *("bench", "pub", "--topic", "a/b", "--rate", "200", "--count", "100000"),
        *("--broker", here.url),
    )
    eventually(lambda: subscriber.out)
    rows = {row["broker"]: row for row in listed(here.url, "--over", "400ms")}
    assert set(rows) == {here.uid, there.uid}
    published, delivered = rows[here.uid], rows[there.uid]
    assert (published["subscriptions"], delivered["subscriptions"]) == (0, 1)
    assert 50 < published["published_per_s"] < 400
    assert 50 < delivered["delivered_per_s"] < 400
    assert delivered["bytes_per_s"] > 50 * 256
    assert published["delivered"] == delivered["published"] == 0
    assert (delivered["name"], delivered["host"], delivered["secure"]) == (
        "anyone",
        "127.0.0.1",
        False,
    )
    assert [row["broker"] for row in listed(there.url, "--one", "--over", "0")] == [there.uid]
    told = chordal_here("clients", "--broker", here.url, "--over", "0").stdout
    assert "2 clients at 2 brokers" in told
    assert delivered["uid"] in told
    publisher.kill()


def test_a_client_that_is_kicked_loses_its_connection_and_comes_back(brokers: Fleet) -> None:
    here, there = brokers.ring_of(2)
    subscriber = brokers.subscriber("a", there.url)
    eventually(lambda: "is active" in subscriber.err)
    (row,) = listed(here.url, "--over", "0")
    done = chordal_here("kick", row["uid"][:8], "--broker", here.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"cut off at {there.uid[:8]} at {there.url}\n"
    lost = f"lost {there.url}, attached to {here.url}"
    eventually(lambda: lost in subscriber.err)
    assert there.status()["counters"]["clients_kicked"] == 1
    (moved,) = listed(here.url, "--over", "0")
    assert (moved["uid"], moved["broker"]) == (row["uid"], here.uid)
    assert chordal_here("pub", "a", "still here", "--broker", there.url).returncode == 0
    eventually(lambda: "still here" in subscriber.out)


@pytest.mark.parametrize(
    ("uid", "code", "why"),
    [
        ("zz", 2, "'zz' is no uid"),
        ("abcdef", 1, "no client's uid begins with abcdef"),
        ("0" * 32, 1, f"no broker has a client {'0' * 32}"),
    ],
)
def test_nobody_is_kicked_by_mistake(brokers: Fleet, uid: str, code: int, why: str) -> None:
    done = chordal_here("kick", uid, "--broker", brokers.broker().url)
    assert done.returncode == code
    assert why in done.stderr


def test_with_rules_only_those_who_may_operate(brokers: Fleet, tmp_path: Path) -> None:
    tokens, rules, token = (str(tmp_path / n) for n in ("tokens.json", "rules.toml", "ops"))
    Path(rules).write_text(
        '[[allow]]\nsubject = "anyone"\nsubscribe = ["#"]\n'
        '[[allow]]\nsubject = "token:ops"\noperate = ["clients", "kick"]\n'
    )
    assert chordal_here("token", "issue", tokens, "ops", "--out", token).returncode == 0
    broker = brokers.broker("--tokens", tokens, "--access", rules)
    brokers.subscriber("a", broker.url)
    denied = chordal_here("clients", "--broker", broker.url)
    assert denied.returncode == 1
    assert "listing clients is denied to anyone: no rule allows it" in denied.stderr
    (row,) = listed(broker.url, "--token-file", token)
    denied = chordal_here("kick", row["uid"], "--broker", broker.url)
    assert denied.returncode == 1
    assert "cutting off a client is denied to anyone" in denied.stderr
    kicked = chordal_here("kick", row["uid"], "--token-file", token, "--broker", broker.url)
    assert kicked.returncode == 0, kicked.stderr
    counters = broker.status()["counters"]
    assert (counters["operations_denied"], counters["clients_kicked"]) == (2, 1)
    checked = chordal_here("access", "check", rules, "--operate", "drain")
    assert (checked.returncode, "draining the broker is denied" in checked.stdout) == (1, True)
    checked = chordal_here("access", "check", rules, "--subject", "token:ops", "--operate", "kick")
    assert checked.returncode == 0
