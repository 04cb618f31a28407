"""Queue groups, with brokers in the same process: one of the members gets each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.lowlevel

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Event, LinkClass, Subscription, connect
from ges.errors import SubscribeRefused
from ges.profiles import profile
from overlay.errors import ConfigError

DEADLINE_SECONDS = 20


class Worker:
    """One member of a group, and what it got."""

    def __init__(self, client: Client, events: Subscription) -> None:
        self.client = client
        self.subscription = events
        self.got: list[Event] = []

    async def read(self) -> None:
        while batch := await self.subscription.batch():
            self.got += batch


@asynccontextmanager
async def members(
    brokers: Sequence[Broker], text: str = "orders/+", queue: str | None = "workers"
) -> AsyncIterator[list[Worker]]:
    """Let there be a client at each of these brokers, all in one group."""
    found = []
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        for broker in brokers:
            client = await stack.enter_async_context(connect(broker.url))
            subscribing = client.subscribe(text, queue=queue)
            worker = Worker(client, await stack.enter_async_context(subscribing))
            with trio.fail_after(DEADLINE_SECONDS):
                await worker.subscription.active.wait()
            nursery.start_soon(worker.read)
            found.append(worker)
        yield found


def payloads(workers: Sequence[Worker]) -> list[bytes]:
    return sorted((event.payload for worker in workers for event in worker.got), key=int)


async def came(workers: Sequence[Worker], count: int) -> None:
    await until(lambda: sum(len(worker.got) for worker in workers) >= count, DEADLINE_SECONDS)


def in_order(worker: Worker) -> bool:
    last: dict[str, int] = {}
    for event in worker.got:
        if last.get(event.publisher, 0) >= event.sequence:
            return False
        last[event.publisher] = event.sequence
    return True


async def test_the_documented_example(brokers: Brokers) -> None:
    a, b, c = await brokers.ring_of(3)
    async with (
        members([b, c, c]) as workers,
        members([a], queue=None) as plain,
        connect(a.url) as client,
    ):
        for number in range(60):
            await client.publish(f"orders/{number % 3}", str(number).encode())
        await client.flush()
        await came(workers, 60)
        await came(plain, 60)
    assert payloads(workers) == [str(number).encode() for number in range(60)], "each once"
    assert all(in_order(worker) for worker in workers)


async def test_the_members_at_one_broker_take_turns(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with members([a, a, a]) as workers, connect(a.url) as client:
        for number in range(300):
            await client.publish("orders/1", str(number).encode())
        await came(workers, 300)
    assert payloads(workers) == [str(number).encode() for number in range(300)]
    assert [len(worker.got) for worker in workers] == [100, 100, 100]
    assert all(in_order(worker) for worker in workers)


async def test_the_member_at_the_publishers_broker_gets_all(brokers: Brokers) -> None:
    a, b, c = await brokers.ring_of(3)
    async with members([a, b, c]) as workers, connect(b.url) as client:
        for number in range(50):
            await client.publish("orders/1", str(number).encode())
        await came(workers, 50)
    assert [len(worker.got) for worker in workers] == [0, 50, 0]


async def test_a_group_is_the_members_on_one_filter(brokers: Brokers) -> None:
    """Other filters, and other names, are other groups, at one broker as at several."""
    a, b = await brokers.ring_of(2)
    async with (
        members([b, b], "orders/+") as one,
        members([b], "orders/#") as wider,
        members([b], "orders/+", "audit") as other,
        connect(a.url) as client,
    ):
        for number in range(20):
            await client.publish("orders/1", str(number).encode())
        for group in (one, wider, other):
            await came(group, 20)
    for group in (one, wider, other):
        assert payloads(group) == [str(number).encode() for number in range(20)]


async def test_a_client_in_a_group_and_with_a_plain_subscription_gets_both(
    brokers: Brokers,
) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        members([b]) as others,
        connect(b.url) as client,
        client.subscribe("#") as plain,
        client.subscribe("orders/+", queue="workers") as queued,
        connect(a.url) as publisher,
    ):
        for number in range(20):
            await publisher.publish("orders/1", str(number).encode())
        with trio.fail_after(DEADLINE_SECONDS):
            all_of_it = [(await anext(plain)).payload for _ in range(20)]
        await until(lambda: len(others[0].got) == 10, DEADLINE_SECONDS)
        its_own = [event.payload async for event in _first(queued, 10)]
    assert all_of_it == [str(number).encode() for number in range(20)]
    assert sorted(its_own + [event.payload for event in others[0].got], key=int) == all_of_it


async def _first(events: Subscription, count: int) -> AsyncIterator[Event]:
    for _ in range(count):
        yield await anext(events)


@pytest.mark.parametrize("link_class", [LinkClass.NORMAL, LinkClass.EXPRESS])
async def test_events_of_each_class_go_to_one(brokers: Brokers, link_class: LinkClass) -> None:
    a, b = await brokers.ring_of(2)
    async with members([b, b]) as workers, connect(a.url) as client:
        for number in range(40):
            await client.publish("orders/1", str(number).encode(), link_class=link_class)
        await came(workers, 40)
    assert Counter(payloads(workers)) == Counter(str(number).encode() for number in range(40))
    assert [len(worker.got) for worker in workers] == [20, 20]


async def test_a_queue_needs_a_name_that_shows(brokers: Brokers) -> None:
    (a,) = await brokers.ring_of(1)
    async with connect(a.url) as client:
        for name in ("", "x" * 65, "a\nb"):
            with pytest.raises(ConfigError, match="queue"):
                async with client.subscribe("a", queue=name):
                    pytest.fail("it has no name")


async def test_a_broker_has_no_end_of_groups(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "MAX_GROUPED", 9)  # of which one address may have two
    (a,) = await brokers.ring_of(1)
    async with (
        connect(a.url) as client,
        client.subscribe("a", queue="one"),
        client.subscribe("b", queue="one"),
        client.subscribe("b", queue="one"),
    ):
        with pytest.raises(SubscribeRefused, match="2 queue groups"):
            async with client.subscribe("c", queue="one"):
                pytest.fail("there is no room")
        async with client.subscribe("c"):
            pass


async def test_members_that_go_leave_the_rest_to_others(brokers: Brokers) -> None:
    """While events flow, the member that is nearest leaves: the others get what is published."""
    a, b, c = await brokers.ring_of(3)
    async with members([c]) as (stays,), connect(a.url) as client:
        for round_ in range(5):
            async with members([b, b]) as leaving:
                for number in range(100):
                    await client.publish("orders/1", str(1000 * round_ + number).encode())
                    if number % 10 == 0:
                        await trio.lowlevel.checkpoint()
                await client.flush()
                await until(lambda: len(payloads(leaving)) > 0 or stays.got, DEADLINE_SECONDS)
        await client.publish("orders/2", b"-1")
        await until(lambda: b"-1" in payloads([stays]), DEADLINE_SECONDS)
    assert in_order(stays)
