"""An admin server in this process."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from ges.broker import Broker
from ges.http.app import AdminApp
from ges.http.settings import AdminSettings
from ges.http.tls import AdminTls
from tests.helpers.http import Answer, fetch


@asynccontextmanager
async def admin_of(
    broker: Broker, token: str | None = None, tls: AdminTls | None = None
) -> AsyncIterator[AdminApp]:
    """Serve for the length of the block."""
    async with trio.open_nursery() as nursery:
        app = AdminApp(broker, AdminSettings("127.0.0.1", 0, token, tls))
        await nursery.start(app.run)
        yield app
        nursery.cancel_scope.cancel()


async def get(
    app: AdminApp,
    path: str,
    method: str = "GET",
    *,
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    """Ask it once."""
    ask = partial(fetch, app.server.url, path, method, context=context, **headers)
    return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
