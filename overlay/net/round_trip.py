"""How far away the other end of a TCP connection is, as the kernel has seen it."""

from __future__ import annotations

import socket
import sys
from typing import Any, Protocol

#: Where Linux's struct tcp_info has the smallest round trip of late, a u32. Not the smoothed one:
#: that has in it what the other end waits before it acknowledges.
_RTT_AT = 148
_NO_RTT = 2**31  #: none has been measured


class AskedSocket(Protocol):
    """A socket of whatever event loop."""

    def getsockopt(self, level: int, option: int, size: int, /) -> Any:  # noqa: ANN401 - as sockets do
        """Return the bytes of an option."""


def one_way_us(below: AskedSocket | None) -> int:
    """Return microseconds to the other end: half the smallest round trip that has been seen.

    0: the system does not say.
    """
    if below is None or not hasattr(socket, "TCP_INFO"):
        return 0
    try:
        info = below.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT_AT + 4)
    except OSError:  # closed just now, or no TCP
        return 0
    rtt = int.from_bytes(info[_RTT_AT : _RTT_AT + 4], sys.byteorder)
    return rtt // 2 if rtt < _NO_RTT else 0
