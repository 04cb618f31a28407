"""Whole brokers in virtual time that leave while links are cut: nothing is lost."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import structlog
import trio
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from overlay.address import parse_url
from overlay.ids import nanos
from overlay.trace_schema import Verdict
from ring.coordination.membership import Membership
from tests.ges.whole.test_link_cuts import LINGERING, cut_links

TURN = 0.24  #: seconds
EVENTS = 1200
EVERY = 0.0005  #: seconds between two


@pytest.fixture(autouse=True)
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves draws a late turn."""
    monkeypatch.setattr(Membership, "draw_turn", lambda membership: nanos(TURN))


@pytest.mark.parametrize("before", [0.0025, pytest.param(0.0045, marks=pytest.mark.soak)])
async def test_who_leaves_sees_to_the_events_that_came_while_it_waited_for_its_turn(
    before: float, autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """A link of it is cut just before that, and what waits for a way round is not lost."""
    ring = await brokers.ring_of(10)
    publisher, leaver = ring[0], ring[4]
    right = next(b for b in ring if b.node.peer.uid == leaver.node.ring.right[0].uid)
    got: list[int] = []
    async with AsyncExitStack() as stack:
        subscriber = await stack.enter_async_context(attach(right))
        events = await stack.enter_async_context(subscriber.subscribe("t"))
        client = await stack.enter_async_context(attach(publisher))
        await trio.sleep(LINGERING)

        async def publish() -> None:
            for number in range(EVENTS):
                await client.publish("t", b"%d" % number)
                await trio.sleep(EVERY)

        async def take() -> None:
            while batch := await events.batch():
                got.extend(int(event.payload) for event in batch)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(publish)
            await trio.sleep(0.1)
            nursery.start_soon(brokers.dismiss, leaver)
            await trio.sleep(TURN - before)
            weather.apart.add(frozenset(parse_url(b.url).port for b in (leaver, right)))
            cut_links(leaver, right.node.peer.uid)
            await until(lambda: len(got) == EVENTS)
            nursery.cancel_scope.cancel()
    assert got == list(range(EVENTS))


@pytest.mark.parametrize("n", [2, 5])
async def test_who_loses_all_links_while_it_waits_for_its_turn_says_goodbye_all_the_same(
    n: int, autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    ring = await brokers.ring_of(n)
    leaver, others = ring[1], [ring[0], *ring[2:]]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(brokers.dismiss, leaver)
        await trio.sleep(TURN / 2)
        cut_links(leaver)
    await trio.sleep(8)
    verdicts = [ruling.verdict for broker in others for ruling in broker.node.ring.verdicts]
    assert Verdict.BROKER_FAILED not in verdicts


async def test_the_last_to_leave_does_not_say_that_it_serves_on(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    first, second = await brokers.ring_of(2)
    with structlog.testing.capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(brokers.dismiss, first)
            await trio.sleep(TURN / 2)
            nursery.start_soon(brokers.dismiss, second)
    told = [line["event"] for line in lines]
    assert [event for event in told if event.startswith("alone")] == []
    assert told.count("leaving") == 2
    assert told.count("a neighbour left") == 1
