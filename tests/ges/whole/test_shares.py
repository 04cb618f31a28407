"""One stranger takes what it can get, and honest clients from elsewhere are served all the same.

The stranger is at 127.0.0.2, and shows nothing. Each fault that is planted takes away the shares,
the reserve, or what is charged to a source: then the stories of the first part must fail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.access.token_file import issue_token
from ges.broker import Broker
from ges.client import Client, connect
from ges.delivery.first_values import KEY_BYTES, WISH_BYTES
from ges.errors import PublishRefused
from ges.matching.asks import ask_for
from ges.retained.values import RetainedValues
from ges.sessions import subscription_shares
from ges.wire.asked import Ask
from ges.wire.client_messages import (
    Attached,
    EventRefused,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from ges.wire.events import pack_event
from overlay.ids import uid_of
from overlay.limits import Limits
from overlay.machine import Message
from overlay.shares import MEND
from overlay.wire.frames import EVENT, frame
from tests.ges.retained.test_values import event as retained
from tests.ges.sessions.test_clients import Raw
from tests.ges.whole.test_slots import ATTACKER, client, greet

DEADLINE_SECONDS = 20
Story = Callable[[Brokers, Path], Awaitable[None]]


@asynccontextmanager
async def stranger(broker: Broker, number: int = 1, host: str = ATTACKER) -> AsyncIterator[Raw]:
    """Attach from the stranger's address; ``number`` makes another client of it."""
    hello = client(number)
    async with await greet(broker, hello, host) as stream:
        raw = Raw(stream)
        with trio.fail_after(DEADLINE_SECONDS):
            while not isinstance(await raw.hear(), Attached):
                pass
        yield raw


async def retain(raw: Raw, topics: list[str], payload: bytes = b"x", number: int = 1) -> list[str]:
    """Publish retained events by that client of the stranger; returns why some are refused."""
    secret = client(number).secret
    assert secret is not None
    publisher = bytes.fromhex(uid_of(secret))
    for at, topic in enumerate(topics, 1):
        body = pack_event(False, publisher, 1, at, 0, topic.encode(), b"", payload, retain=True)
        await raw.stream.send_all(frame(EVENT, body))
    return [why.reason for why in await answers(raw) if isinstance(why, EventRefused)]


async def answers(raw: Raw) -> list[Message]:
    """Return all that the broker answers to what was said so far."""
    await raw.say(Subscribe(9_999, Ask("the/end")))
    found: list[Message] = []
    while True:
        heard = await raw.hear()
        assert heard is not None
        assert not isinstance(heard, bytes)
        if isinstance(heard, Subscribed | SubscriptionRefused) and heard.number == 9_999:
            return found
        found.append(heard)


async def subscribe(raw: Raw, *wanted: Subscribe) -> list[str]:
    """Return why subscriptions of the stranger are refused."""
    await raw.say(*wanted)
    return [why.reason for why in await answers(raw) if isinstance(why, SubscriptionRefused)]


async def set_value(at: Client, topic: str) -> None:
    await at.publish(topic, b"honest", retain=True, confirm=True)


async def set_values(at: Client, below: str, many: int) -> None:
    for number in range(many):
        await set_value(at, f"{below}/{number}")


def all_have(values: list[RetainedValues], many: int) -> bool:
    return all(len(each) == many for each in values)


# ── what a stranger does ──────────────────────────────────────────────────────────────────────────


async def takes_retained_values(brokers: Brokers, folder: Path) -> None:
    """Of 128 values 112 are for strangers, of which one has 28, and at another broker less."""
    token = issue_token(folder / "tokens", "line-1", 0, None)
    limits = Limits(retained=128)
    a = await brokers.start(limits=limits, tokens=folder / "tokens")
    b = await brokers.start(limits=limits, tokens=folder / "tokens")
    await brokers.whole()
    values = [broker.stack.retaining.values for broker in (a, b)]
    for number, (broker, kept) in enumerate([(a, 28), (b, 28 + 21), (a, 28 + 21)], 1):
        async with stranger(broker, number) as raw:
            why = await retain(raw, [f"{number}/{n}" for n in range(40)], number=number)
            assert why
            assert why[0].startswith("not retained: address 127.0.0.2 may have ")
            assert MEND in why[0]
            assert len(broker.stack.retaining.values) == kept
        await until(partial(all_have, values, kept))
    assert a.driver.counters["retained_refused"] == 12 + 40
    async with connect(a.url) as here, connect(b.url) as there:
        await set_value(here, "honest/1")
        await set_value(there, "honest/2")
        # The rest is shared by honest clients at the same address, and a token has more.
        await set_values(here, "more", 12)
        with pytest.raises(PublishRefused, match=r"address 127\.0\.0\.1 may have"):
            await set_values(here, "more", 50)
    async with connect(a.url, token=token) as proven:
        await set_values(proven, "proven", 30)


async def clears_what_is_not_there(brokers: Brokers, folder: Path) -> None:
    """That a topic was cleared is remembered, too, and drives out no value."""
    broker = await brokers.start(limits=Limits(retained=64))
    async with connect(broker.url) as honest:
        await set_value(honest, "honest")
    async with stranger(broker) as raw:
        assert len(await retain(raw, [f"{n}" for n in range(40)], b"")) == 40 - 14
        await retain(raw, ["0", "1"], b"")
    assert len(broker.stack.retaining.values) == 15


async def takes_over_values_of_others(brokers: Brokers, folder: Path) -> None:
    """Who replaces a value has it in its share."""
    broker = await brokers.start(limits=Limits(retained=64))
    async with connect(broker.url) as honest:
        await set_values(honest, "honest", 14)
    async with stranger(broker) as raw:
        assert await retain(raw, [f"{n}" for n in range(10)]) == []
    async with stranger(broker, 2) as raw:
        refused = await retain(raw, [f"honest/{n}" for n in range(14)], number=2)
        assert len(refused) == 10
    async with connect(broker.url) as honest:
        await set_value(honest, "honest/13")
        await set_value(honest, "another")  # four of its are the stranger's now


