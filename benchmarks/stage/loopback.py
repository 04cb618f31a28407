"""A TCP proxy in front of a broker; the kinds of it differ in what they do to a connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod

HOST = "127.0.0.1"


class LoopbackProxy(ABC):
    """Listens on a free port of loopback; each connection is served in a thread of its own."""

    def __init__(self, target: int) -> None:
        """``target``: the port that connections are passed on to."""
        self._target = target
        self._server = socket.create_server((HOST, 0), backlog=64)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more calls; connections that are up stay so."""
        self._server.close()

    def call(self) -> socket.socket:
        """Connect to the target.

        Raises:
            OSError: nobody listens there.
        """
        return socket.create_connection((HOST, self._target))

    @abstractmethod
    def serve(self, caller: socket.socket) -> None:
        """Carry one connection until it ends; each kind of proxy has its own way."""

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._server.accept()
                threading.Thread(target=self.serve, args=(caller,), daemon=True).start()
