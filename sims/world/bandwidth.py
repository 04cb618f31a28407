"""How long bytes take to leave: each way between two hosts carries so many in a second.

Frames that are sent while earlier bytes are leaving wait behind these, so a loaded link is late.
"""

from __future__ import annotations

from overlay.ids import NANOS_PER_SECOND, Nanos

OVERHEAD = 66  #: bytes of Ethernet, IP and TCP around each write


class Bandwidth:
    """The queues of all ways between two hosts."""

    def __init__(self, bits_per_second: float) -> None:
        self._ns_per_byte = 8 * NANOS_PER_SECOND / bits_per_second
        self._busy: dict[tuple[str, str], Nanos] = {}  #: until when each way carries earlier bytes

    def leave(self, sender: str, receiver: str, size: int, now: Nanos) -> Nanos:
        """Queue so many bytes; return when the last of them has left."""
        way = (sender, receiver)
        begin = max(now, self._busy.get(way, 0))
        end = self._busy[way] = begin + round((size + OVERHEAD) * self._ns_per_byte)
        return end
