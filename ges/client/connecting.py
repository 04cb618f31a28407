"""The client's door: attaches for the length of a block, and ends all that it began at its end."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ges.client.attachment import Attachment
from ges.client.client import Client
from ges.client.search import check_wish
from ges.client.subscription import Gap
from ges.errors import ConnectionLost, NotUnderTrio
from overlay.net.transport import MakeTransport, TcpTransport

SEND_SECONDS = 10.0  #: at the end of the block, for what is queued


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
            "the client runs on trio, and not on asyncio or any other event loop: "
            "'import trio', and run the program with trio.run(main)"
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
    attachment = Attachment(wish, random.Random(f"{wish.uid}:attach"), transport)
    client = Client(attachment, wish.uid)

    noted_at = -math.inf

    def note_gap(lost: str, found: str, seconds: float) -> None:
        nonlocal noted_at
        last_at, noted_at = noted_at, trio.current_time()
        gap = Gap(lost, found, seconds)
        if lost == found and client.gaps and client.gaps[-1].lost == client.gaps[-1].found == found:
            since_last = noted_at - last_at
            if since_last <= seconds:  # told in parts, as it goes on: it is one gap
                last = client.gaps.pop()
                gap = Gap(lost, found, max(seconds, last.seconds + since_last))
        client.gaps.append(gap)
        if on_gap is not None:
            on_gap(gap)

    attachment.on_gap = note_gap
    async with _plain_errors(), trio.open_nursery() as nursery:
        await nursery.start(attachment.run)
        try:
            yield client
            if not attachment.is_lost:
                with contextlib.suppress(ConnectionLost), trio.move_on_after(SEND_SECONDS):
                    await attachment.sent()
        finally:
            attachment.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _plain_errors() -> AsyncIterator[None]:
    """Let the caller catch errors as documented, not wrapped in a group by the nursery inside."""
    try:
        yield
    except BaseExceptionGroup as group:
        # Who waits for a broker, and who keeps the connection, lose it both at once.
        leaves = {repr(leaf): leaf for leaf in _leaves(group)}
        if len(leaves) > 1:
            raise
        (inner,) = leaves.values()
        raise inner from inner.__cause__


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for inner in group.exceptions:
        if isinstance(inner, BaseExceptionGroup):
            yield from _leaves(inner)
        else:
            yield inner
