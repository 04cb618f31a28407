"""Retained events and events that end, with brokers in the same process."""

from __future__ import annotations

import sys

import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Subscription, connect
from ges.wire.asked import Ask
from ges.wire.delivered import Event
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty, pack_event, pack_front, read_head
from overlay.ids import MAX_COUNT, LinkClass
from overlay.security.identity import Role
from tests.ges.conftest import Issue

DEADLINE_SECONDS = 20
PUB = (sys.executable, "-m", "ges.cli.main", "pub")


async def next_of(subscription: Subscription, count: int = 1) -> list[Event]:
    """Return the next events of a subscription."""
    with trio.fail_after(DEADLINE_SECONDS):
        return [await anext(subscription) for _ in range(count)]


def values_at(broker: Broker) -> int:
    return len(broker.stack.retaining.values.matching(Ask("#")))


async def first_of(url: str, text: str, **settings: object) -> list[tuple[str, bytes, bool]]:
    """Return what a new subscriber gets before something that is published now."""
    async with (
        connect(url, **settings) as client,  # type: ignore[arg-type]
        client.subscribe(text) as events,
        client.subscribe("fence") as fence,
    ):
        await client.publish("fence", b"")
        await next_of(fence)
        await client.publish(text.replace("#", "end").replace("+", "end"), b"end")
        found = []
        while (event := (await next_of(events))[0]).payload != b"end":
            found.append((event.topic, event.payload, event.retained))
        assert not event.retained
    return found


async def test_who_subscribes_later_gets_the_last_value_first_at_every_broker(
    brokers: Brokers,
) -> None:
    ring = await brokers.ring_of(3)
    async with connect(ring[0].url) as client, client.subscribe("home/#") as live:
        await client.publish("home/door", b"open", retain=True)
        await client.publish("home/door", b"shut", retain=True, attributes={"by": "me"})
        await client.publish("home/lamp", b"on", retain=True)
        await client.publish("home/lamp", b"just now")
        await client.publish("home/bell", b"gone", retain=True)
        await client.publish("home/bell", b"", retain=True)
        came = await next_of(live, 6)
        assert [event.retained for event in came] == [False] * 6
        assert [event.retain for event in came] == [True, True, True, False, True, True]
    await until(lambda: all(values_at(broker) == 2 for broker in ring))
    for broker in ring:
        found = await first_of(broker.url, "home/#")
        assert found == [("home/door", b"shut", True), ("home/lamp", b"on", True)]
        assert await first_of(broker.url, "home/+") == found
        assert await first_of(broker.url, "other/#") == []


async def test_values_outlive_the_publishers_broker_and_reach_brokers_that_join(
    brokers: Brokers,
) -> None:
    ring = await brokers.ring_of(3)
    async with connect(ring[0].url) as client:
        for number in range(50):
            await client.publish(f"many/{number}", b"%d" % number, retain=True)
        await client.publish("many/0", b"", retain=True)
        await client.flush()
    await until(lambda: all(values_at(broker) == 49 for broker in ring))
    brokers.kill(ring[0])
    await brokers.whole()
    newcomer = await brokers.start()
    async with connect(newcomer.url) as early, early.subscribe("many/#") as events:
        found = await next_of(events, 49)  # they come as the newcomer gets them
        assert {event.topic for event in found} == {f"many/{number}" for number in range(1, 50)}
        assert all(event.retained for event in found)
    assert len(await first_of(newcomer.url, "many/#")) == 49
    digests = {b.stack.retaining.values.digest(secure=False) for b in brokers.alive}
    assert len(digests) == 1


