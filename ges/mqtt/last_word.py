"""The will of a client that the broker itself has let go: it goes over a stream of its own."""

from __future__ import annotations

import trio

from ges.wire.client_messages import CLIENT_CODEC, Accepted, EventRefused
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL

ANSWER_SECONDS = 5.0  #: for the broker to take it


class LastWord(trio.abc.Stream):
    """Says something to the broker, waits until that has taken it, and ends."""

    def __init__(self, frames: bytes) -> None:
        self._frames = frames
        self._answered = trio.Event()
        self._reader = FrameReader()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what is to be said, and then nothing."""
        frames, self._frames = self._frames, b""
        if not frames:
            with trio.move_on_after(ANSWER_SECONDS):
                await self._answered.wait()
        await trio.lowlevel.checkpoint()
        return frames

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the broker says."""
        await trio.lowlevel.checkpoint()
        self._reader.feed(bytes(data))
        for run in self._reader.runs():
            if run.kind != CONTROL:
                continue
            for body in run.bodies():
                message = CLIENT_CODEC.decode(body)
                if isinstance(message, Accepted | EventRefused):
                    self._answered.set()

    async def wait_send_all_might_not_block(self) -> None:
        """It never does."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """There is nothing to close."""
        await trio.lowlevel.checkpoint()
