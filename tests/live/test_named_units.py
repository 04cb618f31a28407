"""Real brokers stand in the units that they were given, or say why not."""

from __future__ import annotations

import json
import signal

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet, whole
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect

pytestmark = pytest.mark.live


def units_of(url: str) -> dict[str, str]:
    """Return the names of the clusters, by path."""
    found = json.loads(chordal_here("units", "--broker", url, "--json").stdout)
    return {
        cluster["path"]: cluster["name"]
        for top in found["units"]
        for middle in top["units"]
        for cluster in middle["units"]
    }


def test_two_brokers_that_name_two_clusters_stand_in_two(brokers: Fleet) -> None:
    first = brokers.broker("--unit", "eu/fra/a")
    second = brokers.broker("--unit", "eu/fra/b", "--join", first.url)
    assert second.ready["ready"]
    asked = ("--check", "--wait", "60", "--expect", "2", "--broker", first.url)
    checked = chordal_here("units", *asked)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert units_of(first.url) == {"0.0.0": "eu/fra/a", "0.0.1": "eu/fra/b"}


@pytest.mark.soak
def test_brokers_stand_in_the_units_that_they_were_given_and_a_full_one_refuses(
    brokers: Fleet,
) -> None:
    small = ("--unit-limit", "3")
    first = brokers.broker("--unit", "eu/fra/a", *small)
    joining = ("--join", first.url, *small)
    others = [
        brokers.broker("--unit", name, *joining)
        for name in ("eu/fra/a", "eu/fra/b", "us/nyc/x", "eu/fra/a")
    ]
    assert all(each.ready["ready"] for each in others)
    whole(first.url, 5)
    checked = chordal_here(
        *("units", "--check", "--wait", "60", "--expect", "5", "--broker", first.url)
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert "eu/fra/b" in checked.stdout
    assert sorted(units_of(first.url).values()) == ["eu/fra/a", "eu/fra/b", "us/nyc/x"]
    assert [each.status()["unit"] for each in others] == [
        *("eu/fra/a", "eu/fra/b", "us/nyc/x", "eu/fra/a")
    ]
    shown = chordal_here("status", "--broker", others[2].url).stdout
    assert "unit us/nyc/x\n" in shown, shown

    # The cluster is full: who comes late is told what there is beside it, and ends.
    late = brokers.broker("--unit", "eu/fra/a", *joining)
    assert late.ended() == 1
    assert late.out == ""
    assert "cluster eu/fra/a is full: it has 3 brokers" in late.err
    assert "give --unit another one in eu/fra: b" in late.err

    # Events go over the gateways between named units.
    with connect(others[2].url) as client, client.subscribe("sensors/+") as events:
        events.active.wait(timeout=30)
        chordal_here("pub", "sensors/7", "hot", "--broker", first.url)
        assert next(iter(events)).payload == b"hot"


def test_a_name_that_is_none_is_refused_at_the_start() -> None:
    found = chordal_here("serve", "--unit", "eu/fra a")
    assert found.returncode == 2
    [line] = found.stderr.splitlines()
    assert "'eu/fra a' cannot name a unit" in line
    assert found.stdout == ""


def test_a_cluster_admits_whom_its_file_names_and_others_after_a_hang_up(brokers: Fleet) -> None:
    file = brokers.folder / "chordal.toml"
    file.write_text('[units]\nadmit = ["192.0.2.0/24"]\n')
    first = brokers.broker("--config", str(file))
    joining = ("--join", first.url)
    refused = brokers.broker(*joining)
    assert refused.ended() == 1
    assert "does not admit" in refused.err
    assert "at 127.0.0.1" in refused.err
    assert "[units] admit" in refused.err
    file.write_text('[units]\nadmit = ["192.0.2.0/24", "127.0.0.0/8"]\n')
    first.signal(signal.SIGHUP)
    eventually(lambda: "setting changed" in first.err)
    assert brokers.broker(*joining).ready["ready"]
    whole(first.url, 2)
