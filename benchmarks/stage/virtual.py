"""Whole brokers and their clients on a network in memory, in virtual time."""

from __future__ import annotations

import pytest
import trio

from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.ids import Nanos, nanos
from overlay.net.memory import Handler, MemoryNetwork
from overlay.net.transport import Wire

CLIENT = "client"
LATENCY_MS = 1.0
FIRST_PORT = 10_000


class Weather:
    """What the links between brokers are like, by their ports; all connections of a pair alike."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.latency_ms: dict[frozenset[int], float] = {}
        self.rate: dict[frozenset[int], float] = {}  #: bytes per second
        self.apart: set[frozenset[int]] = set()  #: pairs between which no call gets through
        self.network = MemoryNetwork(self._one_way_ns, self._rate)
        self._ports = iter(range(FIRST_PORT, FIRST_PORT + 1000))

        def transport(identity: object) -> VirtualTransport:
            assert identity is None, "there is no TLS in memory"
            return VirtualTransport(self, next(self._ports))

        for module in ("ges.broker.broker", "ges.client.attachment"):
            monkeypatch.setattr(f"{module}.TcpTransport", transport)

    def _one_way_ns(self, sender: str, receiver: str) -> Nanos:
        return nanos(self.latency_ms.get(_pair(sender, receiver), LATENCY_MS) / 1000)

    def _rate(self, sender: str, receiver: str) -> float:
        return self.rate.get(_pair(sender, receiver), float("inf"))


def _pair(*urls: str) -> frozenset[int]:
    return frozenset(int(url.rpartition(":")[2]) for url in urls)


class VirtualTransport:
    """Stands in for :class:`overlay.net.transport.TcpTransport`."""

    def __init__(self, weather: Weather, port: int) -> None:
        self._weather = weather
        self._network = weather.network
        self._port = port
        self._url = f"chordal://127.0.0.1:{port}"
        self.credentials = None  #: it knows no TLS

    async def listen(self, host: str, port: int) -> int:
        await trio.lowlevel.checkpoint()
        return self._port

    async def serve(
        self,
        handler: Handler,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._network.listen(self._url, handler, task_status)

    async def connect(self, address: Address) -> Wire:
        if _pair(self._url, address.url) in self._weather.apart:
            await trio.lowlevel.checkpoint()
            raise ConnectionFailed(address.url, "nothing gets through")
        return Wire(await self._network.connect(self._url, address.url), None)

    async def accept(self, stream: trio.abc.Stream) -> Wire:
        return Wire(stream, None)
