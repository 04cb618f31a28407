"""Connections of the admin server: how many there are, and that a fault in one ends no other."""

from __future__ import annotations

import structlog
import trio

from ges.http.answers import End
from ges.http.connection import ENDED, Answer, HttpConnection
from ges.http.listening import why_not_listening
from ges.http.tls import AdminTls
from overlay.errors import ConfigError
from overlay.wording import printable

MAX_CONNECTIONS = 64
HANDSHAKE_SECONDS = 5.0


class AdminServer:
    """Listens, and serves each connection; :meth:`run` does until it is cancelled."""

    def __init__(self, answer: Answer, host: str, port: int, tls: AdminTls | None = None) -> None:
        self.port = port  #: the one it listens on, once it does
        self._answer = answer
        self._host = host
        self._tls = tls
        self._open: dict[End, trio.CancelScope] = {}  #: by the other end, oldest first
        self._settled: set[End] = set()  #: those that were let in to stay
        self._log = structlog.get_logger("chordal.admin")

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._open)

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
            why = why_not_listening(error)
            raise ConfigError(
                f"--admin {self._host}:{self.port}: {why}; give another address or port"
            ) from error
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._serve, listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                name = stream.socket.getpeername()
            except OSError:  # it is gone already
                return
            end: End = (str(name[0]), int(name[1]))
            if not self._make_room():
                return
            scope = self._open[end] = trio.CancelScope()
            try:
                with scope:
                    await self._converse(stream, end)
            except Exception as error:  # noqa: BLE001 - one connection's fault is nobody else's
                self._log.error("admin connection failed", peer=end[0], why=printable(repr(error)))
            finally:
                self._open.pop(end, None)
                self._settled.discard(end)

    async def _converse(self, stream: trio.SocketStream, end: End) -> None:
        if self._tls is None:
            await HttpConnection(stream, end, self._answer, is_certified=False).run()
            return
        context = self._tls.context()
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(HANDSHAKE_SECONDS):
                await secured.do_handshake()
        except ENDED:
            return
        async with secured:
            # It has been verified: what cannot be ends the handshake.
            is_certified = bool(secured.getpeercert())
            await HttpConnection(secured, end, self._answer, is_certified=is_certified).run()

    def _make_room(self) -> bool:
        """Say whether one more may come; the oldest that was not let in to stay goes for it."""
        if len(self._open) < MAX_CONNECTIONS:
            return True
        oldest = next((end for end in self._open if end not in self._settled), None)
        if oldest is None:
            return False
        self._open.pop(oldest).cancel()
        return True
