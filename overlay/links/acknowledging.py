"""Acknowledges in time what was not acknowledged at once, in a task of its own."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from overlay.ids import NANOS_PER_SECOND
from overlay.links.acknowledgements import Acknowledgements
from overlay.links.link import Link
from overlay.net.turn import Turn
from overlay.queues.resend import ACK_NS
from overlay.queues.streams import Key, Streams
from overlay.wire.codec import MessageCodec


class Acknowledging(Acknowledgements[Link]):
    """Acknowledgements over the links of one broker, sent over the connections in use."""

    def __init__(
        self, up: Mapping[Key, Link], streams: Streams, codec: MessageCodec, turn: Turn
    ) -> None:
        super().__init__(up, streams, codec, self._wake)
        self._turn = turn
        self._more = trio.Event()

    async def run(self) -> None:
        """Acknowledge now and then what was not acknowledged at once."""
        while True:
            if not self._unsaid:
                self._more = trio.Event()
                await self._more.wait()
            await trio.sleep(ACK_NS / NANOS_PER_SECOND)
            with self._turn:
                self.say_all()

    def _wake(self) -> None:
        self._more.set()
