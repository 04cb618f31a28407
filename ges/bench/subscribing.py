"""The subscribers of one process."""

from __future__ import annotations

import time

import trio

from ges.bench.figures import Times
from ges.bench.load import STAMP_BYTES, Load, Received
from ges.client import Client, Subscription


class Taken:
    """What all subscribers of this process have got."""

    def __init__(self, load: Load) -> None:
        self._is_stamped = load.is_stamped
        self._times = Times()
        self._began_ns = self._ended_ns = 0
        self._bytes = 0
        self.events = 0
        self._came = trio.Event()

    async def take(self, events: Subscription) -> None:
        """Take what one subscriber gets, until it is cancelled."""
        note = self._times.note
        while batch := await events.batch():
            now = time.time_ns()
            self._began_ns = self._began_ns or now
            self._ended_ns = now
            self.events += len(batch)
            for event in batch:
                payload = event.payload
                self._bytes += len(payload)
                sent = (
                    int.from_bytes(payload[:STAMP_BYTES], "big")
                    if self._is_stamped
                    else event.published_unix_ns
                )
                note(now - sent)
            self._came.set()

    async def until(self, count: float, quiet_s: float) -> None:
        """Wait until so many events have come in all, or none for so many seconds."""
        while self.events < count:
            with trio.move_on_after(quiet_s) as quiet:
                await self._came.wait()
            if quiet.cancelled_caught:
                return
            self._came = trio.Event()

    def report(self, clients: list[Client], subscriptions: list[Subscription]) -> Received:
        """Return all of it."""
        dropped = sum(sum(client.dropped) for client in clients)
        dropped += sum(each.dropped for each in subscriptions)
        encoded = self._times.encoded()
        return Received(self.events, self._began_ns, self._ended_ns, encoded, self._bytes, dropped)