async def test_what_has_ended_is_delivered_to_nobody(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        connect(a.url) as here,
        connect(b.url) as there,
        there.subscribe("t/#") as events,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
        await here.publish("t/long", b"1", ttl=60)
        await here.publish("t/value", b"2", ttl=0.3, retain=True)
        found = await next_of(events, 2)
        assert [event.payload for event in found] == [b"1", b"2"]
        assert found[0].ends_unix_ms > found[1].ends_unix_ms > 0
        await until(lambda: values_at(a) + values_at(b) == 0)
        assert await first_of(b.url, "t/#") == []


async def test_what_ends_on_its_way_is_dropped_and_later_events_come(
    brokers: Brokers,
) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("t") as events:
        deliveries = broker.stack.deliveries
        is_over, deliveries.retaining.is_over = deliveries.retaining.is_over, lambda head: True  # type: ignore[method-assign]
        await client.publish("t", b"old", ttl=5, confirm=True)
        deliveries.retaining.is_over = is_over  # type: ignore[method-assign]
        await client.publish("t", b"new", ttl=5)
        assert [event.payload for event in await next_of(events)] == [b"new"]
        assert broker.driver.counters["events_expired"] == 1


async def test_secure_values_go_over_secure_hops_alone(brokers: Brokers, issue: Issue) -> None:
    identities = [issue(Role.BROKER), issue(Role.BROKER)]
    a, b = await brokers.ring_of(2, *identities)
    newcomer = await brokers.start(identity=issue(Role.BROKER))
    plain = await brokers.start()
    await brokers.whole()
    me = issue(Role.CLIENT)
    assert a.secure_url is not None
    async with connect(a.secure_url, identity=me) as client:
        with trio.fail_after(DEADLINE_SECONDS):
            await client.publish(
                "pay/1", b"42", retain=True, link_class=LinkClass.SECURE, park=10, confirm=True
            )
    secured = (a, b, newcomer)
    await until(lambda: all(values_at(broker) == 1 for broker in secured))
    assert values_at(plain) == 0
    late = await brokers.start(identity=issue(Role.BROKER))
    await until(lambda: values_at(late) == 1)
    assert values_at(plain) == 0
    assert late.secure_url is not None
    found = await first_of(late.secure_url, "pay/#", identity=me)
    assert found == [("pay/1", b"42", True)]
    assert await first_of(late.url, "pay/#") == []


async def test_a_large_number_of_values_comes_in_pieces_and_before_their_news(
    brokers: Brokers,
) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client:
        for number in range(300):
            await client.publish(f"large/{number:03}", bytes(10_000), retain=True)
        await client.flush()
        async with client.subscribe("large/#") as events:
            await client.publish("large/299", b"news", retain=True)
            found = await next_of(events, 300)
    last = [event for event in found if event.topic == "large/299"]
    assert [event.retained for event in last][-1] is (last[-1].payload != b"news")
    assert len({event.topic for event in found}) == 300


async def test_retained_events_for_queue_groups_are_kept_as_they_were_published(
    brokers: Brokers,
) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        connect(b.url) as worker,
        worker.subscribe("jobs/+", queue="workers") as jobs,
        connect(a.url) as client,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await jobs.active.wait()
        await client.publish("jobs/1", b"first", retain=True, ttl=60)
        await client.publish("jobs/2", b"second", retain=True)
        await client.publish("jobs/3", b"gone", retain=True)
        await client.publish("jobs/3", b"", retain=True)
        came = await next_of(jobs, 4)
        assert [event.payload for event in came] == [b"first", b"second", b"gone", b""]
        assert came[0].ends_unix_ms
        assert not any(event.retained for event in came)
    await until(lambda: values_at(a) == values_at(b) == 2)
    for broker in (a, b):
        found = await first_of(broker.url, "jobs/#")
        assert found == [("jobs/1", b"first", True), ("jobs/2", b"second", True)]


async def test_a_stamp_far_ahead_is_refused_and_the_value_can_be_replaced(
    brokers: Brokers,
) -> None:
    """A broker forges the largest stamp that a frame may have; then somebody publishes."""
    liar, other = await brokers.ring_of(2)
    body = pack_event(False, b"f" * 16, 1, 1, 0, b"home/door", b"", b"forged", retain=True)
    await until(lambda: other.stack.node.gateways.slot is not None)
    for shape, destinations in ((1, 1 << (other.stack.node.gateways.slot or 0)), (0, 0)):
        head = read_head(body)
        forged = EventRun.of(head, body).timed(MAX_COUNT, 0)
        front = pack_front(head.flags, 1, 0, 0, Duty(shape, 0, destinations, 0))
        line = liar.driver.links[other.stack.node.peer.uid, LinkClass.NORMAL]
        line.connection.send(bytes(forged.patched(front)), 1)
    await until(lambda: other.driver.counters["retained_ahead"] == 2)
    assert values_at(other) == 0
    for text in ("shut", "open"):
        done = await trio.run_process(
            [*PUB, "home/door", text, "--retain", "--broker", other.url],
            capture_stdout=True,
        )
        assert b"published 1 event to home/door" in done.stdout
    for broker in (liar, other):
        assert await first_of(broker.url, "home/#") == [("home/door", b"open", True)]
