"""The events that a client has published last, before they are packed. Pure.

To pack many events at once takes less than half the time of packing each. So the first event of a
turn is queued for the broker as a frame, and those of its topic that follow only wait here. When
the first is sent, or anything else is queued behind it, they are packed and queued: nothing waits
longer than it would as a frame, and order is kept.

For example, a client publishes three times to ``a`` and then once to ``b``. The first event is
packed and queued, and wakes the connection's writer. The second and the third wait here until the
fourth is published, and go before it.
"""

from __future__ import annotations

from ges.client.outgoing import OutgoingStream
from overlay.ids import LinkClass
from overlay.queues.lanes import NormalLane, Policy
from overlay.wire.fragments import SLICE_BYTES
from overlay.wire.frames import Bytes

RUN_BYTES = SLICE_BYTES  #: of frames that are queued in one piece
NO_ROOM = -1  #: not even for nothing
TURN_BYTES = 256 * 1024  #: published between two chances for other tasks to run


class OpenRun:
    """Events of one class and topic, without attributes, that wait to be packed.

    The publisher adds to :attr:`payloads` and :attr:`times`, and takes the frame's bytes from
    :attr:`room`. There is room only while a frame is queued that the run follows, its topic and
    class have been checked, and nothing is to be told to the publisher.
    """

    __slots__ = (
        "_encoded",
        "_lane",
        "_stream",
        "link_class",
        "overhead",
        "payloads",
        "room",
        "times",
        "topic",
        "turn_bytes",
    )

    def __init__(self) -> None:
        self.topic = ""
        self.link_class = LinkClass.NORMAL
        self.room = NO_ROOM  #: bytes of frames that may be added
        self.overhead = 0  #: bytes of a frame beside the payload
        self.payloads: list[bytes] = []
        self.times: list[int] = []  #: when each was published, unix time in nanoseconds
        self.turn_bytes = TURN_BYTES  #: that may be published yet before others have their turn
        self._encoded = b""
        self._stream: OutgoingStream | None = None
        self._lane: RunLane | None = None

    def lane(self, limit_bytes: int) -> RunLane:
        """Return a new queue of normal frames; events go there from now on."""
        self.detach()
        self._lane = RunLane(limit_bytes, self)
        return self._lane

    def detach(self) -> None:
        """The connection is lost: what waits is kept for the next one."""
        self.close()
        self._lane = None

    def follow(
        self, item: bytes, payload: bytes, topic: str, encoded: bytes, stream: OutgoingStream
    ) -> None:
        """Begin anew behind an event that has just been queued as ``item``."""
        if not self._lane:  # None, or of a connection that takes nothing more
            return
        self.topic, self.link_class = topic, stream.link_class
        self._encoded, self._stream = encoded, stream
        size = len(item)
        self.overhead = size - len(payload)
        self.room = RUN_BYTES - size

    def close(self) -> None:
        """Pack what waits, and queue it."""
        self.room = NO_ROOM
        if not self.payloads:
            return
        assert self._stream is not None
        count = len(self.payloads)
        item = self._stream.pack_all(self._encoded, self.payloads, self.times)
        self.payloads.clear()
        self.times.clear()
        self._stream.keep(item, count)
        self.turn_bytes -= len(item)
        if self._lane is not None:
            self._lane.put(item, count)


class RunLane(NormalLane):
    """The normal frames of a client's connection, and the open run behind them."""

    __slots__ = ("_run",)

    def __init__(self, limit_bytes: int, run: OpenRun) -> None:
        super().__init__(limit_bytes, Policy.DISCONNECT)
        self._run = run

    def put(self, item: Bytes, events: int) -> None:
        """Queue whole frames behind the run."""
        self._run.close()
        super().put(item, events)

    def pop(self) -> Bytes:
        """Take the oldest item; the run may be what is taken next."""
        self._run.close()
        return super().pop()

    def clear(self) -> None:
        """Forget all that waits; the events of the run are kept for the next connection."""
        self._run.close()
        super().clear()
