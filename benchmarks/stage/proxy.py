"""A TCP proxy that keeps every byte, connection by connection, and can refuse TLS."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field

from benchmarks.stage.loopback import LoopbackProxy

TLS_FIRST_BYTE = 0x16


@dataclass
class Record:
    """What went over one connection, each way; read it when the traffic has ended."""

    called: bytearray = field(default_factory=bytearray)  #: from the caller
    answered: bytearray = field(default_factory=bytearray)

    @property
    def is_tls(self) -> bool:
        """Whether the caller began with a TLS handshake."""
        return bool(self.called) and self.called[0] == TLS_FIRST_BYTE


class Proxy(LoopbackProxy):
    """Passes all on, and keeps it."""

    def __init__(self, target: int, *, refuse_tls: bool = False) -> None:
        self.records: list[Record] = []
        self._refuse_tls = refuse_tls
        super().__init__(target)

    @property
    def plain(self) -> bytes:
        """All that anybody could read on the connections without TLS."""
        return b"|".join(
            bytes(record.called) + b"|" + bytes(record.answered)
            for record in self.records
            if not record.is_tls
        )

    @property
    def tls(self) -> int:
        """Bytes that went over TLS."""
        return sum(len(r.called) + len(r.answered) for r in self.records if r.is_tls)

    def serve(self, caller: socket.socket) -> None:
        """Carry one connection, and record it."""
        record = Record()
        self.records.append(record)
        with caller, contextlib.suppress(OSError):
            first = caller.recv(1, socket.MSG_PEEK)
            if self._refuse_tls and first[:1] == bytes([TLS_FIRST_BYTE]):
                record.called += first
                return
            with self.call() as broker:
                back = threading.Thread(
                    target=_pump, args=(broker, caller, record.answered), daemon=True
                )
                back.start()
                _pump(caller, broker, record.called)
                back.join()


def _pump(source: socket.socket, sink: socket.socket, record: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            record += data
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
