"""What two brokers say over one link, from the greeting to the last acknowledgement.

Frames for the layer above go there as they are, control messages to the machine; good-byes and
acknowledgements concern the link itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from overlay.errors import ProtocolError
from overlay.ids import short
from overlay.links.acknowledging import Acknowledging
from overlay.links.counted_log import CountedLog
from overlay.links.link import Link, Upper
from overlay.links.taking import Taking
from overlay.machine import Closed, Input
from overlay.net.connection import BROKEN
from overlay.net.precedence import Precedence
from overlay.net.slices import Sliced
from overlay.net.turn import Turn
from overlay.queues.outbox import FINISH_SECONDS
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec


class Conversation:
    """Holds the conversations over all links of one broker; each is a call of :meth:`hold`."""

    def __init__(
        self,
        codec: MessageCodec,
        upper: Upper,
        turn: Turn,
        precedence: Precedence,
        acknowledging: Acknowledging,
        counted_log: CountedLog,
        *,
        give: Callable[[Input], None],
        on_goodbye: Callable[[Link, Closed], None],
    ) -> None:
        """``on_goodbye``: the other end parts, and why; what it has queued is still to come."""
        self._taking = Taking(codec, acknowledging, on_frames=upper.on_frames, give=give)
        self._upper = upper
        self._turn = turn
        self._precedence = precedence
        self._acknowledging = acknowledging
        self._counted_log = counted_log
        self._on_goodbye = on_goodbye

    async def hold(self, link: Link, reader: FrameReader) -> Closed:
        """Read and write until the link ends; returns why it does."""
        reason = Closed.LOST
        with link.running:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, link, nursery.cancel_scope)
                reason = await self._read(link, reader)
                if reason is Closed.UNWANTED:
                    await self._hear_out(link, reader)
                link.connection.end()
                if not link.parted.is_set():
                    nursery.cancel_scope.cancel()
        return Closed.OVERFLOW if link.connection.overflowed else reason

    async def _write(self, link: Link, scope: trio.CancelScope) -> None:
        try:
            await link.connection.write_forever()
            if not link.connection.overflowed:
                # Closing with bytes unread would reset the connection, and the other end might
                # never see our goodbye: wait for its own, or until it closes.
                with trio.move_on_at(link.connection.closed_by):
                    await link.parted.wait()
        except BROKEN:
            # The other end has closed, but it may have said why: let what has come be read.
            with trio.move_on_after(FINISH_SECONDS):
                await link.parted.wait()
        scope.cancel()

    async def _read(self, link: Link, reader: FrameReader) -> Closed:
        upper = self._upper
        is_express = link.link_class.is_timed
        try:
            chunk: bytes | bytearray = b"-"
            while chunk:
                if not is_express:
                    await self._precedence.give_way()
                goodbye = await self._take(link, reader.runs())
                if goodbye is not None:
                    self._on_goodbye(link, goodbye)
                    return goodbye
                await upper.on_batch(link)
                chunk = await link.connection.receive(reader.appetite)
                link.has_spoken = True
                reader.feed(chunk)
                if link.arrivals is not None:
                    link.arrivals.size += len(chunk)
        except ProtocolError as error:
            self._protocol_error(link, error)
            return Closed.PROTOCOL
        except BROKEN:
            pass
        return Closed.LOST

    async def _hear_out(self, link: Link, reader: FrameReader) -> None:
        """Both ends have parted; take what the other one says of how much has come there."""
        outbox = link.connection.outbox
        try:
            # Without a stream the next link brings over what this one has not.
            while outbox.stream is not None and (outbox.stream.count or outbox.normal):
                chunk = await link.connection.receive(reader.appetite)
                if not chunk:
                    return
                reader.feed(chunk)
                self._taking.acknowledged(link, reader.runs())
        except ProtocolError as error:
            self._protocol_error(link, error)
        except BROKEN:
            pass

    async def _take(self, link: Link, runs: list[FrameRun]) -> Closed | None:
        """Hand over what has come; returns why, if the other end says good-bye."""
        first = None if link.link_class.is_timed else self._precedence
        return await Sliced(self._taking.steps(link, runs), first).finish(
            self._turn, partial(self._acknowledging.note, link)
        )

    def _protocol_error(self, link: Link, error: ProtocolError) -> None:
        uid = short(link.peer.uid)
        self._counted_log.note("protocol_errors", "protocol error", peer=uid, why=str(error))
