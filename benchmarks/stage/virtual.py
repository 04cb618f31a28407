"""Whole brokers and their clients on a network in memory, in virtual time."""

from __future__ import annotations

import trio

from benchmarks.stage.memory_streams import MemoryNetwork, MemoryTransport
from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.ids import Nanos, nanos
from overlay.net.transport import Wire
from overlay.security.credentials import Credentials
from overlay.security.identity import Identity

CLIENT = "client"
LATENCY_MS = 1.0
FIRST_PORT = 10_000


class Weather:
    """What the links between brokers are like, by their ports; all connections of a pair alike."""

    def __init__(self) -> None:
        self.latency_ms: dict[frozenset[int], float] = {}
        self.rate: dict[frozenset[int], float] = {}  #: bytes per second
        self.apart: set[frozenset[int]] = set()  #: pairs between which no call gets through
        self.network = MemoryNetwork(self._one_way_ns, self._rate)
        self._ports = iter(range(FIRST_PORT, FIRST_PORT + 1000))

    def transport(self, identity: Identity | None) -> VirtualTransport:
        """Make the transport of the next broker or client, each at a port of its own."""
        assert identity is None, "there is no TLS in memory"
        return VirtualTransport(self, next(self._ports))

    def _one_way_ns(self, sender: str, receiver: str) -> Nanos:
        return nanos(self.latency_ms.get(_pair(sender, receiver), LATENCY_MS) / 1000)

    def _rate(self, sender: str, receiver: str) -> float:
        return self.rate.get(_pair(sender, receiver), float("inf"))


def _pair(*urls: str) -> frozenset[int]:
    return frozenset(int(url.rpartition(":")[2]) for url in urls)


class VirtualTransport(MemoryTransport):
    """Stands in for :class:`overlay.net.transport.TcpTransport`."""

    def __init__(self, weather: Weather, port: int) -> None:
        super().__init__(weather.network, f"chordal://127.0.0.1:{port}")
        self._weather = weather
        self._port = port
        self.credentials: Credentials | None = None  #: it knows no TLS

    async def listen(self, host: str, port: int) -> int:
        """Listen at the port that the network has given, whichever is asked for."""
        await trio.lowlevel.checkpoint()
        return self._port

    async def connect(self, address: Address) -> Wire:
        """Open a connection; fails where a pair is cut off from each other."""
        if frozenset((self._port, address.port)) in self._weather.apart:
            await trio.lowlevel.checkpoint()
            raise ConnectionFailed(address.url, "nothing gets through")
        return await super().connect(address)