async def takes_all_that_is_for_strangers(brokers: Brokers, folder: Path) -> None:
    """By four addresses: 56 of 64 values; the last eight are for who shows something."""
    token = issue_token(folder / "tokens", "line-1", 0, None)
    broker = await brokers.start(limits=Limits(retained=64), tokens=folder / "tokens")
    for number in range(2, 6):
        async with stranger(broker, number, f"127.0.0.{number}") as raw:
            await retain(raw, [f"{number}/{n}" for n in range(20)], number=number)
    async with connect(broker.url) as honest:
        with pytest.raises(PublishRefused, match="56 of 64 retained values are taken, and the re"):
            await set_value(honest, "honest")
    async with connect(broker.url, token=token) as proven:
        await set_values(proven, "proven", 8)


async def takes_queue_groups(brokers: Brokers, folder: Path) -> None:
    """Of 1,024 groups 896 are for strangers, of which one has 224; groups of others count, too."""
    broker = await brokers.start()
    async with AsyncExitStack() as stack:
        for number in (1, 2):
            raw = await stack.enter_async_context(stranger(broker, number))
            wanted = [Subscribe(n, ask_for(f"{number}/{n}", None, f"g{n}")) for n in range(240)]
            why = await subscribe(raw, *wanted)
            assert len(why) == (16 if number == 1 else 240)
            told = "address 127.0.0.2 may have 224 queue groups, and has 224; "
            assert why[0].startswith(told + MEND)
        assert broker.driver.counters["subscriptions_refused"] == 256
        async with connect(broker.url) as honest, honest.subscribe("a", queue="g"):
            await honest.publish("a", b"", confirm=True)
        # What one has given back it may have again.
        async with connect(broker.url) as honest:
            for number in range(230):
                async with honest.subscribe(f"a/{number}", queue="g"):
                    pass
    await until(lambda: broker.clients.size == 0)
    async with stranger(broker) as raw:
        wanted = [Subscribe(n, Ask(f"{n}", group="g")) for n in range(220)]
        assert await subscribe(raw, *wanted, *wanted) == [], "who goes leaves room"


async def takes_memory_for_filters(brokers: Brokers, folder: Path) -> None:
    """With five connections, each within what one client may have."""
    deep = "/".join("abcdefgh" for _ in range(60))
    limits = Limits(subscription_bytes=150_000, subscription_bytes_total=1_000_000)
    broker = await brokers.start(limits=limits)
    async with AsyncExitStack() as stack:
        refused: list[str] = []
        for number in range(5):
            raw = await stack.enter_async_context(stranger(broker, number + 1))
            wanted = [Subscribe(n, Ask(f"{number}/{n}/{deep}")) for n in range(3)]
            refused += await subscribe(raw, *wanted)
        assert refused
        assert refused[-1].startswith("address 127.0.0.2 may have 218750 bytes of memory for filt")
        async with connect(broker.url) as honest, honest.subscribe(f"honest/{deep}"):
            pass
    await until(lambda: broker.clients.size == 0)
    async with stranger(broker) as raw:
        assert await subscribe(raw, Subscribe(1, Ask(deep))) == [], "who goes leaves room"


async def takes_names(brokers: Brokers, folder: Path) -> None:
    """By four connections, each of which may have 16."""
    broker = await brokers.start()
    with mock.patch.object(subscription_shares, "MAX_NAMES", 128):
        async with AsyncExitStack() as stack:
            refused: list[str] = []
            for number in range(1, 5):
                raw = await stack.enter_async_context(stranger(broker, number))
                wanted = [Subscribe(n, Ask(f"$name/{number}-{n}")) for n in range(16)]
                refused += await subscribe(raw, *wanted)
            assert len(refused) == 4 * 16 - 28
            assert refused[0].startswith("address 127.0.0.2 may have 28 names, and has 28")
            async with connect(broker.url) as honest, honest.subscribe("$name/honest"):
                pass


STORIES = [
    takes_retained_values,
    clears_what_is_not_there,
    takes_over_values_of_others,
    takes_queue_groups,
    takes_memory_for_filters,
    takes_names,
]


@pytest.mark.parametrize(
    "story", [*STORIES, takes_all_that_is_for_strangers], ids=lambda story: story.__name__
)
async def test_a_stranger_leaves_room_for_others(
    story: Story, brokers: Brokers, tmp_path: Path
) -> None:
    await story(brokers, tmp_path)


async def test_who_subscribes_for_all_values_many_times_and_reads_none_holds_one_list(
    brokers: Brokers,
) -> None:
    broker = await brokers.start()
    first = broker.stack.retaining.first
    for number in range(1000):
        run = retained(b"t/%d" % number, bytes(2000), at=number + 1)
        assert broker.stack.retaining.values.take(run, 1) is not None
    async with await greet(broker, client(1)) as stream:
        raw = Raw(stream)
        await raw.say(*(Subscribe(number, Ask("#"), values=True) for number in range(100)))
        await until(lambda: broker.stack.deliveries.subscriptions == 100, 20.0)
        (session,) = first._waiting
        assert len(first._waiting[session].keys) <= 1000
        most = KEY_BYTES * 1000 + WISH_BYTES * 100
        assert 0 < session.waiting_bytes <= most
        found = 0
        with trio.fail_after(DEADLINE_SECONDS):
            while found < 2500:
                found += isinstance(await raw.hear(), bytes)
    await until(lambda: not first._waiting)
