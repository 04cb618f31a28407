"""Classes, realms and levels given as text, or as anything else, at all faces of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from ges.client import Client, Level, LinkClass, aio, connect, sync
from ges.errors import PublishRefused, SubscribeRefused
from ges.wire.operator_messages import Kick
from ges.wire.realms import Realm
from overlay.errors import ConfigError
from tests.helpers.broker_thread import BrokerThread
from tests.helpers.tap import tapped

SECRET = "very/secret/topic"
NOT_SECURE = "the hop to the broker is not"
NO_CLASSES: list[Any] = ["sekure", "SECURE", "", 3, b"secure", Realm.ALL]
NO_REALMS: list[Any] = ["town", "", 7, b"all", LinkClass.NORMAL]
NO_QUESTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("why", ("t",), {"subscriber": "no uid"}),
    ("why", ("t",), {"subscriber": 5}),
    ("why", ("t",), {"clients_only": "perhaps"}),
    ("why_event", ("no uid", 1), {}),
    ("why_event", ("0" * 32, -1), {}),
    ("why_event", ("0" * 32, 2**64), {}),
    ("operate", (Kick("no uid"),), {}),
]

#: Calls a method of a client; a subscription is entered.
Call = Callable[..., Any]


async def _call(client: Client, method: str, *about: Any, **more: Any) -> Any:  # noqa: ANN401
    if method != "subscribe":
        return await getattr(client, method)(*about, **more)
    async with client.subscribe(*about, **more) as found:
        await found.active.wait("system")  # type: ignore[arg-type]
        return found.link_class


def on_trio(url: str, play: Callable[[Call], None]) -> None:
    """Play with a client on trio, from a thread beside it."""

    async def run() -> None:
        async with connect(url) as client:

            def call(method: str, *about: Any, **more: Any) -> Any:  # noqa: ANN401
                async def ask() -> Any:  # noqa: ANN401
                    return await _call(client, method, *about, **more)

                return trio.from_thread.run(ask)

            await trio.to_thread.run_sync(play, call)

    trio.run(run)


def on_asyncio(url: str, play: Callable[[Call], None]) -> None:
    """Play with a client on asyncio, from a thread beside it."""

    async def run() -> None:
        async with aio.connect(url) as client:
            loop = asyncio.get_running_loop()

            def call(method: str, *about: Any, **more: Any) -> Any:  # noqa: ANN401
                asked = _call(client, method, *about, **more)
                return asyncio.run_coroutine_threadsafe(asked, loop).result()

            await asyncio.to_thread(play, call)

    asyncio.run(run())


def without_await(url: str, play: Callable[[Call], None]) -> None:
    """Play with a client for scripts."""
    with sync.connect(url) as client:

        def call(method: str, *about: Any, **more: Any) -> Any:  # noqa: ANN401
            found = getattr(client, method)(*about, **more)
            if method == "subscribe":
                with found:
                    found.active.wait(level="system")
            return found

        play(call)


FACES = pytest.mark.parametrize("face", [on_trio, on_asyncio, without_await])
Face = Callable[[str, Callable[[Call], None]], None]


@FACES
def test_a_secure_filter_is_kept_from_a_plain_hop_however_its_class_is_given(
    thread: BrokerThread, face: Face
) -> None:
    def play(call: Call) -> None:
        for given in ("secure", LinkClass.SECURE):
            with pytest.raises(SubscribeRefused, match=NOT_SECURE):
                call("subscribe", f"{SECRET}/#", link_class=given)
            with pytest.raises(PublishRefused, match="not secure"):
                call("publish", SECRET, b"x", link_class=given)
            with pytest.raises(PublishRefused, match="not secure"):
                call("request", SECRET, b"x", link_class=given)
        call("publish", "in/the/open", b"x", confirm=True)

    broker = thread.start()
    with tapped(SECRET.encode(), b"in/the/open") as tap:
        face(broker.url, play)
    assert tap.found == {b"in/the/open"}


@FACES
def test_names_are_as_good_as_what_they_name(thread: BrokerThread, face: Face) -> None:
    def play(call: Call) -> None:
        for given in ("express", LinkClass.EXPRESS, "normal", LinkClass.NORMAL, None):
            call("subscribe", "t", link_class=given)
        for realm in ("cluster", Realm.CLUSTER):
            call("subscribe", "t", realm=realm)
            call("publish", "t", b"x", realm=realm, link_class="normal", confirm=True)
        assert call("why", "t", link_class="express").topic == "t"

    face(thread.start().url, play)


@FACES
def test_what_is_none_is_refused_and_the_client_stays_attached(
    thread: BrokerThread, face: Face
) -> None:
    def play(call: Call) -> None:
        for given in [*NO_CLASSES, None]:
            for method in ("publish", "request", "why"):
                with pytest.raises(ConfigError, match=r"link_class .*write one of normal, express"):
                    call(method, "t", link_class=given)
            with pytest.raises(ConfigError, match="link_class"):
                call("why_event", "0" * 32, 1, link_class=given)
        for given in NO_CLASSES:
            with pytest.raises(ConfigError, match="link_class"):
                call("subscribe", "t", link_class=given)
        for given in NO_REALMS:
            for method in ("publish", "request", "why", "subscribe"):
                with pytest.raises(ConfigError, match=r"realm .*write one of cluster"):
                    call(method, "t", realm=given)
        for method, about, more in NO_QUESTIONS:
            with pytest.raises(ConfigError):
                call(method, *about, **more)
        call("publish", "t", b"x", confirm=True)

    broker = thread.start()
    face(broker.url, play)
    assert thread.call(lambda: broker.driver.counters["protocol_errors"]) == 0


async def test_levels(brokers: Brokers) -> None:
    broker = await brokers.start()
    async with connect(broker.url) as client, client.subscribe("t") as events:
        given: Any
        for given in (1, "cluster", "super-cluster", Level.SYSTEM):
            await events.active.wait(given)
            assert events.active.is_set(given)
        for given in (0, 5, True, "town", None, b"cluster"):
            with pytest.raises(ConfigError, match=r"level .*write one of cluster, super-cluster"):
                events.active.is_set(given)
