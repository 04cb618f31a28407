"""A client's connection to its broker, under asyncio: find one, hold it, find another.

What is done with whatever the broker says is decided in :mod:`ges.client.core`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

from ges.client.aio.calling import call
from ges.client.aio.connection import Connection
from ges.client.aio.races import first_of
from ges.client.aio.search import BrokerSearch
from ges.client.certified import HANDSHAKE_SECONDS, stay_certified
from ges.client.core import ClientCore
from ges.client.gaps import Gap
from ges.client.loop import Loop, T
from ges.client.waiting import Waiting
from ges.client.wish import Wish
from ges.errors import ConnectionLost
from overlay.address import Address, parse_url
from overlay.errors import ConnectionFailed, ProtocolError
from overlay.security.credentials import Credentials
from overlay.security.identity import PeerIdentity


async def _within(seconds: float, what: Callable[[], Awaitable[T]]) -> T | None:
    try:
        async with asyncio.timeout(None if seconds == math.inf else seconds) as limit:
            return await what()
    except TimeoutError:
        if not limit.expired():
            raise
        return None


ASYNCIO = Loop(
    event=asyncio.Event,
    let_others=partial(asyncio.sleep, 0),
    sleep=asyncio.sleep,
    within=_within,
)


class Attachment(Waiting):
    """The present connection, whatever broker it is to. ``run`` keeps it."""

    def __init__(
        self, wish: Wish, rng: random.Random, on_gap: Callable[[Gap], None] | None = None
    ) -> None:
        self._credentials = Credentials(wish.identity) if wish.identity is not None else None
        revocations = self._credentials.revocations if self._credentials is not None else None
        super().__init__(wish, ClientCore(wish, revocations, on_gap), ASYNCIO, rng)
        self._search = BrokerSearch(wish, self._credentials, rng)
        self._connection: Connection | None = None  #: the present one

    async def run(self, started: asyncio.Event) -> None:
        """Attach, and attach again whenever the broker is lost; ``started`` after the first.

        Raises:
            ConnectionLost: no broker takes us in time, or the only one is lost.
        """
        core, state = self.core, self.core.state
        try:
            while True:
                is_first = not started.is_set()
                found = await self._search.find(state.choices, state.unusable, is_first=is_first)
                address, connection, reader, attached = found
                now = time.monotonic()
                core.attach(address.url, attached, reader, connection, now, time.time_ns())
                started.set()
                self._connection = connection
                connection.on_part = lambda: state.keepalive.heard(time.monotonic())
                await self._serve(connection)
                if core.is_closed:
                    return
                core.lose()
                if not self.wish.reattach:
                    raise ConnectionLost(f"{state.lost_url}: the broker is gone")
                await asyncio.sleep(self.pause_after_loss(now, time.monotonic()))
        except ConnectionLost as error:
            core.give_up(error)
            raise

    async def part(self) -> None:
        """Say to the broker that nothing more comes, and wait until it has closed its end."""
        if self._connection is not None:
            await self._connection.part()

    async def _serve(self, connection: Connection) -> None:
        """Read and keep alive until the connection breaks or falls silent."""
        watches = [self._read(connection), self._keep_alive()]
        if connection.identity is not None:
            watches.append(self._stay_certified(connection.identity))
        try:
            await first_of(*watches)
        finally:
            connection.abort()
            await connection.aclose()

    async def _read(self, connection: Connection) -> None:
        core = self.core
        with contextlib.suppress(OSError, ProtocolError):
            core.read_on(time.monotonic())
            while data := await connection.receive():
                core.receive(data, time.monotonic())

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self.state.keepalive.pause(time.monotonic()))
            if self.core.is_silent(time.monotonic()):
                return

    async def _stay_certified(self, broker: PeerIdentity) -> None:
        credentials, address = self._credentials, parse_url(self.state.url)
        assert credentials is not None
        await stay_certified(credentials, broker, lambda: self._shake_hands(address), asyncio.sleep)

    async def _shake_hands(self, address: Address) -> PeerIdentity | None:
        with contextlib.suppress(TimeoutError, ConnectionFailed):
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                connection = await call(address, self._credentials)
                await connection.aclose()
                return connection.identity
        return None
