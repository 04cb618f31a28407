"""Telling other ends what has come from them, and hearing it: :mod:`overlay.queues.resend`."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from overlay.errors import ProtocolError
from overlay.ids import NANOS_PER_SECOND
from overlay.links.link import Link
from overlay.net.turn import Turn
from overlay.queues.resend import ACK_NS, Ack, Resume
from overlay.queues.streams import RELIABLE, Key, Streams
from overlay.wire.codec import MessageCodec


class Acknowledging:
    """Acknowledgements over the links of one broker, sent over the connections in use."""

    def __init__(
        self, up: Mapping[Key, Link], streams: Streams, codec: MessageCodec, turn: Turn
    ) -> None:
        self._up = up
        self._streams = streams
        self._turn = turn
        self._codec = codec
        self._unsaid: dict[Key, Link] = {}  #: links over which something is to be acknowledged
        self._more = trio.Event()

    async def run(self) -> None:
        """Acknowledge now and then what was not acknowledged at once."""
        while True:
            if not self._unsaid:
                self._more = trio.Event()
                await self._more.wait()
            await trio.sleep(ACK_NS / NANOS_PER_SECOND)
            with self._turn:
                for link in list(self._unsaid.values()):
                    self._say(link)

    def note(self, link: Link) -> None:
        """Events may have come over a link: acknowledge them at once, or before long."""
        arrivals = link.arrivals
        if arrivals is None or arrivals.incoming.count == arrivals.incoming.acknowledged:
            return
        if arrivals.is_due:
            self._say(link)
        else:
            key = (link.peer.uid, link.link_class)
            if key not in self._unsaid:
                self._unsaid[key] = link
                self._more.set()

    def hear(self, link: Link, message: Ack | Resume) -> None:
        """The other end says what has come there, or with what its stream goes on.

        Raises:
            ProtocolError: this link has no stream, or it has begun already.
        """
        key = (link.peer.uid, link.link_class)
        if link.link_class not in RELIABLE:
            raise ProtocolError(f"{type(message).__name__} on a link without a stream")
        if isinstance(message, Ack):
            self._streams.on_ack(key, message)
            used = self._up.get(key)
            if used is not None:
                used.connection.go_on()
        elif link.arrivals is not None:
            raise ProtocolError("a stream begins twice on one connection")
        else:
            link.arrivals = self._streams.arrivals(key, message)

    def _say(self, link: Link) -> None:
        key = (link.peer.uid, link.link_class)
        self._unsaid.pop(key, None)
        arrivals, used = link.arrivals, self._up.get(key)
        if used is None and link.connection.is_closing:
            used = link  # it is given up, and brings over what the other end has queued
        if arrivals is not None and used is not None:
            arrivals.size = 0
            ack = self._codec.encode(arrivals.incoming.ack(), used.agreed.version)
            used.connection.send_ack(ack)
