"""What users see of several clusters: real brokers, and commands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet, Running
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect

pytestmark = pytest.mark.live


def lines(*running: Running) -> list[str]:
    return [line for each in running for line in each.out.splitlines()]


def publish(url: str, topic: str, payload: str, *more: str) -> None:
    done = chordal_here("pub", topic, payload, "--broker", url, *more)
    assert done.returncode == 0, done.stderr


def publish_lines(url: str, topic: str, payloads: list[str]) -> None:
    given = "".join(f"{payload}\n" for payload in payloads)
    done = chordal_here("pub", topic, "-", "--lines", "--broker", url, given=given)
    assert done.returncode == 0, done.stderr


def test_an_event_goes_to_named_clients_and_who_names_nobody_is_told(brokers: Fleet) -> None:
    first, second = brokers.ring_of(2)
    inbox = brokers.run("sub", "--name", "kitchen", "--broker", second.url)
    plain = brokers.subscriber("#", second.url)
    eventually(lambda: "is active" in inbox.err and "is active" in plain.err)
    publish(first.url, "lamp", "on", "--to", "kitchen")
    publish(first.url, "lamp", "all")
    eventually(lambda: lines(plain) == ["lamp all"] and lines(inbox) == ["lamp on"])
    refused = chordal_here("pub", "lamp", "on", "--to", "kitchen,hall", "--broker", first.url)
    assert (refused.returncode, refused.stderr) == (
        1,
        "chordal: error: no such client: hall [publish-refused]\n",
    )
    for wrong, words in (
        (("--to", "a b"), "is no name of a client"),
        (("--to", "a", "--retain"), "--to goes neither with"),
        (("--to", "a", "--class", "express"), "--to is for --class normal"),
        (("--realm", "planet"), "'planet' is not one of"),
    ):
        done = chordal_here("pub", "lamp", "x", *wrong, "--broker", first.url)
        assert done.returncode != 0
        assert words in done.stderr
    with connect(first.url) as client, client.inbox("cellar") as events:
        events.active.wait(timeout=10)
        publish(second.url, "lamp", "dim", "--to", "cellar")
        assert next(iter(events)).payload == b"dim"


@pytest.mark.soak
def test_realms_groups_and_names_across_clusters(brokers: Fleet) -> None:
    first = brokers.ring_of(6, "--unit-limit", "3")[0]
    told = chordal_here("units", "--check", "--wait", "60", "--expect", "6", "--broker", first.url)
    assert "6 brokers in 2 clusters" in told.stdout, told.stdout
    units = json.loads(chordal_here("units", "--broker", first.url, "--json").stdout)
    [top] = units["units"]
    here, there = ([each["url"] for each in c["brokers"]] for c in top["units"][0]["units"])

    def why(*more: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            chordal_here("why", "t/1", "--broker", here[0], "--json", *more).stdout
        )
        return found

    near = brokers.subscriber("t/+", here[1])
    far = brokers.subscriber("t/+", there[0])
    kept = brokers.subscriber("t/+", there[1], "--realm", "cluster")
    eventually(lambda: all("is active" in each.err for each in (near, far, kept)))
    eventually(lambda: not why()["to_all"])
    assert [unit["is_for"] for unit in why()["units"]] == [True]
    assert [unit["is_for"] for unit in why("--realm", "cluster")["units"]] == [False]
    publish(here[0], "t/1", "near", "--realm", "cluster")
    publish(here[0], "t/1", "all")
    eventually(lambda: lines(near) == ["t/1 near", "t/1 all"] and lines(far) == ["t/1 all"])
    publish(there[2], "t/1", "theirs")
    eventually(lambda: lines(kept) == ["t/1 theirs"])

    workers = [brokers.subscriber("w", url, "--queue", "g") for url in (here[1], *there)]
    inbox = brokers.run("sub", "--name", "kitchen", "--broker", there[0])
    eventually(lambda: all("is active" in each.err for each in (*workers, inbox)))
    publish_lines(here[0], "w", [f"first-{number}" for number in range(20)])
    eventually(lambda: len(lines(*workers)) >= 20)
    assert lines(workers[0]) == [f"w first-{number}" for number in range(20)], "the nearest"
    workers[0].kill()
    eventually(
        lambda: "unit" in chordal_here("why", "w", "--broker", here[0]).stdout.split("queue")[1]
    )
    publish_lines(here[0], "w", [f"second-{number}" for number in range(20)])
    eventually(lambda: len(lines(*workers[1:])) >= 20)
    assert sorted(lines(*workers[1:])) == sorted(f"w second-{number}" for number in range(20))
    publish(here[0], "lamp", "on", "--to", "kitchen")
    eventually(lambda: lines(inbox) == ["lamp on"])
