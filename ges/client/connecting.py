"""The client's door on trio: attaches for the length of a block, and ends what it began then."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ges.client.attachment import Attachment
from ges.client.client import Client
from ges.client.gaps import Gap
from ges.client.plain_errors import plain_errors
from ges.client.waiting import SEND_SECONDS
from ges.client.wish import check_wish
from ges.errors import ConnectionLost, NotUnderTrio
from overlay.net.transport import MakeTransport, TcpTransport


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
    transport: MakeTransport = TcpTransport,
) -> AsyncIterator[Client]:
    """Attach to the first broker that answers.

    If none does at once it waits, for ever unless ``timeout`` says for how long. After half a
    second it says so in one line: "waiting for a broker at ...". It does not wait where that is of
    no use at the beginning: for example, a certificate of another overlay is an error at once.

    Args:
        urls: ``chordal://HOST:PORT`` or ``chordals://HOST:PORT``, also several in one, separated by
            commas.
        identity: folder of a client's or broker's identity; needed for ``chordals://``.
        overlay: name of the overlay; a broker of another one is refused.
        timeout: seconds to find a broker, at first and after losing one; by default for ever.
        reattach: go to another broker when this one is lost.
        on_waiting: called with that line; by default it is a warning of the logger "ges.client",
            which Python prints to stderr unless told otherwise.
        on_gap: called after each re-attachment, and when the broker says that its place on the ring
            was in doubt; see :class:`ges.client.Gap`.
        token: says who this client is, to brokers that know tokens; goes over TLS or loopback only.
        only_looks: ask for the status and do nothing else, within seconds; brokers have places for
            such clients even where they take no others.
        transport: makes the connections, with the identity to show, if there is one.

    Raises:
        ConfigError: a URL is none, some are chordals:// and some are not, the identity cannot be
            used, ``timeout`` is no time, or a token would go over a plain connection to another
            host.
        ConnectionLost: no broker was found in time, or none ever will; the text says what each
            answered.
        NotUnderTrio: this is not run by trio.
    """
    if not trio.lowlevel.in_trio_task():
        raise NotUnderTrio(
            "ges.client runs on trio alone: run the program with trio.run(main); or import "
            "'connect' from ges.client.aio under asyncio, and from ges.client.sync without await"
        )
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
    attachment = Attachment(wish, random.Random(f"{wish.uid}:attach"), transport, on_gap)
    async with plain_errors(), trio.open_nursery() as nursery:
        await nursery.start(attachment.run)
        try:
            yield Client(attachment)
            if not attachment.core.is_lost:
                with contextlib.suppress(ConnectionLost), trio.move_on_after(SEND_SECONDS):
                    await attachment.finish()
        finally:
            attachment.core.close()
            nursery.cancel_scope.cancel()
