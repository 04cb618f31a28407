"""What has come is acknowledged, at once or before long, and heard: :mod:`overlay.queues.resend`.

Pure; the driver calls :meth:`Acknowledgements.say_all` in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic

from overlay.errors import ProtocolError
from overlay.links.keeping import L
from overlay.queues.resend import Ack, Resume
from overlay.queues.streams import Key, Streams
from overlay.wire.codec import MessageCodec


class Acknowledgements(Generic[L]):
    """Acknowledgements over the links of one broker, sent over the connections in use."""

    def __init__(
        self,
        up: Mapping[Key, L],
        streams: Streams,
        codec: MessageCodec,
        on_unsaid: Callable[[], None],
    ) -> None:
        """``on_unsaid``: something is to be acknowledged within ``ACK_NS``."""
        self._up = up
        self._streams = streams
        self._codec = codec
        self._on_unsaid = on_unsaid
        self._unsaid: dict[Key, L] = {}  #: links over which something is to be acknowledged

    def note(self, link: L) -> None:
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
                self._on_unsaid()

    def hear(self, link: L, message: Ack | Resume) -> None:
        """The other end says what has come there, or with what its stream goes on.

        Raises:
            ProtocolError: this link has no stream, or it has begun already.
        """
        key = (link.peer.uid, link.link_class)
        if not link.link_class.is_reliable:
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

    def say_all(self) -> None:
        """Acknowledge all that was not acknowledged at once."""
        for link in list(self._unsaid.values()):
            self._say(link)

    def _say(self, link: L) -> None:
        key = (link.peer.uid, link.link_class)
        self._unsaid.pop(key, None)
        arrivals, used = link.arrivals, self._up.get(key)
        if used is None and link.connection.is_closing:
            used = link  # it is given up, and brings over what the other end has queued
        elif used is not None and used.peer.incarnation != link.peer.incarnation:
            return  # a process that has started anew numbers its streams anew
        if arrivals is not None and used is not None:
            arrivals.size = 0
            ack = self._codec.encode(arrivals.incoming.ack(), used.agreed.version)
            used.connection.send_ack(ack)
