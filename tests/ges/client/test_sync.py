"""The client without await: in scripts, in threads, and beside an event loop as notebooks have."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ges.client
from benchmarks.stage.brokers import hang
from benchmarks.stage.waiting import eventually
from ges.broker import Broker
from ges.client import sync
from ges.client.sync import Client, Gap, connect
from ges.errors import (
    ClientClosed,
    ConnectionLost,
    OperationRefused,
    PublishRefused,
    SubscribeRefused,
    TopicError,
    WrongThread,
)
from ges.wire.operator_messages import ClientsRequest, Kick
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from tests.helpers.broker_thread import BrokerThread

NOBODY = "chordal://127.0.0.1:1"


def test_it_asks_as_an_operator(thread: BrokerThread) -> None:
    broker = thread.start()
    with connect(broker.url) as client:
        (found,) = client.operate(ClientsRequest(0)).clients
        assert (found.uid, found.is_asker) == (client.uid, True)
        with pytest.raises(OperationRefused, match=f"no client {'0' * 32} is attached here"):
            client.operate(Kick("0" * 32))


def clients_of(thread: BrokerThread, broker: Broker) -> int:
    return thread.call(lambda: len(broker.clients._sessions))


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "chordal client"]


def public(kind: type[object]) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_the_names_and_arguments_are_those_of_the_client_under_trio() -> None:
    assert set(sync.__all__) == set(ges.client.__all__)
    under_trio = dict(inspect.signature(ges.client.connect).parameters)
    del under_trio["transport"]
    assert under_trio == dict(inspect.signature(connect).parameters)
    assert public(Client) - {"uid"} == public(ges.client.Client) | {"close"}
    for name in ("publish", "request", "reply", "subscribe"):
        assert inspect.signature(getattr(Client, name)).parameters == (
            inspect.signature(getattr(ges.client.Client, name)).parameters
        )


def test_what_arrived_can_be_read_and_then_it_ends(thread: BrokerThread) -> None:
    broker = thread.start()
    with connect(broker.url) as client:
        with client.subscribe("a") as events, client.subscribe("fence") as fence:
            for number in range(5):
                client.publish("a", b"%d" % number)
            client.publish("fence", confirm=True)
            fence.get(10)
            first = events.get(10)
            assert first is not None
            assert first.payload == b"0"
            assert len(events.batch(10)) == 4
            with pytest.raises(TimeoutError):
                events.get(0.01)
            with pytest.raises(TimeoutError):
                events.batch(0.01)
        assert events.get(10) is None
        assert events.batch() == list(events) == []


def test_it_works_beside_a_running_event_loop(thread: BrokerThread) -> None:
    """As in a notebook, whose cells are run by an event loop."""
    broker = thread.start()

    async def cell() -> None:
        with connect(broker.url) as client, client.subscribe("a") as events:
            client.publish("a", b"1", confirm=True)
            event = events.get(10)
            assert event is not None
            assert event.payload == b"1"

    asyncio.run(cell())


def test_errors_are_those_of_the_client(thread: BrokerThread) -> None:
    broker = thread.start()
    text: Any = "21.5"
    with pytest.raises(ConnectionLost, match="connection refused"):
        connect(NOBODY, timeout=0.2)
    with pytest.raises(ConfigError, match="chordal://HOST"):
        connect("http://a")
    with connect(broker.url) as client:
        with pytest.raises(ConfigError, match=r"text\.encode\(\)"):
            client.publish("a", text)
        with pytest.raises(PublishRefused, match="not secure"):
            client.publish("a", link_class=LinkClass.SECURE)
        with pytest.raises(TopicError):
            client.subscribe("a/>")
        with pytest.raises(SubscribeRefused, match="not secure"):
            client.subscribe("a", link_class=LinkClass.SECURE)
    assert threads() == []


def test_a_closed_client_says_so_at_once(thread: BrokerThread) -> None:
    broker = thread.start()
    client = connect(broker.url)
    events = client.subscribe("a")
    client.close()
    client.close()
    uses: list[Callable[[], object]] = [
        lambda: client.publish("a"),
        client.flush,
        client.status,
        lambda: client.subscribe("a"),
    ]
    for use in uses:
        with pytest.raises(ClientClosed, match="attach anew"):
            use()
    assert list(events) == []
    events.close()


def test_who_waits_while_another_thread_closes_it_is_told_so(
    thread: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = thread.start()
    hang(broker, monkeypatch)
    client = connect(broker.url)
    closer = threading.Timer(0.2, client.close)
    closer.start()
    with pytest.raises(ClientClosed, match="attach anew"):
        client.status()
    closer.join()


@pytest.mark.parametrize("waits", ["events", "active"])
def test_a_broker_lost_for_good_is_an_error_and_no_end(thread: BrokerThread, waits: str) -> None:
    broker = thread.start()
    with connect(broker.url, reattach=False) as client, client.subscribe("a") as events:
        events.active.wait(10)
        thread.kill(broker)
        eventually(lambda: not events.active.is_set())
        wait: Callable[[], object] = events.get if waits == "events" else events.active.wait

        def publish() -> None:
            client.publish("a")

        for use in (wait, client.flush, publish, lambda: next(events)):
            with pytest.raises(ConnectionLost, match="the broker is gone"):
                use()


def test_other_threads_may_use_it(thread: BrokerThread) -> None:
    broker = thread.start()
    with connect(broker.url) as client, client.subscribe("a") as events:

        def publish() -> None:
            for _ in range(50):
                client.publish("a")

        workers = [threading.Thread(target=publish) for _ in range(4)]
        for worker in workers:
            worker.start()
        for _ in range(200):
            events.get(20)
        for worker in workers:
            worker.join()


def test_one_that_calls_itself_is_told_so_and_does_not_hang(thread: BrokerThread) -> None:
    a, _ = thread.ring_of(2)
    told: list[str] = []

    def note(gap: Gap) -> None:
        try:
            client.flush()
        except WrongThread as error:
            told.append(str(error))

    with connect(a.url, on_gap=note) as client:
        client.status()
        thread.kill(a)
        (words,) = eventually(lambda: told)
        assert "on_gap" in words


def test_one_that_is_forgotten_is_closed(thread: BrokerThread) -> None:
    broker = thread.start()
    client = connect(broker.url)
    assert clients_of(thread, broker) == 1
    del client
    gc.collect()
    assert threads() == []
    eventually(lambda: clients_of(thread, broker) == 0)


def interrupt_soon() -> threading.Timer:
    """Send the main thread what Ctrl-C sends, while it waits."""
    ident = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(ident, signal.SIGINT))
    timer.start()
    return timer


def test_who_waits_can_be_interrupted_and_misses_nothing(thread: BrokerThread) -> None:
    broker = thread.start()
    with connect(broker.url) as client, client.subscribe("a") as events:
        tasks = len(asyncio.all_tasks(client._thread._loop))
        timer = interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            events.get()
        timer.join()
        eventually(lambda: len(asyncio.all_tasks(client._thread._loop)) == tasks)
        client.publish("a", b"1")
        event = events.get(10)
        assert event is not None
        assert event.payload == b"1"


def test_who_waits_for_a_broker_can_be_interrupted() -> None:
    timer = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        connect(NOBODY)
    timer.join()
    assert threads() == []
