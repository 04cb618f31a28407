"""Brokers in this process, on free ports of loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from benchmarks.stage.waiting import FIND_SECONDS, until
from ges.broker import Broker, BrokerConfig
from ges.client import Client, connect
from overlay.address import Address, parse_url
from overlay.net.transport import MakeTransport, TcpTransport
from ring.invariants import Snapshot, ring_findings


class Brokers:
    """Brokers of one overlay; each runs until it is killed or the test ends."""

    def __init__(self, nursery: trio.Nursery, transport: MakeTransport = TcpTransport) -> None:
        self.alive: list[Broker] = []
        self._transport = transport
        self._nursery = nursery
        self._scopes: dict[Broker, trio.CancelScope] = {}

    async def start(self, **settings: Any) -> Broker:  # noqa: ANN401 - fields of BrokerConfig, and kind
        """Start a broker and wait until it has joined the others."""
        settings.setdefault("seeds", tuple(parse_url(other.url) for other in self.alive[:1]))
        kind: type[Broker] = settings.pop("kind", Broker)
        broker = kind(BrokerConfig(port=0, profile="local", **settings), transport=self._transport)
        await self._nursery.start(self._run, broker)
        self.alive.append(broker)
        return broker

    async def ring_of(self, n: int, *identities: Path) -> list[Broker]:
        """Start ``n`` brokers, the first of them with these identities; wait for a whole ring."""
        settings = [{"identity": i} for i in identities] + [{} for _ in range(n - len(identities))]
        started = {0: await self.start(**settings[0])}

        async def start(number: int) -> None:
            started[number] = await self.start(**settings[number])

        async with trio.open_nursery() as nursery:
            for number in range(1, n):
                nursery.start_soon(start, number)
        await self.whole()
        return [started[number] for number in range(n)]

    def seeds(self, *others: Broker) -> tuple[Address, ...]:
        """Return what a newcomer is to be told, to join by these."""
        return tuple(parse_url(other.url) for other in others)

    def kill(self, broker: Broker) -> None:
        """End a broker without a word of its own."""
        self.alive.remove(broker)
        self._scopes[broker].cancel()

    async def dismiss(self, broker: Broker) -> None:
        """Let a broker leave with good manners, and end it."""
        self.alive.remove(broker)
        await broker.leave()
        self._scopes[broker].cancel()

    async def whole(self) -> None:
        """Wait until those alive are one ring, and secure links are beside its links."""
        await until(lambda: not self.findings(), what="findings")

    def findings(self) -> list[str]:
        """Return what keeps those alive from being a whole ring."""
        snapshots = [
            Snapshot(ring.member, ring.left, ring.right)
            for ring in (broker.node.ring for broker in self.alive)
            if ring.member is not None
        ]
        absent = [f"{len(self.alive) - len(snapshots)} not on the ring"]
        return ring_findings(snapshots) + absent * (len(snapshots) < len(self.alive))

    async def _run(
        self, broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.CancelScope() as scope:
            self._scopes[broker] = scope
            await broker.run(task_status=task_status)


@asynccontextmanager
async def running(transport: MakeTransport = TcpTransport) -> AsyncIterator[Brokers]:
    """Run brokers for the length of the block; ``transport`` makes their connections."""
    async with trio.open_nursery() as nursery:
        yield Brokers(nursery, transport)
        nursery.cancel_scope.cancel()


def attach(broker: Broker, **settings: Any) -> AbstractAsyncContextManager[Client]:  # noqa: ANN401 - arguments of connect
    """Attach a client to a broker, over a connection like that broker's own."""
    settings.setdefault("timeout", FIND_SECONDS)
    return connect(broker.url, transport=broker.transport, **settings)


def secure_uids(broker: Broker) -> set[str]:
    """Return the uids at the other end of a broker's secure links that are up."""
    return {uid for uid, link_class in broker.driver.links if link_class.is_secret}


def hang(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a broker take nothing more from its clients, without closing their connections."""

    async def never(*args: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(broker.parts.reader, "wait_for_ring", never)
    monkeypatch.setattr(broker.parts.backpressure, "relieve", never)
