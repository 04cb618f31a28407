"""The client's door under asyncio: attaches for the length of a block, and ends what it began."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ges.client.aio.attachment import Attachment
from ges.client.client import Client
from ges.client.gaps import Gap
from ges.client.plain_errors import plain_errors
from ges.client.waiting import SEND_SECONDS
from ges.client.wish import check_wish
from ges.errors import ConnectionLost, NotUnderAsyncio


@asynccontextmanager
async def connect(
    *urls: str,
    identity: str | Path | None = None,
    overlay: str = "chordal",
    timeout: float = math.inf,
    reattach: bool = True,
    on_waiting: Callable[[str], None] | None = None,
    on_gap: Callable[[Gap], None] | None = None,
    token: str | None = None,
    only_looks: bool = False,
) -> AsyncIterator[Client]:
    """Attach to the first broker that answers.

    The arguments are those of :func:`ges.client.connect`, and mean the same. The block has to be
    left by the task that has entered it.

    Raises:
        ConfigError: a URL is none, some are chordals:// and some are not, the identity cannot be
            used, ``timeout`` is no time, or a token would go over a plain connection to another
            host.
        ConnectionLost: no broker was found in time, or none ever will; the text says what each
            answered.
        NotUnderAsyncio: this is not run by asyncio.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise NotUnderAsyncio(
            "ges.client.aio runs under asyncio alone: run the program with asyncio.run(main()); "
            "or import 'connect' from ges.client under trio"
        ) from None
    wish = check_wish(
        urls,
        identity,
        overlay=overlay,
        token=token,
        timeout=timeout,
        reattach=reattach,
        on_waiting=on_waiting,
        only_looks=only_looks,
    )
    attachment = Attachment(wish, random.Random(f"{wish.uid}:attach"), on_gap)
    async with plain_errors(), asyncio.TaskGroup() as tasks:
        started = asyncio.Event()
        running = tasks.create_task(attachment.run(started))
        try:
            await started.wait()
            yield Client(attachment)
            if not attachment.core.is_lost:
                with contextlib.suppress(ConnectionLost, TimeoutError):
                    async with asyncio.timeout(SEND_SECONDS):
                        await attachment.finish()
        finally:
            attachment.core.close()
            running.cancel()
