"""What a sender of events needs of a connection."""

from __future__ import annotations

from typing import Protocol

from overlay.wire.frames import Bytes


class Outlet(Protocol):
    """A queue of frames for one other end; on trio an :class:`overlay.net.connection.Connection`.

    Nothing waits here: what is given is queued, and the connection's policy decides what becomes
    of too much.
    """

    def send(self, item: Bytes, events: int = 0) -> None:
        """Queue whole frames that hold so many events; 0: what may not be dropped."""

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        """Queue one express event before all that is not; its stamp stands at ``stamp_at``."""

    @property
    def queued_bytes(self) -> int:
        """Bytes that have not left yet."""

    @property
    def one_way_us(self) -> int:
        """Microseconds to the other end, by estimate; 0: not known."""
