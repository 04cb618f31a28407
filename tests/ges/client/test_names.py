"""Named clients, with brokers in the same process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from ges.access.token_file import issue_token
from ges.client import connect
from ges.errors import PublishRefused, SubscribeRefused
from overlay.errors import ConfigError
from overlay.ids import LinkClass

SECONDS = 20


async def test_all_clients_of_a_name_get_what_is_for_it_and_others_nothing(
    brokers: Brokers,
) -> None:
    first, second = await brokers.ring_of(2)
    async with (
        connect(first.url) as client,
        connect(second.url) as other,
        client.inbox("kitchen") as here,
        other.inbox("kitchen") as there,
        other.inbox("hall") as hall,
        other.subscribe("#") as plain,
    ):
        with trio.fail_after(SECONDS):
            for events in (here, there, hall, plain):
                await events.active.wait()
            await client.publish("lamp", b"1", to="kitchen", attributes={"a": "b"}, confirm=True)
            await client.publish("lamp", b"2", to=["hall", "kitchen", "hall"], ttl=60)
            await client.publish("lamp", b"3")
            assert [(await anext(here)).payload for _ in range(2)] == [b"1", b"2"]
            event = await anext(there)
            assert (event.topic, event.payload, event.attributes) == ("lamp", b"1", {"a": "b"})
            assert event.priority == 0
            assert (await anext(there)).payload == b"2"
            assert (await anext(hall)).payload == b"2"
            assert (await anext(plain)).payload == b"3"


async def test_what_cannot_be_sent_to_a_name_is_refused(brokers: Brokers) -> None:
    (broker,) = await brokers.ring_of(1)
    async with connect(broker.url) as client:
        with trio.fail_after(SECONDS):
            with pytest.raises(PublishRefused, match=r"^no such client: ghost, spook$"):
                await client.publish("t", b"x", to=["ghost", "spook"], confirm=True)
            await client.publish("t", b"y", confirm=True)
            with pytest.raises(PublishRefused, match="nothing is published below"):
                await client.publish("$name/kitchen", b"x", confirm=True)
            for wrong in ("", "a b", "-x", "a" * 65, "käse", "a/b"):
                with pytest.raises(ConfigError, match="is no name of a client"):
                    await client.publish("t", b"x", to=[wrong])
            with pytest.raises(ConfigError, match="1 to 64 named clients"):
                await client.publish("t", b"x", to=[f"n{number}" for number in range(65)])
            with pytest.raises(ConfigError, match="is not retained, and has no realm"):
                await client.publish("t", b"x", to="a", retain=True)
            with pytest.raises(ConfigError, match="of class normal"):
                await client.publish("t", b"x", to="a", link_class=LinkClass.EXPRESS)
            for text in ("$name/+", "$name/#", "$name", "$name/a/b"):
                with pytest.raises(SubscribeRefused, match="one name of a client"):
                    async with client.subscribe(text):
                        pass
            with pytest.raises(SubscribeRefused, match="no queue group"):
                async with client.subscribe("$name/a", queue="q"):
                    pass


async def test_events_keep_their_order_while_some_wait_for_an_answer(brokers: Brokers) -> None:
    first, second = await brokers.ring_of(2)
    async with (
        connect(first.url) as client,
        connect(second.url) as other,
        other.inbox("slow") as inbox,
        other.subscribe("t") as plain,
    ):
        with trio.fail_after(SECONDS):
            await inbox.active.wait()
            await plain.active.wait()
            for number in range(20):
                await client.publish("t", b"%d" % number, to="slow" if number % 2 else ())
            await client.flush()
            odd = [(await anext(inbox)).payload for _ in range(10)]
            even = [(await anext(plain)).payload for _ in range(10)]
            assert odd == [b"%d" % number for number in range(1, 20, 2)]
            assert even == [b"%d" % number for number in range(0, 20, 2)]


async def test_where_there_are_rules_a_name_is_that_of_the_token_or_the_uid(
    brokers: Brokers, tmp_path: Path
) -> None:
    rules, book = tmp_path / "access.toml", tmp_path / "tokens.json"
    rules.write_text('[[allow]]\nsubject = "anyone"\npublish = ["#"]\nsubscribe = ["x"]\n')
    token = issue_token(book, "kitchen", int(time.time()), 3600.0)
    broker = await brokers.start(access=rules, tokens=book)
    async with (
        connect(broker.url) as nobody,
        connect(broker.url, token=token) as known,
        known.inbox("kitchen") as inbox,
        nobody.inbox(nobody.uid) as own,
    ):
        with trio.fail_after(SECONDS):
            for client, name in ((nobody, "kitchen"), (known, "hall"), (nobody, known.uid)):
                with pytest.raises(SubscribeRefused, match="is not proven"):
                    async with client.inbox(name):
                        pass
            await inbox.active.wait()
            await own.active.wait()
            await nobody.publish("t", b"x", to=["kitchen", nobody.uid], confirm=True)
            assert (await anext(inbox)).payload == b"x"
            assert (await anext(own)).payload == b"x"
