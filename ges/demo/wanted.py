"""Events that two brokers want: the others see none of them, as their own counters say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import trio

from ges.client import Client, Subscription, connect
from ges.demo.findings import Wanted
from ges.demo.processes import DemoFailed
from ges.wire.status import Status

ATTACH_SECONDS = 10.0
PATIENCE_SECONDS = 30.0  #: for the subscriptions to be active, and for all events to arrive
TOPIC = "demo/wanted"


async def send_where_wanted(urls: Sequence[str], each: int) -> Wanted:
    """Subscribe at the first broker and at the one half way round, publish there, and count.

    Raises:
        DemoFailed: an event was lost, or a broker saw events that neither wants them nor is on
            their way.
    """
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(url, timeout=ATTACH_SECONDS, reattach=False))
            for url in urls
        ]
        chosen = (0, len(clients) // 2)
        wanting = [clients[number] for number in chosen]
        subscriptions = [
            await stack.enter_async_context(client.subscribe(f"{TOPIC}/#")) for client in wanting
        ]
        before = [await client.status() for client in clients]
        expected = each * len(wanting)
        received = [0] * len(wanting)

        async def receive(number: int, events: Subscription) -> None:
            while received[number] < expected:
                batch = await events.batch()
                if not batch:
                    raise DemoFailed(f"the subscription at {wanting[number].broker_url} ended")
                received[number] += len(batch)

        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            for subscription in subscriptions:
                await subscription.active.wait()
            async with trio.open_nursery() as nursery:
                for number, events in enumerate(subscriptions):
                    nursery.start_soon(receive, number, events)
                for number, client in enumerate(wanting):
                    nursery.start_soon(_publish, client, f"{TOPIC}/{number}", each)
        if patience.cancelled_caught:
            raise DemoFailed(f"of {expected} events, {received} came to the two subscribers")
        after = [await client.status() for client in clients]
    return judge(before, after, {before[number].uid for number in chosen}, expected)


def judge(
    before: Sequence[Status], after: Sequence[Status], wanting: set[str], events: int
) -> Wanted:
    """Say from the counters of all brokers who saw events; ``wanting``: uids of subscribers'.

    Raises:
        DemoFailed: a broker that wants none got events and did not pass all of them on.
    """
    relays = unaware = 0
    for earlier, later in zip(before, after, strict=True):
        if later.uid in wanting:
            continue
        received = _grown(earlier, later, "events_received")
        relayed = _grown(earlier, later, "events_relayed")
        if received != relayed:
            raise DemoFailed(
                f"broker {later.uid} wants none of the events: {received} came to it, and it "
                f"passed on {relayed}"
            )
        relays += received > 0
        unaware += received == 0
    return Wanted(
        brokers=len(after), wanting=len(wanting), events=events, relays=relays, unaware=unaware
    )


async def _publish(client: Client, topic: str, count: int) -> None:
    for number in range(count):
        await client.publish(topic, number.to_bytes(4, "big"))
    await client.flush()


def _grown(before: Status, after: Status, counter: str) -> int:
    return after.counters.get(counter, 0) - before.counters.get(counter, 0)
