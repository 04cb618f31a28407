"""``chordal ping``: round trips through real brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet

pytestmark = pytest.mark.live


def test_each_broker_answers_in_each_class(brokers: Fleet) -> None:
    ring = brokers.ring_of(3)
    pinged = chordal_here("ping", "--count", "3", "--json", "--broker", ring[1].url)
    found = json.loads(pinged.stdout)
    assert (pinged.returncode, found["from"], found["not_asked"]) == (0, ring[1].url, [])
    assert {row["uid"] for row in found["brokers"]} == {broker.uid for broker in ring}
    for row in found["brokers"]:
        assert set(row["classes"]) == {"normal", "express"}, "no secure one over chordal://"
        for trips in row["classes"].values():
            assert 0 < trips["min_ms"] <= trips["median_ms"] <= trips["max_ms"] < 1000
            assert (trips["lost"], trips["problem"]) == (0, None)
    published = sum(broker.status()["counters"]["events_published"] for broker in ring)
    assert published == 3 * 3 * 2 * 2, "pings are events, and so are their answers"
    told = chordal_here("ping", "--broker", ring[0].url)
    (line,) = (line for line in told.stdout.splitlines() if "(attached here)" in line)
    assert line.split()[0] == ring[0].uid[:8]
    assert line.split()[-1] == "0"


def test_a_ping_that_is_refused_says_why(brokers: Fleet, tmp_path: Path) -> None:
    rules = tmp_path / "access.toml"
    rules.write_text('[[allow]]\nsubject = "anyone"\nsubscribe = ["$ping/#"]\n')
    broker = brokers.broker("--access", str(rules))
    pinged = chordal_here("ping", "--class", "normal", "--broker", broker.url)
    assert pinged.returncode == 1
    assert f"{broker.uid[:8]}: normal: publishing to '$ping/" in pinged.stdout
    assert "no rule allows it" in pinged.stdout


@pytest.mark.soak
def test_secure_pings_go_over_secure_links(brokers: Fleet, tmp_path: Path) -> None:
    authority = str(tmp_path / "authority")
    assert chordal_here("identity", "init", authority).returncode == 0
    for name, role in (("one", "--broker"), ("two", "--broker"), ("me", "--client")):
        issued = chordal_here("identity", "issue", authority, str(tmp_path / name), role)
        assert issued.returncode == 0
    first = brokers.broker("--identity", str(tmp_path / "one"))
    second = brokers.broker("--identity", str(tmp_path / "two"), "--join", first.url)
    assert second.ready["ready"]
    url = first.ready["secure_url"]
    pinged = chordal_here("ping", "--json", "--broker", url, "--identity", str(tmp_path / "me"))
    rows = json.loads(pinged.stdout)["brokers"]
    assert (pinged.returncode, len(rows)) == (0, 2), pinged.stdout + pinged.stderr
    for row in rows:
        assert row["url"].startswith("chordals://")
        assert row["classes"]["secure"]["median_ms"] > 0
