"""Brokers in a thread of their own, for clients that do not run on trio."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from benchmarks.stage.brokers import Brokers, running
from ges.broker import Broker

T = TypeVar("T")


class BrokerThread:
    """Starts and kills brokers from any other thread."""

    def __init__(self, brokers: Brokers, token: trio.lowlevel.TrioToken) -> None:
        self._brokers = brokers
        self._token = token

    def start(self, **settings: Any) -> Broker:  # noqa: ANN401 - fields of BrokerConfig
        """Start a broker and wait until it has joined the others."""

        async def start() -> Broker:
            return await self._brokers.start(**settings)

        return trio.from_thread.run(start, trio_token=self._token)

    def ring_of(self, n: int, *identities: Path) -> list[Broker]:
        """Start ``n`` brokers, the first of them with these identities; wait for a whole ring."""
        return trio.from_thread.run(self._brokers.ring_of, n, *identities, trio_token=self._token)

    def kill(self, broker: Broker) -> None:
        """End a broker without a word of its own."""
        self.call(lambda: self._brokers.kill(broker))

    def send_away(self, broker: Broker, grace_s: float) -> None:
        """Have a broker tell its clients that it leaves, and wait until they have gone."""
        trio.from_thread.run(broker.clients.send_away, grace_s, trio_token=self._token)

    def call(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the brokers' thread."""
        return trio.from_thread.run_sync(function, trio_token=self._token)


@contextmanager
def broker_thread() -> Iterator[BrokerThread]:
    """Run brokers for the length of the block."""
    found: list[BrokerThread] = []
    ready, over = threading.Event(), trio.Event()

    async def main() -> None:
        try:
            async with running() as brokers:
                found.append(BrokerThread(brokers, trio.lowlevel.current_trio_token()))
                ready.set()
                await over.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        found[0].call(over.set)
        thread.join()
