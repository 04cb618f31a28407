"""Operators at one broker: whom they see, whom they cut off, and what a drain does to clients."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.waiting import until
from ges.client import Client, connect
from ges.errors import OperationRefused
from ges.sessions import operators
from ges.wire.operator_messages import ClientsRequest, ClientStatus, Kick
from overlay.ids import LinkClass
from overlay.security.identity import Role
from tests.ges.conftest import Issue

DEADLINE_SECONDS = 20


async def listed(client: Client) -> list[ClientStatus]:
    found: list[ClientStatus] = []
    while len(found) < 100:
        answer = await client.operate(ClientsRequest(found[-1].number if found else 0))
        found += answer.clients
        if not answer.more:
            break
    return found


async def test_all_are_listed_by_pages_though_they_share_a_certificate(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "CLIENTS_PER_MESSAGE", 2)
    broker = await brokers.start(identity=issue(Role.BROKER))
    mine = issue(Role.CLIENT)
    url = broker.secure_url
    assert url is not None
    async with AsyncExitStack() as stack:
        *others, operator = [
            await stack.enter_async_context(connect(url, identity=mine)) for _ in range(5)
        ]
        found = await listed(operator)
        assert [each.number for each in found] == [1, 2, 3, 4, 5]
        assert {each.uid for each in found} == {operator.uid}
        assert [each.is_asker for each in found] == [False] * 4 + [True]
        assert all(each.secure and each.name == f"uid:{operator.uid}" for each in found)
        with trio.fail_after(DEADLINE_SECONDS):
            await operator.operate(Kick(operator.uid))
        await until(lambda: all(client.gaps for client in others), what="they come back")
        assert not operator.gaps
        assert broker.driver.counters["clients_kicked"] == 4


async def test_what_a_client_sends_and_gets_is_counted(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with (
        attach(broker) as publisher,
        attach(broker) as subscriber,
        subscriber.subscribe("a/#"),
        subscriber.subscribe("b"),
    ):
        for _ in range(3):
            await publisher.publish("a/b", b"x", confirm=True)
        await publisher.publish("a/b", b"x", link_class=LinkClass.EXPRESS, confirm=True)
        found = {each.uid: each for each in await listed(publisher)}
    sent, got = found[publisher.uid], found[subscriber.uid]
    assert (sent.published, sent.delivered, sent.subscriptions) == (4, 0, 0)
    assert (got.published, got.delivered, got.subscriptions) == (0, 4, 2)
    assert got.sent_bytes > 0 == got.dropped


async def test_nobody_is_cut_off_where_nobody_has_that_uid(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with attach(broker) as operator:
        with pytest.raises(OperationRefused, match=r"no client f{32} is attached here"):
            await operator.operate(Kick("f" * 32))


async def test_secure_clients_move_from_a_broker_that_drains_and_miss_nothing(
    brokers: Brokers, issue: Issue
) -> None:
    """While nobody is attached to the other broker it may have no secure path: events wait then."""
    stays, goes = await brokers.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    assert goes.secure_url is not None
    async with (
        connect(goes.secure_url, identity=issue(Role.CLIENT)) as publisher,
        connect(goes.secure_url, identity=issue(Role.CLIENT)) as subscriber,
        subscriber.subscribe("pay", link_class=LinkClass.SECURE) as events,
        trio.open_nursery() as nursery,
    ):
        await events.active.wait()
        nursery.start_soon(goes.drained)
        for number in range(200):
            await publisher.publish("pay", b"%d" % number, link_class=LinkClass.SECURE, park=5)
            if number == 50:
                goes.drain(5.0)
            await trio.sleep(0.002)
        await publisher.flush()
        with trio.fail_after(DEADLINE_SECONDS):
            assert [int((await anext(events)).payload) for _ in range(200)] == list(range(200))
        assert publisher.broker_url == subscriber.broker_url == stays.secure_url
