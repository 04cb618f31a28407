"""A process that stands before brokers' ports and can cut the link between any two of them.

Each broker advertises the port of a proxy here instead of its own. A proxy reads the greeting with
which every connection begins, and so knows which two brokers a connection belongs to, whichever
of the two has called. A pair can be cut in two ways:

* ``closed``: its connections break at once, and new ones break after their greeting;
* ``dark``: nothing comes through any more, but nothing is closed. Bytes that were under way come
  through when the link is mended, as with TCP after an outage of the network.

Commands come as JSON lines on stdin, each is answered by a line on stdout; end of input ends it::

    ["proxy", port of the broker] -> port of its proxy
    ["cut", proxy port, proxy port, "closed" or "dark"] -> connections concerned
    ["mend", proxy port, proxy port] -> connections concerned
    ["deaf", proxy port] -> its port: calls are refused, as where a process is gone
    ["heed", proxy port] -> its port: and taken again

One thread and a selector: it stands in the way of everything, so it must cost little.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
from dataclasses import dataclass, field

from overlay.address import parse_url
from overlay.errors import ChordalError
from overlay.wire.codec import FrameReader
from overlay.wire.greetings import GREETINGS, Hello

HOST = "127.0.0.1"
CHUNK = 256 * 1024
MAX_WAITING = 4 * 1024 * 1024  #: bytes read, but not yet taken by the other side
CLOSED, DARK = "closed", "dark"


@dataclass(eq=False)
class Side:
    """One of the two sockets of a connection."""

    sock: socket.socket
    connection: Connection
    waiting: bytearray = field(default_factory=bytearray)  #: to be sent to this socket
    is_up: bool = True  #: False while it is still connecting
    has_ended: bool = False  #: it has sent its last byte
    events: int = 0  #: what the selector watches it for


@dataclass(eq=False)
class Connection:
    """A caller, and the broker behind the proxy it called."""

    proxy: int
    caller: Side = field(init=False)
    broker: Side | None = None
    greeting: FrameReader = field(default_factory=FrameReader)
    greeted: bytearray = field(default_factory=bytearray)  #: what the caller has said so far
    pair: frozenset[int] | None = None  #: proxy ports of the two brokers; None: a client's
    is_dark: bool = False

    @property
    def sides(self) -> list[Side]:
        """The caller's side, and the broker's once it is called."""
        return [self.caller] if self.broker is None else [self.caller, self.broker]

    def beyond(self, side: Side) -> Side | None:
        """Return the other side."""
        return self.broker if side is self.caller else self.caller


class Switchboard:
    """All proxies and connections."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._targets: dict[int, int] = {}  #: proxy port -> port of the broker
        self._servers: dict[int, socket.socket] = {}  #: by proxy port
        self._connections: set[Connection] = set()
        self._cuts: dict[frozenset[int], str] = {}

    def run(self) -> None:
        """Serve until stdin ends."""
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        unread = b""
        while True:
            for key, events in self._selector.select():
                if isinstance(key.data, Side):
                    self._on_side(key.data, events)
                elif isinstance(key.data, socket.socket):
                    self._on_call(key.data)
                else:
                    data = os.read(sys.stdin.fileno(), CHUNK)
                    if not data:
                        return
                    *lines, unread = (unread + data).split(b"\n")
                    for line in lines:
                        sys.stdout.write(f"{self._command(*json.loads(line))}\n")
                        sys.stdout.flush()

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    def _command(self, verb: str, *arguments: int | str) -> int:
        if verb == "proxy":
            port = self._bind(0)
            self._targets[port] = int(arguments[0])
            return self._listen(port)
        if verb == "deaf":
            server = self._servers[int(arguments[0])]
            self._selector.unregister(server)
            server.close()
            return self._bind(int(arguments[0]))  # or another process could be given the port
        if verb == "heed":
            return self._listen(int(arguments[0]))
        pair = frozenset((int(arguments[0]), int(arguments[1])))
        concerned = [c for c in self._connections if c.pair == pair]
        if verb == "cut":
            self._cuts[pair] = str(arguments[2])
            for connection in concerned:
                self._apply_cut(connection)
        else:
            self._cuts.pop(pair, None)
            for connection in concerned:
                connection.is_dark = False
                if connection.broker is None:
                    self._close(connection)
                else:
                    self._watch(connection)
        return len(concerned)

    def _bind(self, at: int) -> int:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((HOST, at))
        port: int = server.getsockname()[1]
        self._servers[port] = server
        return port

    def _listen(self, port: int) -> int:
        server = self._servers[port]
        server.listen(128)
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ, server)
        return port

    # ── connections ───────────────────────────────────────────────────────────────────────────

    def _on_call(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = server.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(server.getsockname()[1])
            connection.caller = Side(sock, connection)
            self._connections.add(connection)
            self._watch(connection)

    def _on_side(self, side: Side, events: int) -> None:
        connection = side.connection
        if connection not in self._connections:
            return  # closed while others of the same round were served
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(side)
            if events & selectors.EVENT_READ:
                self._read(connection, side)
        except (OSError, ChordalError):
            self._close(connection)
            return
        if connection in self._connections:
            if all(s.has_ended and not s.waiting for s in connection.sides):
                self._close(connection)
            else:
                self._watch(connection)

    def _flush(self, side: Side) -> None:
        if not side.is_up:
            error = side.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "the broker does not answer")
            side.is_up = True
        if side.waiting:
            with contextlib.suppress(BlockingIOError):
                del side.waiting[: side.sock.send(side.waiting)]
        beyond = side.connection.beyond(side)
        if not side.waiting and beyond is not None and beyond.has_ended:
            side.sock.shutdown(socket.SHUT_WR)

    def _read(self, connection: Connection, side: Side) -> None:
        try:
            data = side.sock.recv(CHUNK)
        except BlockingIOError:
            return
        beyond = connection.beyond(side)
        if beyond is None:
            self._on_greeting(connection, data)
            return
        side.has_ended = not data
        beyond.waiting += data
        if beyond.is_up:
            self._flush(beyond)

    def _on_greeting(self, connection: Connection, data: bytes) -> None:
        """Read on until the caller has said who it is; then call the broker."""
        if not data:
            self._close(connection)
            return
        connection.greeted += data
        connection.greeting.feed(data)
        found = connection.greeting.next_frame()
        if found is None:
            return
        hello = GREETINGS.decode(found[1])
        if isinstance(hello, Hello) and hello.peer is not None:
            connection.pair = frozenset((connection.proxy, parse_url(hello.peer.url).port))
        if connection.pair in self._cuts:
            self._apply_cut(connection)
            return  # in the dark it is never called: a first packet would not have come through
        broker = connection.broker = Side(socket.socket(), connection, is_up=False)
        broker.waiting = connection.greeted
        broker.sock.setblocking(False)
        broker.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError):
            broker.sock.connect((HOST, self._targets[connection.proxy]))

    def _apply_cut(self, connection: Connection) -> None:
        assert connection.pair is not None
        if self._cuts[connection.pair] == DARK:
            connection.is_dark = True
            self._watch(connection)
        else:
            self._close(connection)

    def _watch(self, connection: Connection) -> None:
        """Tell the selector what each socket is to be watched for now."""
        for side in connection.sides:
            beyond = connection.beyond(side)
            wanted = 0
            if not connection.is_dark:
                crowded = beyond is not None and len(beyond.waiting) > MAX_WAITING
                if side.is_up and not side.has_ended and not crowded:
                    wanted |= selectors.EVENT_READ
                if not side.is_up or (side.waiting and beyond is not None):
                    wanted |= selectors.EVENT_WRITE
            if wanted == side.events:
                continue
            if not wanted:
                self._selector.unregister(side.sock)
            elif side.events:
                self._selector.modify(side.sock, wanted, side)
            else:
                self._selector.register(side.sock, wanted, side)
            side.events = wanted

    def _close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        for side in connection.sides:
            if side.events:
                self._selector.unregister(side.sock)
                side.events = 0
            side.sock.close()


if __name__ == "__main__":
    Switchboard().run()
