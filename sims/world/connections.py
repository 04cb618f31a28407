"""A connection of the simulator: the queue of frames before a byte stream.

It is :class:`overlay.net.connection.Connection` without trio: the queues, what is sent next, and
what becomes of too much are in the same :class:`~overlay.queues.outbox.Outbox`. The rules of that
class about closing hold here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.ids import Nanos, nanos
from overlay.queues.lanes import ExpressLane, NormalLane, Overflow, Policy
from overlay.queues.outbox import FINISH_SECONDS, WRITE_BYTES, Outbox
from overlay.queues.resend import Item
from overlay.wire.frames import Bytes
from sims.world.processes import Process, Socket

EXPRESS_QUEUE_BYTES = 4 * 1024 * 1024  #: as in :mod:`overlay.net.connection`


class Connection:
    """A byte stream with a bounded queue in front of it."""

    __slots__ = (
        "_closing",
        "_is_over",
        "_noted",
        "_write_bytes",
        "closed_by",
        "events",
        "is_aborted",
        "on_change",
        "outbox",
        "overflowed",
        "process",
        "secure",
        "sent_bytes",
        "socket",
    )

    def __init__(
        self,
        process: Process,
        socket: Socket,
        *,
        limit_bytes: int,
        policy: Policy = Policy.DISCONNECT,
        write_bytes: int = WRITE_BYTES,
    ) -> None:
        self.process = process
        self.socket = socket
        self.secure = socket.secure
        self.overflowed = False
        self.is_aborted = False
        self.closed_by: Nanos | None = None  #: it is over then, finished or not
        self.sent_bytes = 0
        self.events = 0  #: queued so far
        self.on_change: Callable[[], None] = lambda: None  #: while it is closing
        self.outbox = Outbox(
            NormalLane(limit_bytes, policy), ExpressLane(min(limit_bytes, EXPRESS_QUEUE_BYTES))
        )
        self._write_bytes = write_bytes
        self._closing = False
        self._is_over = False
        self._noted = False
        socket.on_room = self._note

    @property
    def is_closing(self) -> bool:
        """Nothing more can be queued but acknowledgements."""
        return self._closing

    @property
    def queued_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.outbox.size

    @property
    def memory(self) -> int:
        """Bytes of memory that what is queued takes."""
        return self.outbox.memory

    @property
    def one_way_us(self) -> int:
        """Microseconds to the other end, as connecting has shown."""
        return self.socket.one_way_us

    @property
    def is_written(self) -> bool:
        """It is closing, and all that was queued has left, or will not leave any more."""
        if not self._closing:
            return False
        if self.is_aborted or (self._is_over and (self.socket.ended or not self.outbox)):
            return True
        return self.closed_by is not None and self.process.timeline.now >= self.closed_by

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    def send(self, item: Bytes, events: int = 0) -> None:
        """Queue whole frames that hold so many events; too many end the connection."""
        if self._closing:
            return
        self.events += events
        lane = self.outbox.normal
        lane.put(item, events)
        if lane.size > lane.limit:
            try:
                lane.make_room(lane.limit)
            except Overflow:
                self.give_up()
                return
        if not self._noted:
            self._note()

    def send_again(self, items: Iterable[Item]) -> None:
        """Queue what an earlier connection has not brought over, however much it is."""
        for item, events in items:
            self.events += events
            self.outbox.normal.put(item, events)
        self._note()

    def send_ack(self, item: Bytes) -> None:
        """Queue an acknowledgement before all else; it replaces one that still waits."""
        if not (self._closing and self._is_over):
            self.outbox.ack = item
            self._note()

    def send_quick(self, item: Bytes) -> None:
        """Queue a control frame before all else; it is lost where too many such frames wait."""
        if not self._closing and self.outbox.put_quick(item):
            self._note()

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        """Queue one express event before all that is not."""
        if not self._closing:
            self.events += 1
            self.outbox.express.put(item, stamp_at, self.process.timeline.now)
            self._note()

    def go_on(self) -> None:
        """Send what had to wait for an acknowledgement."""
        if self.outbox:
            self._note()

    # ── closing ───────────────────────────────────────────────────────────────────────────────

    def finish(self, seconds: float = FINISH_SECONDS, *, is_over: bool = True) -> None:
        """Close after what is queued has been sent, if the other end takes it in time."""
        self._closing = self.outbox.is_last = True
        self._is_over = self._is_over or is_over
        self.closed_by = self.process.timeline.now + nanos(seconds)
        self.process.later(self.closed_by, self._look)
        self._note()

    def end(self) -> None:
        """There is nothing more to acknowledge."""
        self._is_over = True
        self._note()

    def abort(self) -> None:
        """Close now, dropping what is queued, but for events of a stream: they are taken back."""
        if self.outbox.stream is None:
            self.outbox.clear()
        self.is_aborted = True
        self.finish()

    def give_up(self) -> None:
        """Close now, as the other end takes too little of what is queued for it."""
        self.overflowed = True
        self.abort()

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def write_now(self) -> None:
        """Hand the kernel what it takes; called at the end of a turn."""
        self._noted = False
        outbox, socket = self.outbox, self.socket
        if outbox and not self.is_aborted and socket.is_open and not socket.ended:
            now, room = self.process.timeline.now, socket.room
            items: list[Bytes] = []
            size = 0
            while size < room and (taken := outbox.take(now, self._write_bytes)):
                items += taken
                size += sum(map(len, taken))
            if items:
                self.sent_bytes += size
                socket.write(b"".join(items))
            if size >= room:
                socket.wants_room = True
        if self._closing:
            self.on_change()

    def _note(self) -> None:
        if not self._noted:
            self._noted = True
            self.process.noted.append(self)

    def _look(self) -> None:
        self.on_change()
