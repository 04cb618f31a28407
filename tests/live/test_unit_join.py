"""``chordal units join`` with real brokers."""

from __future__ import annotations

import json

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect

pytestmark = pytest.mark.live


def in_order(url: str, count: int) -> None:
    """Wait until the units are in order."""
    asked = ("--check", "--wait", "60", "--expect", f"{count}", "--broker", url)
    checked = chordal_here("units", *asked)
    assert checked.returncode == 0, checked.stderr + checked.stdout


def test_a_cluster_joins_another_super_cluster_or_says_why_not(brokers: Fleet) -> None:
    moving = brokers.broker("--unit", "eu/fra/a")
    other = brokers.broker("--unit", "eu/par/x", "--join", moving.url)
    in_order(other.url, 2)
    assert moving.status()["address"] == "0.0.0.0"

    def refused(unit: str, into: str) -> str:
        done = chordal_here("units", "join", unit, "--into", into, "--broker", other.url)
        assert done.returncode == 2, done.stderr + done.stdout
        [line] = done.stderr.splitlines()
        return line

    assert "there is no unit 'eu/rom'" in refused("eu/fra/a", "eu/rom")
    assert "of those above clusters there are eu, eu/fra, eu/par" in refused("0.7", "eu")
    assert "'eu fra' names no unit; write its address or name" in refused("eu fra", "eu")
    assert "give --into a super-cluster" in refused("eu/fra/a", "eu")
    assert "eu/fra/a is in eu/fra already" in refused("0.0.0", "0.0")
    assert "there is nothing above it that it could join" in refused("eu", "eu")

    with connect(moving.url) as client, client.subscribe("t") as events:
        events.active.wait(timeout=30)
        join = ("units", "join", "eu/fra/a", "--into", "eu/par", "--broker", other.url)
        done = chordal_here(*join)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ("cluster 0.0.0 (eu/fra/a) is 0.1.1 (eu/par/a) now, with 1 broker\n")
        in_order(other.url, 2)
        status = moving.status()
        assert (status["address"], status["unit"]) == ("0.1.1.0", "eu/par/a")
        eventually(lambda: "start it with --unit eu/par/a" in moving.err)
        chordal_here("pub", "t", "still here", "--broker", other.url)
        assert next(iter(events)).payload == b"still here"
        assert client.broker_url == moving.url, "it was attached all the time"


@pytest.mark.soak
def test_a_super_cluster_joins_while_events_flow(brokers: Fleet) -> None:
    wishes = ("eu/fra/a", "eu/fra/b", "eu/fra/b", "eu/par/x", "us/nyc/x")
    first = brokers.broker("--unit", "eu/fra/a")
    others = [brokers.broker("--unit", unit, "--join", first.url) for unit in wishes]
    in_order(first.url, 6)
    moving = [first, *others[:3]]
    before = [broker.status()["address"] for broker in moving]
    subscribers = [brokers.subscriber("t/#", broker.url, "--count", "100") for broker in moving]
    eventually(lambda: all("is active: all brokers" in each.err for each in subscribers))
    publisher = brokers.run(
        *("bench", "pub", "--topic", "t/x", "--rate", "10", "--count", "100"),
        *("--broker", others[-1].url),
    )
    done = chordal_here("units", "join", "eu/fra", "--into", "us", "--json", "--broker", first.url)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["before"] == {"path": "0.0", "name": "eu/fra"}
    assert told["after"] == {"path": "1.1", "name": "us/fra"}
    assert told["brokers"] == 4
    in_order(first.url, 6)
    after = [broker.status()["address"] for broker in moving]
    assert after == [address.replace("0.0.", "1.1.", 1) for address in before]
    assert publisher.ended() == 0
    assert [each.ended() for each in subscribers] == [0] * 4, "each has got all 100 events"


def test_who_may_not_is_refused(brokers: Fleet) -> None:
    rules = brokers.folder / "access.toml"
    rules.write_text(
        '[[allow]]\nsubject = "anyone"\npublish = ["#"]\nsubscribe = ["#"]\noperate = ["drain"]\n'
    )
    first = brokers.broker("--unit", "eu/fra/a", "--access", str(rules))
    other = brokers.broker("--unit", "eu/par/x", "--join", first.url)
    in_order(other.url, 2)
    done = chordal_here("units", "join", "eu/fra/a", "--into", "eu/par", "--broker", other.url)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "letting a unit join another one is denied to anyone: no rule allows it" in line
    assert first.status()["address"] == "0.0.0.0"
