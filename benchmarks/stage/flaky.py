"""A TCP proxy that harms the connections it carries: cuts, truncates, stalls, delivers late."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from enum import StrEnum

from benchmarks.stage.loopback import LoopbackProxy

CHUNK_BYTES = 65536
LATE_SECONDS = 0.3  #: until what a cut connection still holds is delivered
STALL_SECONDS = (0.02, 0.3)
_RESET = struct.pack("ii", 1, 0)  #: SO_LINGER: on, for no time at all


class Fault(StrEnum):
    """What happens to a connection."""

    CUT = "cut"  #: both ends see a reset, and what was under way is gone
    TRUNCATE = "truncate"  #: what comes next is passed on in part, mostly within a frame; then cut
    LATE = "late"  #: the caller is cut off; what it sent last comes after it has called again
    STALL = "stall"  #: nothing moves for a while


class Flaky(LoopbackProxy):
    """Passes all on, as faults permit."""

    def __init__(self, target: int, seed: str) -> None:
        self.harm: Counter[Fault] = Counter()  #: how often each was done
        self.carried = 0  #: connections
        self._rng = random.Random(seed)
        self._up: set[_Pair] = set()
        super().__init__(target)

    def strike(self, *faults: Fault, part: float = 0.5) -> None:
        """Harm about that part of the connections that are up: with one of these faults, or any."""
        for pair in list(self._up):
            if self._rng.random() >= part:
                continue
            fault = self._rng.choice(faults or tuple(Fault))
            self.harm[fault] += 1
            pair.strike(fault, self._rng.uniform(*STALL_SECONDS), self._rng.random())

    def freeze(self) -> None:
        """Let nothing move on the connections that are up, for good: they are half-open."""
        for pair in list(self._up):
            pair.open.clear()

    def close(self) -> None:
        """Take no more calls, and cut all connections."""
        super().close()
        for pair in list(self._up):
            pair.cut()

    def serve(self, caller: socket.socket) -> None:
        """Carry one connection until it ends, or is cut."""
        try:
            called = self.call()
        except OSError:
            caller.close()
            return
        self.carried += 1
        pair = _Pair(caller, called)
        self._up.add(pair)
        back = threading.Thread(target=pair.pump, args=(called, caller), daemon=True)
        back.start()
        pair.pump(caller, called)
        back.join()
        self._up.discard(pair)
        caller.close()
        called.close()


class _Pair:
    """The two halves of one connection."""

    def __init__(self, caller: socket.socket, called: socket.socket) -> None:
        for end in (caller, called):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open = threading.Event()  #: what comes is passed on
        self.open.set()
        self._caller = caller
        self._called = called
        self._next: Fault | None = None  #: is done to what comes next
        self._part = 0.0

    def strike(self, fault: Fault, stall: float, part: float) -> None:
        if fault is Fault.CUT:
            self.cut()
        elif fault is Fault.STALL:
            self.open.clear()
            threading.Timer(stall, self.open.set).start()
        else:
            self._next, self._part = fault, part

    def cut(self) -> None:
        self.open.set()
        for end in (self._caller, self._called):
            _reset(end)

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self.open.wait()
                fault = self._next
                if fault is Fault.TRUNCATE:
                    sink.sendall(data[: round(self._part * (len(data) - 1))])
                    break
                if fault is Fault.LATE and source is self._caller:
                    _reset(source)
                    threading.Event().wait(LATE_SECONDS)
                    sink.sendall(data)
                    break
                sink.sendall(data)
        self.open.wait()  # on a half-open connection not even its end is seen
        for end in (source, sink):
            _close_gently(end)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)


def _close_gently(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
