"""A TCP proxy in front of a broker that delays what certain brokers send and get."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

from benchmarks.stage.loopback import LoopbackProxy

GREETING_BYTES = 4096

_Due = queue.SimpleQueue[tuple[float, bytes]]


class SlowProxy(LoopbackProxy):
    """Passes all on, some of it late.

    A connection whose caller's greeting names a uid in ``slow`` is delayed by :attr:`seconds` each
    way; that may be changed at any time.
    """

    def __init__(self, target: int) -> None:
        self.slow: set[str] = set()
        self.seconds = 0.0
        super().__init__(target)

    def serve(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            greeting = caller.recv(GREETING_BYTES)
            with self.call() as broker:
                broker.sendall(greeting)
                pumps = [
                    threading.Thread(target=pump, args=(end, due, greeting), daemon=True)
                    for source, sink, due in (
                        (broker, caller, _Due()),
                        (caller, broker, _Due()),
                    )
                    for pump, end in ((self._read, source), (self._write, sink))
                ]
                for end in (caller, broker):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for pump in pumps:
                    pump.start()
                for pump in pumps:
                    pump.join()

    def _delay(self, greeting: bytes) -> float:
        is_slow = any(uid.encode() in greeting for uid in tuple(self.slow))
        return self.seconds if is_slow else 0.0

    def _read(self, source: socket.socket, due: _Due, greeting: bytes) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                due.put((time.monotonic() + self._delay(greeting), data))
        due.put((time.monotonic(), b""))

    def _write(self, sink: socket.socket, due: _Due, greeting: bytes) -> None:
        with contextlib.suppress(OSError):
            while True:
                at, data = due.get()
                time.sleep(max(0.0, at - time.monotonic()))
                if not data:
                    break
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
