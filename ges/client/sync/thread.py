"""An attached client in a thread of its own, and calls to it from other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from ges.client.client import Client
from ges.client.waiting import SEND_SECONDS
from ges.errors import ClientClosed, ConnectionLost, WrongThread

T = TypeVar("T")

CLOSED = "this client is closed; attach anew with connect(...)"


class ClientThread:
    """Attaches a client, keeps it, and has done with it when it is told to stop."""

    def __init__(self, attach: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        """Start, and wait until the client is attached.

        Raises:
            Exception: whatever ``attach`` raises.
        """
        self._attach = attach
        self._stop = asyncio.Event()
        self._end: BaseException | None = None  #: of the client's block
        self._attached: concurrent.futures.Future[Client] = concurrent.futures.Future()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="chordal client", daemon=True)
        self._thread.start()
        try:
            self.client = self._attached.result()
            self.core = self.client._core
        except BaseException:  # it could not, or who waits was interrupted
            self.stop()
            raise

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` beside the client, and wait for what it returns.

        Raises:
            ClientClosed: the client is closed.
            ConnectionLost: it has lost its broker for good.
            WrongThread: it is called by a function that the client itself has called.
            Exception: whatever the coroutine raises.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise WrongThread(
                "a function given as on_gap or on_waiting runs in the client's own thread, and "
                "cannot wait for the client; let it note what is to be done, and do it elsewhere"
            )
        try:
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            raise self._why_over() from None
        try:
            return running.result()
        except (concurrent.futures.CancelledError, ClientClosed):  # the client ended meanwhile
            raise self._why_over() from None
        finally:
            running.cancel()  # who waits was interrupted; else it is done anyway

    def stop(self) -> None:
        """Send what is queued, end the client, and wait for that."""
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:  # closed just now
                return
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * SEND_SECONDS)

    def check_found(self) -> None:
        """Check that a broker is found, or may be.

        Raises:
            ConnectionLost: none was found in time.
        """
        if self.core.is_lost:
            raise ConnectionLost(self.core.lost_reason)

    def _why_over(self) -> Exception:
        if self.core.is_lost:
            return ConnectionLost(self.core.lost_reason)
        return self._end if isinstance(self._end, Exception) else ClientClosed(CLOSED)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._main())
            except BaseException as error:  # noqa: BLE001 - told to whoever waits, or calls next
                self._end = error
        if not self._attached.done():
            self._attached.set_exception(self._end or ClientClosed(CLOSED))

    async def _main(self) -> None:
        stopping = asyncio.ensure_future(self._stop.wait())
        keeping = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait([stopping, keeping], return_when=asyncio.FIRST_COMPLETED)
            if not self._attached.done():
                keeping.cancel()  # stopped before there was a broker
            await keeping
        finally:
            stopping.cancel()

    async def _keep(self) -> None:
        async with self._attach() as client:
            self._attached.set_result(client)
            await self._stop.wait()
