"""One process of a measurement: ``python -m ges.bench.worker``, with its order on the first line.

It says when it is ready, waits for the word to go or to stop, and prints what came of it.
"""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import msgspec
import trio

from ges.bench.load import Attach, Order, Role, Stop
from ges.bench.publishing import publish_all
from ges.bench.requesting import Answers, Asking
from ges.bench.subscribing import Taken
from ges.bench.workers import LineReader, Ready, say, work
from ges.client import Client, Subscription, connect

ACTIVE_SECONDS = 10.0
ANSWERING = "chordal-bench"  #: the queue group of those that answer


def main() -> None:
    """Do what the first line of standard input asks for."""
    work(_work)


async def _work(told: LineReader) -> None:
    order = msgspec.json.decode(await told.line() or b"", type=Order)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(_attach(order.attach)) for _ in range(order.clients)
        ]
        if order.role is Role.REQUEST:
            asking = Asking(order.load)
            say(Ready())
            if await told.line() is not None:  # the word to go
                say(await asking.ask_all(order, clients))
        elif order.role is Role.ANSWER:
            await _answer(order, clients, told, stack)
        elif order.role is Role.PUBLISH:
            say(Ready())
            if await told.line() is not None:  # the word to go
                say(await publish_all(order, clients))
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
        say(Ready())
        await told.line()
        nursery.cancel_scope.cancel()
    say(answers.report())


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
        say(Ready())
        if (line := await told.line()) is not None:
            stop = msgspec.json.decode(line, type=Stop)
            count = math.inf if stop.count is None else stop.count * len(clients)
            await taken.until(count, stop.quiet_s)
        nursery.cancel_scope.cancel()
    say(taken.report(clients, subscriptions))


def _attach(attach: Attach) -> AbstractAsyncContextManager[Client]:
    return connect(
        attach.urls,
        identity=attach.identity,
        overlay=attach.overlay,
        timeout=attach.timeout_s,
        token=attach.token,
        on_waiting=lambda _: None,
    )


if __name__ == "__main__":
    main()
