"""Round trips of events: from a client at one broker to a client at each broker, and back.

Both clients are in this process, so the time is that of one clock. An event of each class goes to
the topic ``$ping/UID`` of the other client, which answers in kind. Topics that begin with ``$`` are
the system's: nobody who subscribes to ``#`` sees the pings.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from ges.client import Client, Subscription, connect
from ges.errors import EventError
from ges.operations.walk import walk_ring
from overlay.address import Address, parse_url
from overlay.errors import ChordalError
from overlay.ids import LinkClass

ANSWER_SECONDS = 1.0  #: after which a ping counts as lost
ACTIVE_SECONDS = 2.0  #: for a subscription to be known everywhere
ATTACH_SECONDS = 3.0

Attach = Callable[..., AbstractAsyncContextManager[Client]]


@dataclass(frozen=True, slots=True)
class Trips:
    """Round trips of one class to one broker, in seconds."""

    seconds: tuple[float, ...]
    lost: int = 0
    problem: str = ""  #: why there are none, or not all; empty if all came back

    @property
    def median(self) -> float | None:
        """The median; None if none came back."""
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class Pinged:
    """What came back from one broker."""

    uid: str
    url: str
    trips: dict[LinkClass, Trips]
    problem: str = ""  #: why no client could be attached there

    @property
    def answers(self) -> bool:
        """Whether a ping of each class came back."""
        return not self.problem and all(trips.seconds for trips in self.trips.values())


async def ping_all(
    urls: str,
    classes: Collection[LinkClass],
    count: int,
    *,
    identity: Path | None,
    overlay: str,
    timeout_s: float,
    token: str | None,
    on_waiting: Callable[[str], None],
) -> tuple[str, list[Pinged], list[str]]:
    """Ping all brokers of a ring from the one at ``urls``, one after another.

    Returns:
        URL of the broker that the pings went out from, what came back, and brokers that nobody
        could ask, in words.

    Raises:
        ConnectionLost: no broker answers at ``urls``.
    """
    attach = partial(connect, identity=identity, overlay=overlay, token=token, reattach=False)
    walk = await walk_ring(
        urls, identity=identity, overlay=overlay, timeout_s=timeout_s, on_waiting=on_waiting
    )
    async with attach(urls, timeout=timeout_s, on_waiting=on_waiting) as here:
        tls = parse_url(here.broker_url).tls
        async with here.subscribe(f"$ping/{here.uid}") as back:
            await _await_active(back)
            found = []
            for status in walk.brokers:
                known = parse_url(status.url)
                url = Address(known.host, known.port, tls).url
                found.append(await _ping_one(attach, here, back, status.uid, url, classes, count))
    return here.broker_url, found, [*walk.silent, *walk.passed_over]


async def _ping_one(
    attach: Attach,
    here: Client,
    back: Subscription,
    uid: str,
    url: str,
    classes: Collection[LinkClass],
    count: int,
) -> Pinged:
    try:
        async with (
            attach(url, timeout=ATTACH_SECONDS, on_waiting=lambda _: None) as there,
            there.subscribe(f"$ping/{there.uid}") as pings,
            trio.open_nursery() as nursery,
        ):
            await _await_active(pings)
            nursery.start_soon(_answer, there, pings, here.uid)
            topic = f"$ping/{there.uid}"
            trips = {each: await _trips(here, back, topic, each, count) for each in classes}
            nursery.cancel_scope.cancel()
    except ChordalError as error:
        return Pinged(uid, url, {}, str(error))
    return Pinged(uid, url, trips)


async def _answer(there: Client, pings: Subscription, asker: str) -> None:
    async for event in pings:
        with suppress(EventError):  # an answer that is refused: the asker misses it
            await there.publish(f"$ping/{asker}", event.payload, link_class=event.link_class)


async def _trips(
    here: Client, back: Subscription, topic: str, link_class: LinkClass, count: int
) -> Trips:
    seconds: list[float] = []
    problem = ""
    for number in range(count):
        payload = f"{topic} {link_class} {number}".encode()
        began = trio.current_time()
        try:
            with trio.fail_after(ANSWER_SECONDS):
                await here.publish(topic, payload, link_class=link_class)
                while (await anext(back)).payload != payload:
                    pass  # the answer to a ping that was given up
                seconds.append(trio.current_time() - began)
        except trio.TooSlowError:
            problem = await _why(here)
        except EventError as error:
            problem = str(error)
        if problem and not seconds:
            return Trips((), number + 1, problem)  # one reason is enough
    return Trips(tuple(seconds), count - len(seconds), problem)


async def _why(here: Client) -> str:
    """Return why an event has not come back: it was refused, or nobody knows."""
    try:
        with trio.move_on_after(ANSWER_SECONDS):
            await here.flush()
    except EventError as error:
        return str(error)
    return f"no answer within {ANSWER_SECONDS:g} s"


async def _await_active(subscription: Subscription) -> None:
    with trio.move_on_after(ACTIVE_SECONDS):
        await subscription.active.wait()
