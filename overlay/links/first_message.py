"""The first message of a connection, read from its stream."""

from __future__ import annotations

import trio

from overlay.errors import ProtocolError
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL
from overlay.wire.greetings import GREETINGS


async def read_greeting(stream: trio.abc.Stream, reader: FrameReader) -> object:
    """Read the first message of a stream; what follows it stays in ``reader``.

    Raises:
        ProtocolError: the stream is not ours.
        trio.BrokenResourceError: it ends.
    """
    while True:
        frame = reader.next_frame()
        if frame is not None:
            kind, body = frame
            if kind != CONTROL:
                raise ProtocolError("an event before any greeting")
            return GREETINGS.decode(body)
        data = await stream.receive_some(4096)
        if not data:
            raise trio.BrokenResourceError("closed without a greeting")
        reader.feed(data)
