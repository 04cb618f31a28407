"""What a broker says it would do with an event, asked by the library."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.client import connect
from ges.sessions import explanations
from ges.wire.replies import reply_address
from ges.wire.why import MAX_CLIENTS_TOLD, MAX_FILTERS_TOLD, WhyFilter
from overlay.ids import LinkClass

DEADLINE_SECONDS = 20


async def test_members_and_clients_with_what_they_want(brokers: Brokers) -> None:
    a, b, c = await brokers.ring_of(3)
    async with (
        connect(a.url) as asker,
        connect(b.url) as other,
        other.subscribe("x/+") as events,
        other.subscribe("x/#", link_class=LinkClass.EXPRESS),
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            while True:
                told = await asker.why("x/1")
                if not any(member.is_unknown for member in told.members):
                    break
                await trio.sleep(0.01)
        assert (told.refusal, told.withheld, told.to_all) == (None, None, False)
        members = {member.url: member for member in told.members}
        assert members.keys() == {a.url, b.url, c.url}
        assert [url for url, member in members.items() if member.is_for] == [b.url]
        there = members[b.url]
        assert [ask.filter for ask in there.asks] == ["x/+"]
        assert [hop.link_class for hop in there.path] in (["normal"], ["normal", "normal"])
        assert there.path[-1].slot == there.slot
        assert (told.clients, told.client_count) == ((), 0)

        async with connect(b.url) as near:
            own = await near.why("x/1", clients_only=True)
            assert own.members == ()
            [client] = own.clients
            assert client.filters == (WhyFilter("x/+", None),)
            deep = await near.why("x/1/2", subscriber=client.uid)
            assert deep.clients[0].problem == "what matches is for express events alone"
            none = await near.why("y", subscriber=client.uid)
            assert none.clients[0].problem == "none of its filters matches"
            assert len(none.clients[0].filters) == 2
            secure = await near.why("x/1", link_class=LinkClass.SECURE, subscriber=client.uid)
            assert secure.clients[0].problem == "the hop from its broker to it is not secure"
            assert (await near.why("x/1", subscriber="0" * 32)).clients == ()


async def test_what_is_told_and_looked_at_is_bounded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await brokers.ring_of(2)
    async with connect(a.url) as asker, connect(b.url) as many, trio.open_nursery() as nursery:

        async def subscribe(text: str, *, task_status: trio.TaskStatus[None]) -> None:
            async with many.subscribe(text) as events:
                await events.active.wait()
                task_status.started()
                await trio.sleep_forever()

        texts = ["x/+", "+/1", "x/1", "+/+", "x/#"]
        assert len(texts) == MAX_FILTERS_TOLD + 1
        with trio.fail_after(DEADLINE_SECONDS):
            for text in texts:
                await nursery.start(subscribe, text)
        async with connect(b.url) as near:
            [client] = (await near.why("x/1")).clients
        assert len(client.filters) == MAX_FILTERS_TOLD
        assert client.has_more
        monkeypatch.setattr(explanations, "MAX_LOOKED_AT", 0)
        there = next(m for m in (await asker.why("x/1")).members if m.is_for)
        assert (there.asks, there.has_more) == ((), True)
        nursery.cancel_scope.cancel()


async def test_of_many_clients_some_are_told_and_all_counted(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with trio.open_nursery() as nursery:
        attached = 0

        async def attach() -> None:
            nonlocal attached
            async with connect(broker.url) as client, client.subscribe("x"):
                attached += 1
                await trio.sleep_forever()

        for _ in range(MAX_CLIENTS_TOLD + 3):
            nursery.start_soon(attach)
        with trio.fail_after(DEADLINE_SECONDS):
            await until(lambda: attached == MAX_CLIENTS_TOLD + 3)
        async with connect(broker.url) as asker:
            told = await asker.why("x")
        assert (len(told.clients), told.client_count) == (MAX_CLIENTS_TOLD, MAX_CLIENTS_TOLD + 3)
        nursery.cancel_scope.cancel()


RULES = """
[[allow]]
subject = "anyone"
publish = ["letterbox/#", "open/#"]
subscribe = ["open/#"]

[[allow]]
subject = "token:line-1"
subscribe = ["#"]
"""


async def test_nobody_counts_the_readers_of_what_he_may_not_read(
    brokers: Brokers, tmp_path: Path, book: Path, token: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    a = await brokers.start(access=rules, tokens=book)
    b = await brokers.start(access=rules, tokens=book)
    await brokers.whole()
    async with (
        connect(b.url, token=token) as reader,
        reader.subscribe("#") as events,
        connect(a.url) as far,
        connect(b.url) as near,
        connect(a.url, token=token) as insider,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            while True:
                known = (await insider.why("hidden")).members
                if known and not any(member.is_unknown for member in known):
                    break
                await trio.sleep(0.01)
        for topic, is_for, count in (
            ("hidden", [], 0),  # neither to be read nor to be published
            ("letterbox/1", [b.url], 0),  # to be published: whether it goes anywhere, but not more
            ("open/1", [b.url], 1),
        ):
            there, here = await far.why(topic), await near.why(topic)
            assert [member.url for member in there.members if member.is_for] == is_for, topic
            assert (len(here.clients), here.client_count) == (count, count), topic
            assert not any(
                member.asks[0].filter for member in there.members if count < 1 and member.asks
            )
        assert (await insider.why("hidden")).members
        address = reply_address(reader.uid, bytes(16))
        assert (await near.why(address)).client_count == 0
