"""Connections of the admin server: accepted here, and served by hypercorn on trio.

What hypercorn would let pass is bounded here: how many connections there are, how long a write may
take, and that a fault in one of them ends no other, nor the broker.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import structlog
import trio

from ges.http.asgi import Receive, Scope, Send
from ges.http.bounded_stream import BoundedStream
from overlay.errors import ConfigError
from overlay.wording import printable

if TYPE_CHECKING:
    from hypercorn.config import Config

App = Callable[[Scope, Receive, Send], Awaitable[None]]
End = tuple[str, int]

MAX_CONNECTIONS = 64
IDLE_SECONDS = 10.0  #: for the next request to come, whole
MAX_HEADER_BYTES = 8 * 1024
REQUESTS_WAITING = 2  #: parts of a request's body that wait to be read: nobody reads them


class AdminServer:
    """Listens, and serves each connection; :meth:`run` does until it is cancelled."""

    def __init__(self, app: App, host: str, port: int) -> None:
        self.port = port  #: the one it listens on, once it does
        self._app = app
        self._host = host
        self._open: dict[End, BoundedStream] = {}  #: by the other end, oldest first
        self._settled: set[End] = set()  #: those that were let in to stay
        self._log = structlog.get_logger("chordal.admin")

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def settle(self, end: End | None) -> None:
        """Do not end this connection to make room for others."""
        if end in self._open:
            self._settled.add(end)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve; ``started`` once it listens.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        try:
            listeners = await trio.open_tcp_listeners(self.port, host=self._host)
        except OSError as error:
            raise ConfigError(
                f"--admin {self._host}:{self.port}: {_why(error)}; give another address or port"
            ) from error
        self.port = listeners[0].socket.getsockname()[1]
        config = _hypercorn_config()
        # Imported before the first request comes: that takes a tenth of a second.
        importlib.import_module("hypercorn.trio.tcp_server")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cut_at_the_end)

            async def serve_one(stream: trio.SocketStream) -> None:
                await self._serve(stream, config)

            await nursery.start(trio.serve_listeners, serve_one, listeners)
            task_status.started()

    async def _serve(self, raw: trio.SocketStream, config: Config) -> None:
        from hypercorn.app_wrappers import ASGIWrapper
        from hypercorn.trio.tcp_server import TCPServer
        from hypercorn.trio.worker_context import WorkerContext
        from hypercorn.typing import ConnectionState

        stream = BoundedStream(raw)
        try:
            name = raw.socket.getpeername()
        except OSError:
            stream.cut()
            return
        end: End = (str(name[0]), int(name[1]))
        if not self._make_room():
            stream.cut()
            return
        self._open[end] = stream
        app: Any = self._app
        connection: Any = stream
        context = WorkerContext(None)
        state: Any = ConnectionState({})
        try:
            await TCPServer(ASGIWrapper(app), config, context, state, connection).run()
        except Exception as error:  # noqa: BLE001 - one connection's fault is nobody else's
            self._log.debug("admin connection failed", peer=end[0], why=printable(repr(error)))
        finally:
            self._open.pop(end, None)
            self._settled.discard(end)
            stream.cut()

    def _make_room(self) -> bool:
        """Say whether one more may come; the oldest that was not let in to stay goes for it."""
        if len(self._open) < MAX_CONNECTIONS:
            return True
        oldest = next((end for end in self._open if end not in self._settled), None)
        if oldest is None:
            return False
        self._open.pop(oldest).cut()
        return True

    async def _cut_at_the_end(self) -> None:
        """Hypercorn shields what it sends, so the end would wait for those who do not read."""
        try:
            await trio.sleep_forever()
        finally:
            for stream in self._open.values():
                stream.cut()


def _hypercorn_config() -> Config:
    from hypercorn.config import Config

    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_SECONDS
    config.max_app_queue_size = REQUESTS_WAITING
    config.h11_max_incomplete_size = MAX_HEADER_BYTES
    config.h2_max_concurrent_streams = REQUESTS_WAITING
    config.h2_max_header_list_size = MAX_HEADER_BYTES
    config.websocket_max_message_size = MAX_HEADER_BYTES
    return config


def _why(error: OSError) -> str:
    inner = error.__cause__
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    first = inner if isinstance(inner, OSError) else error
    if first.errno == errno.EADDRINUSE:
        return "another process listens there"
    return first.strerror or str(first)
