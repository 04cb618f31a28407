"""Real brokers whose events take the links that their operator named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually
from ges.client.sync import connect

pytestmark = pytest.mark.live

DECLARED = ("--events-over", "declared")
WAIT_S = 30.0


def chain_of(brokers: Fleet, count: int) -> list[Broker]:
    """Start brokers that each name the one before."""
    found = [brokers.broker(*DECLARED)]
    for _ in range(count - 1):
        named = ("--event-links", found[-1].url)
        found.append(brokers.broker(*DECLARED, *named, "--join", found[0].url))
    whole(found[0].url, count)
    return found


def carrying(broker: Broker) -> set[str]:
    """The brokers to which events can go from one."""
    return {link["uid"] for link in broker.status()["links"] if link["carries"]}


def test_events_take_the_links_that_are_named_and_the_tools_show_which(brokers: Fleet) -> None:
    first, second, third = chain = chain_of(brokers, 3)
    expected = [{second.uid}, {first.uid, third.uid}, {second.uid}]
    eventually(lambda: [carrying(each) for each in chain] == expected, WAIT_S)
    eventually(lambda: all(each.status()["names_destinations"] for each in chain), WAIT_S)
    with (
        connect(third.url) as subscriber,
        subscriber.subscribe("t/+") as events,
        connect(first.url) as publisher,
    ):
        events.active.wait(timeout=WAIT_S)
        publisher.publish("t/1", b"x")
        event = next(iter(events))
        assert (event.payload, event.hops) == (b"x", 2), "by way of the second"
        why = chordal_here("why", "t/1", "--broker", first.url).stdout
        assert second.uid[:8] in why
    assert second.status()["counters"]["events_received"] == 1

    shown = chordal_here("status", "--broker", third.url).stdout
    assert "events over declared links alone; 1 of 1 named here are up" in shown
    assert "normal, declared" in shown
    assert "normal, no events" in shown
    graph: dict[str, Any] = json.loads(
        chordal_here("graph", "--broker", first.url, "--json").stdout
    )
    normal = {
        frozenset(link["ends"]): link["carries"]
        for link in graph["links"]
        if link["class"] == "normal"
    }
    ends = [frozenset((a.uid, b.uid)) for a, b in ((first, second), (second, third))]
    assert {pair for pair, carries in normal.items() if carries} == set(ends)
    assert "normal, that carry events: 2 links between 3 brokers" in (
        chordal_here("graph", "--broker", first.url).stdout
    )


def test_a_link_that_cannot_be_made_is_told_of_and_its_events_are_given_up(brokers: Fleet) -> None:
    nobody = "chordal://127.0.0.1:1"
    first = brokers.broker(*DECLARED, "--event-links", nobody)
    second = brokers.broker(*DECLARED, "--join", first.url)
    whole(first.url, 2)
    eventually(lambda: first.status()["without_way"] != [], WAIT_S)
    shown = chordal_here("status", "--broker", first.url).stdout
    assert f"no link to {nobody}: unreachable" in shown
    assert "no way for events to 0.0.0." in shown
    with connect(second.url) as subscriber, subscriber.subscribe("t") as events:
        eventually(lambda: second.status()["subscriptions"] == 1)
        events.active.wait(timeout=WAIT_S)
        assert chordal_here("pub", "t", "x", "--broker", first.url).returncode == 0
        why = chordal_here("why", "t", "--broker", first.url).stdout
        assert "no path leads there" in why
    assert first.status()["counters"]["events_stuck"] == 1
    assert first.status()["counters"].get("events_forwarded", 0) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--event-links", "chordals://127.0.0.1:9999"), "write it as chordal://"),
        (("--event-links", "127.0.0.1:9999"), "is not a broker URL"),
        (("--events-over", "some"), "'some' is not one of all, declared"),
        (
            ("--listen", "127.0.0.1:9999", "--event-links", "chordal://127.0.0.1:9999"),
            "which is this broker; leave it out",
        ),
    ],
)
def test_a_link_that_cannot_be_named_is_refused_at_the_start(
    options: tuple[str, ...], said: str
) -> None:
    found = chordal_here("serve", *options)
    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr
