"""Real brokers have addresses, and say so."""

from __future__ import annotations

import json

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect

pytestmark = pytest.mark.live


def test_three_brokers_have_three_addresses_and_keep_them_without_the_steward(
    brokers: Fleet,
) -> None:
    ring = brokers.ring_of(3)

    def addresses() -> set[str | None]:
        return {broker.status()["address"] for broker in ring}

    eventually(lambda: addresses() == {"0.0.0.0", "0.0.0.1", "0.0.0.2"})
    found = [broker.status() for broker in ring]
    assert [status["members"] for status in found] == [3, 3, 3]
    assert {status["steward"] for status in found} == {ring[0].uid}
    ring[0].kill()
    others = ring[1:]
    eventually(lambda: {broker.status()["members"] for broker in others} == {2})
    after = [broker.status() for broker in others]
    assert [status["address"] for status in after] == [s["address"] for s in found[1:]]
    [steward] = {status["steward"] for status in after}
    assert steward in {broker.uid for broker in others}


@pytest.mark.soak
def test_nine_brokers_with_a_limit_of_three_form_three_clusters(brokers: Fleet) -> None:
    first = brokers.ring_of(9, "--unit-limit", "3")[0]
    asked = ("--check", "--wait", "60", "--expect", "9")
    told = chordal_here("units", "--broker", first.url, *asked).stdout
    assert "the units are in order: 9 brokers in 3 clusters" in told, told
    found = json.loads(chordal_here("units", "--broker", first.url, "--json").stdout)
    assert found["findings"] == []
    assert found["limit"] == 3
    [top] = found["units"]
    [middle] = top["units"]
    clusters = middle["units"]
    assert [cluster["members"] for cluster in clusters] == [3, 3, 3]
    addresses = {each["address"] for cluster in clusters for each in cluster["brokers"]}
    assert len(addresses) == 9
    status = first.status()
    assert status["address"].startswith(clusters[0]["path"] + ".")
    assert status["unit_limit"] == 3

    # An event goes into the cluster that wants it, and nowhere else.
    here, there, spared = clusters
    source, edge = here["brokers"][0]["url"], there["brokers"][0]["url"]
    published = ("pub", "sensors/7", "hot", "--broker", source)
    with connect(edge) as client, client.subscribe("sensors/+") as events:
        events.active.wait(timeout=30)

        def units() -> dict[str, bool]:
            why = json.loads(chordal_here("why", "sensors/7", "--broker", source, "--json").stdout)
            return {} if why["to_all"] else {unit["unit"]: unit["is_for"] for unit in why["units"]}

        eventually(lambda: units() == {there["path"]: True, spared["path"]: False})
        before = [_received(each["url"]) for each in spared["brokers"]]
        for _ in range(5):
            chordal_here(*published)
        assert [next(iter(events)).payload for _ in range(5)] == [b"hot"] * 5
        assert [_received(each["url"]) for each in spared["brokers"]] == before
    shown = chordal_here("why", "sensors/7", "--broker", source).stdout
    assert "unit" in shown


def _received(url: str) -> int:
    with connect(url) as client:
        return client.status().counters.get("events_received", 0)
