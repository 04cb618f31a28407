"""What the admin server gives under each path."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache
from importlib.resources import files

import msgspec
import structlog
import trio

from ges.broker import Broker
from ges.http import health
from ges.http.answers import (
    JSON,
    NextBlock,
    Reply,
    Request,
    Stream,
    refused,
    server_sent,
)
from ges.http.chronicle import Chronicle
from ges.http.gate import Gate
from ges.http.metrics import exposition
from ges.http.observer import Observer
from ges.http.server import AdminServer
from ges.http.settings import AdminSettings
from ges.http.tail import event_tail
from ges.units.unit_names import written
from ges.wire.status_names import named
from ges.wire.topics import check_filter
from overlay.errors import ChordalError
from overlay.ids import NANOS_PER_SECOND
from overlay.wording import printable

MAX_FOLLOWERS = 16  #: of pictures
MAX_TAILS = 4
QUIET_S = 15.0  #: then a follower is told that the server is there
REPLY_S = 10.0  #: for an answer that does not go on

#: Files of the page, and of what type each is.
PAGE = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "ring.js": "text/javascript; charset=utf-8",
    "layout.js": "text/javascript; charset=utf-8",
    "panels.js": "text/javascript; charset=utf-8",
    "strength.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

Handler = Callable[[Request], Awaitable[Reply | Stream]]


class AdminApp:
    """The admin server of one broker, all of it; :meth:`run` serves until it is cancelled."""

    def __init__(self, broker: Broker, settings: AdminSettings) -> None:
        names = [settings.host, *([broker.config.advertise[0]] if broker.config.advertise else [])]
        self.server = AdminServer(self.answer, settings.host, settings.port, settings.tls)
        self._broker = broker
        self._gate = Gate(
            names,
            settings.token,
            secrets.token_bytes(32),
            wants_certificate=settings.tls is not None and settings.tls.asks_certificates,
            note=self._note_wrong,
        )
        # Over HTTP they would go in the open, and without a guard to whoever is on this machine.
        self._shows_secure = settings.tls is not None and self._gate.is_guarded
        self._chronicle = Chronicle()
        self._observer = Observer(broker)
        self._followers: dict[str, int] = {"pictures": 0, "tails": 0}
        self._log = structlog.get_logger("chordal.admin")
        broker.watch(self._chronicle.on_fact)
        self._routes: dict[str, Handler] = {
            "/": self._page,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/api/status": self._status,
            "/api/ring": self._ring,
            "/api/ring/stream": self._ring_stream,
            "/api/units": self._units,
            "/api/events/tail": self._tail,
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve; ``started`` once it listens.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self.server.run)
            nursery.start_soon(self._observe)
            task_status.started()

    async def answer(self, request: Request) -> Reply | Stream:
        """Return what a request is answered."""
        reply = await self._answer(request)
        if isinstance(reply, Stream):
            self.server.settle(request.client)
        return reply

    async def _answer(self, request: Request) -> Reply | Stream:
        found = self._gate.judge(request, round(trio.current_time() * NANOS_PER_SECOND))
        if found is not None:
            return found
        handler = self._routes.get(request.path)
        if handler is None:
            return await self._file(request)
        try:
            with trio.move_on_after(REPLY_S):
                return await handler(request)
            return refused(503, "no answer in time")
        except ChordalError as error:
            return refused(400, printable(str(error)))
        except Exception:  # noqa: BLE001 - it is told, and nobody else's concern
            self._log.exception("admin request failed", path=printable(request.path))
            self._broker_counts("internal_errors")
            return refused(500, "this is a bug of chordal; its log says where")

    async def _observe(self) -> None:
        """Keep the picture; a fault in it is told, and ends neither the server nor the broker."""
        while True:
            try:
                await self._observer.run()
            except Exception:  # noqa: BLE001 - see above
                self._log.exception("the picture of the ring failed, and is begun anew")
                self._broker_counts("internal_errors")
                await trio.sleep(1)

    def _broker_counts(self, counter: str) -> None:
        if self._broker.is_composed:
            self._broker.driver.counters[counter] += 1

    def _note_wrong(self, host: str, *, is_looked_at: bool) -> None:
        if not self._broker.is_composed:
            return
        counted_log = self._broker.driver.counted_log
        if is_looked_at:
            counted_log.note("admin_tokens_wrong", "wrong admin token", host=host)
        else:
            counted_log.note("admin_tokens_braked", "too many wrong admin tokens", host=host)

    # ── for machines ──────────────────────────────────────────────────────────────────────────

    async def _healthz(self, request: Request) -> Reply:
        return health.alive()

    async def _readyz(self, request: Request) -> Reply:
        return health.ready(self._broker)

    async def _metrics(self, request: Request) -> Reply:
        if not self._broker.is_composed:
            return _NOT_YET
        accept = request.headers.get("accept", "")
        is_whole = self._broker.node.ring.is_whole
        return exposition(self._broker.status(), self._chronicle, accept, is_whole=is_whole)

    async def _status(self, request: Request) -> Reply:
        if not self._broker.is_composed:
            return _NOT_YET
        return _as_json(named(self._broker.status()))

    async def _units(self, request: Request) -> Reply:
        if not self._broker.is_composed:
            return _NOT_YET
        units = self._broker.node.units
        members = [
            {
                "uid": row.uid,
                "address": str(units.address_of(row.slot) or ""),
                "url": row.member.peer.url,
                "ring_id": row.member.ring_id,
                "protocol_version": row.version,
            }
            for row in sorted(units.members.values(), key=lambda row: row.slot)
        ]
        found = {
            "steward": units.steward,
            "unit": written(units.names),
            "members": members,
            "limit": units.limit,
            "contexts": units.contexts,
        }
        return _as_json(found)

    async def _ring(self, request: Request) -> Reply:
        return Reply(200, await self._observer.settled() + b"\n", JSON)

    # ── what goes on ──────────────────────────────────────────────────────────────────────────

    async def _ring_stream(self, request: Request) -> Reply | Stream:
        return self._follow("pictures", MAX_FOLLOWERS, self._pictures())

    async def _tail(self, request: Request) -> Reply | Stream:
        if not self._broker.is_composed:
            return _NOT_YET
        if self._broker.config.access is not None and not self._gate.is_guarded:
            return refused(
                403,
                "where access rules say who may read events, give the admin server "
                "a token (--admin-token-file) to tail them",
            )
        text = request.query.get("topic", "#")
        check_filter(text)
        if text.startswith("$"):
            return refused(400, "topics that begin with $ are the system's, and are not shown")
        shown = event_tail(self._broker, text, shows_secure=self._shows_secure)
        return self._follow("tails", MAX_TAILS, shown)

    @asynccontextmanager
    async def _pictures(self) -> AsyncIterator[NextBlock]:
        version = 0

        async def following() -> bytes:
            nonlocal version
            version, data = await self._observer.newer(version)
            return server_sent("picture", data)

        with self._observer.watching():
            yield following

    def _follow(
        self, kind: str, most: int, opened: AbstractAsyncContextManager[NextBlock]
    ) -> Reply | Stream:
        if self._followers[kind] >= most:
            words = f"{most} follow already, which is all that may"
            return refused(503, words, ("retry-after", "5"))
        return Stream(opened, lambda: self._counted(kind), QUIET_S)

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        self._followers[kind] += 1
        try:
            yield
        finally:
            self._followers[kind] -= 1

    # ── the page ──────────────────────────────────────────────────────────────────────────────

    async def _page(self, request: Request) -> Reply:
        return Reply(200, _read("page.html"), "text/html; charset=utf-8")

    async def _file(self, request: Request) -> Reply:
        name = request.path.removeprefix("/page/")
        if name not in PAGE or name == request.path:
            return refused(404, "there is nothing here; see /, /metrics and /api/status")
        return Reply(200, _read(name), PAGE[name])


_NOT_YET = refused(503, "the broker does not listen yet")


def _as_json(found: object) -> Reply:
    return Reply(200, msgspec.json.encode(found) + b"\n", JSON)


@cache
def _read(name: str) -> bytes:
    return files("ges.http").joinpath("page", name).read_bytes()
