"""One process of a measurement: ``python -m ges.bench.worker``, with its order on the first line.

It says when it is ready, waits for the word to go or to stop, and prints what came of it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import msgspec
import trio

from ges.bench.load import Attach, Failed, Line, Order, Ready, Role, Stop
from ges.bench.publishing import publish_all
from ges.bench.requesting import Answers, Asking
from ges.bench.subscribing import Taken
from ges.client import Client, Subscription, connect
from overlay.errors import ChordalError

ACTIVE_SECONDS = 10.0
ANSWERING = "chordal-bench"  #: the queue group of those that answer

Receive = Callable[[], Coroutine[object, object, bytes | bytearray]]


class LineReader:
    """What comes, by the line."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._rest = bytearray()

    async def line(self) -> bytes | None:
        """Return the next line; None at the end."""
        while (at := self._rest.find(b"\n")) < 0:
            data = await self._receive()
            if not data:
                return None
            self._rest += data
        found = bytes(self._rest[:at])
        del self._rest[: at + 1]
        return found


def main() -> None:
    """Do what the first line of standard input asks for."""
    try:
        trio.run(_work)
    except* ChordalError as group:
        _say(Failed(str(_first(group))))
        sys.exit(1)


async def _work() -> None:
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stream:
        told = LineReader(stream.receive_some)
        order = msgspec.json.decode(await told.line() or b"", type=Order)
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(_attach(order.attach)) for _ in range(order.clients)
            ]
            if order.role is Role.REQUEST:
                asking = Asking(order.load)
                _say(Ready())
                if await told.line() is not None:  # the word to go
                    _say(await asking.ask_all(order, clients))
            elif order.role is Role.ANSWER:
                await _answer(order, clients, told, stack)
            elif order.role is Role.PUBLISH:
                _say(Ready())
                if await told.line() is not None:  # the word to go
                    _say(await publish_all(order, clients))
            else:
                await _subscribe(order, clients, told, stack)


async def _answer(
    order: Order, clients: list[Client], told: LineReader, stack: AsyncExitStack
) -> None:
    """Answer requests, all as one queue group, until there is the word to stop."""
    subscriptions = await _active(order, clients, stack, ANSWERING)
    answers = Answers()
    async with trio.open_nursery() as nursery:
        for client, subscription in zip(clients, subscriptions, strict=True):
            nursery.start_soon(answers.answer, client, subscription)
        _say(Ready())
        await told.line()
        nursery.cancel_scope.cancel()
    _say(answers.report())


async def _active(
    order: Order, clients: list[Client], stack: AsyncExitStack, queue: str | None = None
) -> list[Subscription]:
    """Return a subscription of each client, all of them active."""
    load = order.load
    subscriptions: list[Subscription] = []
    for client in clients:
        subscribing = client.subscribe(load.topic, link_class=load.link_class, queue=queue)
        subscriptions.append(await stack.enter_async_context(subscribing))
    with trio.move_on_after(ACTIVE_SECONDS):
        for subscription in subscriptions:
            await subscription.active.wait()
    return subscriptions


async def _subscribe(
    order: Order, clients: list[Client], told: LineReader, stack: AsyncExitStack
) -> None:
    subscriptions = await _active(order, clients, stack)
    taken = Taken(order.load)
    async with trio.open_nursery() as nursery:
        for subscription in subscriptions:
            nursery.start_soon(taken.take, subscription)
        _say(Ready())
        if (line := await told.line()) is not None:
            stop = msgspec.json.decode(line, type=Stop)
            count = math.inf if stop.count is None else stop.count * len(clients)
            await taken.until(count, stop.quiet_s)
        nursery.cancel_scope.cancel()
    _say(taken.report(clients, subscriptions))


def _attach(attach: Attach) -> AbstractAsyncContextManager[Client]:
    return connect(
        attach.urls,
        identity=attach.identity,
        overlay=attach.overlay,
        timeout=attach.timeout_s,
        token=attach.token,
        on_waiting=lambda _: None,
    )


def _say(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _first(group: BaseExceptionGroup[ChordalError]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


if __name__ == "__main__":
    main()
