"""What a peer sends may take long to answer: everybody else has a turn in between all the same."""

from __future__ import annotations

from types import ModuleType

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import upper
from ges.delivery.audience import Audience
from ges.delivery.holdings import Targets
from ges.sessions.subscriptions import Subscriptions
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, StatusRequest, Subscribe
from ges.wire.status import Status
from overlay.net.slices import SLICE_SECONDS

ONE_SECONDS = 0.005  #: each answer takes so long
COUNT = 200
#: A task that becomes ready as a slice ends may find that the next one goes first, but once only.
LONGEST = 2 * (SLICE_SECONDS + 2 * ONE_SECONDS)


class Watch:
    """Somebody else on the same broker, who wants a turn every millisecond."""

    def __init__(self) -> None:
        self.longest = 0.0  #: seconds that it had to wait for one

    async def run(self) -> None:
        last = trio.current_time()
        while True:
            await trio.sleep(0.001)
            now = trio.current_time()
            self.longest = max(self.longest, now - last)
            last = now


async def test_messages_in_one_read_do_not_stop_the_broker(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await brokers.start()
    slow_down(Subscriptions, "subscribe", autojump_clock, monkeypatch)
    async with attach(broker) as client:
        watch = Watch()
        nursery.start_soon(watch.run)
        asked = (CLIENT_CODEC.encode(Subscribe(n, Ask(f"a/{n}"))) for n in range(COUNT))
        client._attachment.send(b"".join(asked))
        with trio.fail_after(10 * COUNT * ONE_SECONDS):
            await until(lambda: broker.stack.deliveries.subscriptions == COUNT)
        assert watch.longest <= LONGEST


async def test_requests_in_one_read_are_answered_with_one_status(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes long to make one, and a few bytes to ask for it."""
    broker = await brokers.start()
    async with attach(broker) as client:
        begun = trio.current_time()
        slow_down(upper, "describe", autojump_clock, monkeypatch)
        client._attachment.send(CLIENT_CODEC.encode(StatusRequest()) * COUNT)
        await until(lambda: len(client._attachment.state.statuses) == COUNT)
        assert trio.current_time() - begun < COUNT * ONE_SECONDS / 4
        first = client._attachment.state.statuses[0]
        assert (await client.status()).uptime_s > first.uptime_s, "the next read gets a new one"


async def test_events_that_take_long_do_not_stop_the_brokers(
    autojump_clock: MockClock,
    weather: Weather,
    brokers: Brokers,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the broker they are published at, nor the one they go on to; and none is lost."""
    first, second = await brokers.ring_of(2)
    async with (
        attach(first) as client,
        attach(second) as other,
        other.subscribe("t/#") as events,
    ):
        slow_down(Audience, "_match", autojump_clock, monkeypatch)
        watch = Watch()
        nursery.start_soon(watch.run)
        for number in range(COUNT):
            await client.publish(f"t/{number}", b"x")
        with trio.fail_after(60):
            got = [(await anext(events)).topic for _ in range(COUNT)]
        assert got == [f"t/{number}" for number in range(COUNT)]
        # Both brokers share this process, so a turn of each may come before ours.
        assert watch.longest <= 2 * LONGEST


async def test_what_is_read_is_handled_before_others_have_a_turn(brokers: Brokers) -> None:
    """The kernel no longer knows of it, so a normal reader could not give way to it."""
    broker = await brokers.start()
    with assert_no_checkpoints():
        await broker.parts.reader.wait_for_ring([])


def slow_down(
    owner: type[object] | ModuleType, name: str, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let each call of a method take a while, in which nobody else runs."""
    quick = getattr(owner, name)

    def slow(*arguments: object) -> Status | Targets:
        clock.jump(ONE_SECONDS)
        result: Status | Targets = quick(*arguments)
        return result

    monkeypatch.setattr(owner, name, slow)
