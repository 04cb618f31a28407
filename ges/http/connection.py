"""One connection of the admin server: HTTP/1.1 as h11 reads and writes it, on trio.

Requests come one after the other, and each is answered before the next is read. What a client can
cost is bounded: how long its requests are and take, and how long it may take to read an answer. A
body is not read; a client that sends one is answered, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate

import h11
import trio

from ges.http.answers import (
    STILL_HERE,
    End,
    Reply,
    Request,
    Stream,
    read_request,
    refused,
)
from overlay.errors import ProtocolError
from overlay.wording import printable

Answer = Callable[[Request], Awaitable[Reply | Stream]]

IDLE_SECONDS = 10.0  #: for the next request to come, whole
SEND_SECONDS = 5.0  #: for what is sent to be taken
MAX_HEADER_BYTES = 8 * 1024
READ_BYTES = 4096

#: How a connection ends that the other end breaks, or does not use.
ENDED = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)


class HttpConnection:
    """Serves the requests of one client."""

    def __init__(
        self, stream: trio.abc.Stream, client: End, answer: Answer, *, is_certified: bool
    ) -> None:
        self._stream = stream
        self._client = client
        self._is_certified = is_certified
        self._answer = answer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)

    async def run(self) -> None:
        """Serve until one of both ends it."""
        try:
            while await self._serve_one():
                self._wire.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint, str(error))
        except ProtocolError as error:
            await self._refuse(400, str(error))
        except ENDED:
            pass

    async def _serve_one(self) -> bool:
        """Answer one request, and say whether another may come."""
        with trio.fail_after(IDLE_SECONDS):
            event = await self._next_event()
        if not isinstance(event, h11.Request):
            return False  # the client has closed it
        method, target = event.method.decode("ascii"), event.target.decode("ascii")
        headers, is_certified = event.headers, self._is_certified
        request = read_request(method, target, headers, self._client, is_certified=is_certified)
        has_body = not isinstance(self._wire.next_event(), h11.EndOfMessage)
        answer = await self._answer(request)
        own = [*answer.all_headers, ("date", formatdate(usegmt=True))]
        if has_body:
            own.append(("connection", "close"))
        if isinstance(answer, Reply):
            body = b"" if method == "HEAD" else answer.body
            await self._send(h11.Response(status_code=answer.status, headers=own), body)
            await self._send(h11.EndOfMessage())
        else:
            await self._send(h11.Response(status_code=200, headers=own))
            if method != "HEAD" and not await self._send_stream(answer):
                return False
            await self._send(h11.EndOfMessage())
        return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._wire.next_event()
            if event is h11.PAUSED or isinstance(event, h11.Event):
                return event
            room = MAX_HEADER_BYTES - len(self._wire.trailing_data[0])
            if room <= 0:
                raise h11.RemoteProtocolError(
                    f"a request of more than {MAX_HEADER_BYTES} bytes of headers", 431
                )
            most = min(READ_BYTES, room)  # else what is behind the limit could make it whole
            self._wire.receive_data(bytes(await self._stream.receive_some(most)))

    async def _send_stream(self, stream: Stream) -> bool:
        """Send server-sent events; says whether they came to their end before the client did."""
        is_over = False
        with stream.counted():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_for_end, nursery.cancel_scope)
                async with stream.opened as next_block:
                    with suppress(*ENDED):
                        while not is_over:
                            block: bytes | None = STILL_HERE
                            with trio.move_on_after(stream.quiet_s):
                                block = await next_block()
                            is_over = block is None
                            await self._send(h11.Data(data=block or b""))
                nursery.cancel_scope.cancel()
        return is_over

    async def _wait_for_end(self, following: trio.CancelScope) -> None:
        """Wait until the client goes; who follows has nothing more to say."""
        with suppress(*ENDED):
            await self._stream.receive_some(READ_BYTES)
        following.cancel()

    async def _refuse(self, status: int, why: str) -> None:
        """Say why nothing more is read from this client, if it can still be said."""
        if self._wire.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        answer = refused(status, printable(why), ("connection", "close"))
        response = h11.Response(status_code=answer.status, headers=answer.all_headers)
        with suppress(*ENDED):
            await self._send(response, answer.body)
            await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event, body: bytes = b"") -> None:
        """Send, within SEND_SECONDS.

        Raises:
            trio.TooSlowError: the client does not read.
            trio.BrokenResourceError: it is gone.
        """
        data = self._wire.send(event) or b""
        if body:
            data += self._wire.send(h11.Data(data=body)) or b""
        if data:
            with trio.fail_after(SEND_SECONDS):
                await self._stream.send_all(data)
