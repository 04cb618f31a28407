"""Who is asked while somebody watches, and what becomes of the picture when a broker goes."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from benchmarks.stage.brokers import Brokers, hang
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from ges.http import observer as observer_module
from ges.http.observer import Observer
from overlay.ids import LinkClass
from overlay.multigraph.graph import ends
from overlay.security.identity import Role
from tests.ges.conftest import Issue


async def picture_of(observer: Observer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await observer.settled())
    return found


def clients(broker: Broker) -> int:
    return broker.status().clients


@asynccontextmanager
async def observing(broker: Broker) -> AsyncIterator[Observer]:
    """Run an observer for the length of the block."""
    observer = Observer(broker)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(observer.run)
        yield observer
        nursery.cancel_scope.cancel()


async def test_others_are_asked_only_while_somebody_watches(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_module, "LINGER_S", 1.0)
    here, *others = await brokers.ring_of(3)
    async with observing(here) as observer:
        await trio.testing.wait_all_tasks_blocked()
        assert [clients(broker) for broker in others] == [0, 0]
        with observer.watching():
            await until(lambda: [clients(broker) for broker in others] == [1, 1])
        await until(lambda: [clients(broker) for broker in others] == [0, 0])
        assert clients(here) == 0  # it need not ask itself


async def test_the_picture_is_of_the_whole_ring(brokers: Brokers) -> None:
    ring = await brokers.ring_of(6)
    async with observing(ring[0]) as observer:
        picture = await picture_of(observer)
    assert picture["broker"] == ring[0].node.peer.uid
    assert {row["uid"] for row in picture["brokers"]} == {b.node.peer.uid for b in ring}
    places = [row["place"] for row in picture["brokers"]]
    assert places == sorted(places)
    drawn = {(row["a"], row["b"]) for row in picture["links"] if row["class"] == "normal"}
    linked = {
        ends(broker.node.peer.uid, uid)
        for broker in ring
        for uid, link_class in broker.driver.links
        if link_class is LinkClass.NORMAL
    }
    assert drawn == linked


async def test_brokers_with_and_without_an_identity_are_asked(
    brokers: Brokers, issue: Issue
) -> None:
    first, second = issue(Role.BROKER), issue(Role.BROKER)
    ring = await brokers.ring_of(3, first, second)  # the third has none
    async with observing(ring[0]) as observer:
        picture = await picture_of(observer)
        while "silent" in {row["state"] for row in picture["brokers"]}:
            picture = await picture_of(observer)  # a busy machine: it had no time to answer
    assert {row["state"] for row in picture["brokers"]} == {"alive"}
    assert {row["clients"] for row in picture["brokers"]} == {0}
    assert "secure" in {row["class"] for row in picture["links"]}


async def test_a_broker_that_answers_nobody_here_is_silent(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbours do not doubt it, so it is neither suspected nor dead."""
    monkeypatch.setattr(observer_module, "ANSWER_S", 0.2)
    here, other = await brokers.ring_of(2)
    async with observing(here) as observer:
        with observer.watching():
            await until(lambda: clients(other) == 1)
            hang(other, monkeypatch)
            version, row = 0, {"state": "alive"}
            with trio.fail_after(20):
                while row["state"] == "alive":
                    version, data = await observer.newer(version)
                    rows = json.loads(data)["brokers"]
                    [row] = [each for each in rows if each["uid"] == other.node.peer.uid]
    assert row["state"] == "silent"
    assert row["clients"] is None  # what it said before is no news


async def test_events_on_a_link_are_told_by_the_second(brokers: Brokers) -> None:
    here, there = await brokers.ring_of(2)
    async with observing(here) as observer, connect(here.url) as client:
        with observer.watching():
            version = 0
            rates: dict[str, float | None] = {}
            with trio.fail_after(20):
                while not all(rates.get(name) for name in ("published", "link")):
                    await client.publish("a", b"x")
                    version, data = await observer.newer(version)
                    picture = json.loads(data)
                    own = next(r for r in picture["brokers"] if r["uid"] == picture["broker"])
                    normal = [r for r in picture["links"] if r["class"] == "normal"]
                    rates["published"] = own["published_per_s"]
                    rates["link"] = normal[0]["events_per_s"] if normal else None
    assert there.node.peer.uid in {normal[0]["a"], normal[0]["b"]}
    assert 0 < (rates["published"] or 0) < 100
    assert 0 < (rates["link"] or 0) < 200


async def test_what_happens_is_followed_up_at_once(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_module, "ASK_S", 60.0)
    here, *others = await brokers.ring_of(5)
    async with observing(here) as observer:
        with observer.watching():
            await until(lambda: [clients(broker) for broker in others] == [1] * 4)
            await observer.settled()  # all have answered, and are left alone ...
            version = 0
            for _ in range(4):  # ... while more pictures are drawn
                version, _ = await observer.newer(version)
            victim = others[1]
            brokers.kill(victim)
            killed, ages = trio.current_time(), [math.inf]
            with trio.fail_after(20):
                while max(ages) > trio.current_time() - killed:  # not all have been asked since
                    version, data = await observer.newer(version)
                    rows = json.loads(data)["brokers"]
                    others_left = (row for row in rows if row["uid"] != victim.node.peer.uid)
                    ages = [
                        math.inf if row["told_s"] is None else row["told_s"] for row in others_left
                    ]


async def test_a_broker_that_is_back_elsewhere_is_asked_there(
    brokers: Brokers, tmp_path: Path
) -> None:
    here, _ = await brokers.ring_of(2)
    other = await brokers.start(directory=tmp_path)
    uid, url = other.node.peer.uid, other.url
    async with observing(here) as observer:
        with observer.watching():
            await until(lambda: clients(other) == 1)
            brokers.kill(other)
            await trio.testing.wait_all_tasks_blocked()  # it gives back its directory
            back = await brokers.start(directory=tmp_path)
            assert (back.node.peer.uid, back.url == url) == (uid, False)
            await until(lambda: clients(back) == 1)
            version, row = 0, {"url": ""}
            with trio.fail_after(20):
                while (row["url"], row.get("state")) != (back.url, "alive"):
                    version, data = await observer.newer(version)
                    rows = json.loads(data)["brokers"]
                    row = next((each for each in rows if each["uid"] == uid), row)


@pytest.mark.parametrize("turns", range(4, 10))
async def test_the_end_may_come_just_as_a_broker_goes(brokers: Brokers, turns: int) -> None:
    """At one of these turns of the scheduler the lost broker and the end are seen at once."""
    here, other = await brokers.ring_of(2)
    async with observing(here) as observer:
        with observer.watching():
            await until(lambda: clients(other) == 1)
            brokers.kill(other)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
