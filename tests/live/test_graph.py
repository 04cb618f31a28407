"""The multigraph of live brokers, as the command shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def shown(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(chordal_here("graph", "--json", "--broker", url).stdout)
    return found


def test_the_graph_shows_every_link_with_its_weights(brokers: Fleet) -> None:
    ring = brokers.ring_of(4, "--express-range", "1s")  # a busy machine is no reason to fail

    def is_whole() -> dict[str, Any] | None:
        found = shown(ring[0].url)
        return found if len(found["links"]) == 12 else None

    found = eventually(is_whole, timeout=60, what="6 normal and 6 express links")
    assert found is not None
    assert sorted(found["brokers"]) == sorted(broker.uid for broker in ring)
    for link in found["links"]:
        assert 0 < link["rtt_ns"] < 1e9
        assert link["cost_ns"] > link["rtt_ns"] / 2
    by_class = {
        name: {frozenset(link["ends"]) for link in found["links"] if link["class"] == name}
        for name in ("normal", "express")
    }
    assert by_class["express"] == by_class["normal"]
    assert found["connectivity"]["normal"] == {"brokers": 4, "links": 6, "k": 3}
    assert found["connectivity"]["secure"] == {"brokers": 0, "links": 0, "k": 0}

    told = chordal_here("graph", "--broker", ring[1].url).stdout
    assert "rtt ms" in told
    assert "normal: 6 links between 4 brokers, each linked to each; connectivity 3" in told
    status = ring[0].status()
    assert all(link["rtt_ms"] > 0 and link["cost_ms"] > 0 for link in status["links"])
    assert status["express_range_ms"] == 1000
    assert "cost ms" in chordal_here("status", "--broker", ring[0].url).stdout


def test_without_an_express_range_there_are_normal_links_alone(brokers: Fleet) -> None:
    first = brokers.broker("--express-range", "0")
    brokers.broker("--join", first.url, "--express-range", "0ms")
    found = eventually(lambda: shown(first.url)["links"], what="a measured link")
    assert [link["class"] for link in found] == ["normal"]
    assert first.status()["express_range_ms"] == 0


@pytest.mark.parametrize(("text", "why"), [("5", "is not a time such as"), ("1h", "from 0 to 10s")])
def test_a_range_that_makes_no_sense_is_refused(text: str, why: str) -> None:
    done = chordal_here("serve", "--listen", "127.0.0.1:0", "--express-range", text)
    assert done.returncode == 2
    assert why in done.stderr
