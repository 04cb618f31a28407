"""Events from everywhere to everywhere, counted: the middle of the demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import trio

from ges.client import Client, Subscription, connect
from ges.demo.findings import Exchanged
from ges.demo.processes import DemoFailed
from ges.errors import PublishRefused
from ges.wire.status import Status
from overlay.ids import LinkClass

PAYLOAD_BYTES = 256
NUMBER_BYTES = 4
PATIENCE_SECONDS = 30.0  #: for all events to arrive
ATTACH_SECONDS = 10.0
RETRY_SECONDS = 0.05


async def exchange(
    urls: tuple[str, ...], topic: str, each: int, *, identity: Path | None = None
) -> Exchanged:
    """Publish ``each`` events at every broker and receive all of them at every broker.

    With an ``identity`` the events are secure, and ``urls`` must be ``chordals://``.

    Raises:
        DemoFailed: An event was lost, or came twice, or out of order.
    """
    secure = identity is not None
    link_class = LinkClass.SECURE if secure else LinkClass.NORMAL
    async with AsyncExitStack() as stack:
        attach = [_attach(url, identity) for url in urls * 2]
        clients = [await stack.enter_async_context(client) for client in attach]
        publishers, subscribers = clients[: len(urls)], clients[len(urls) :]
        receivers = [
            _Receiver(
                client.broker_url,
                await stack.enter_async_context(
                    client.subscribe(f"{topic}/#", link_class=link_class)
                ),
                each,
                len(urls),
            )
            for client in subscribers
        ]
        before = _counters(await _statuses(publishers))
        start = trio.current_time()
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            async with trio.open_nursery() as nursery:
                for number, client in enumerate(publishers):
                    nursery.start_soon(_publish, client, f"{topic}/{number}", each, link_class)
                for receiver in receivers:
                    nursery.start_soon(receiver.run)
        seconds = trio.current_time() - start
        if patience.cancelled_caught:
            missing = "; ".join(r.missing for r in receivers if r.missing)
            raise DemoFailed(missing or "the brokers did not confirm all events")
        statuses = await _statuses(publishers)
    counters = _counters(statuses) - before
    events = each * len(urls)
    if counters["events_delivered"] != events * len(urls):
        raise DemoFailed(
            f"the brokers made {counters['events_delivered']} deliveries of {events} events to "
            f"{len(urls)} subscribers"
        )
    return Exchanged(
        brokers=len(urls),
        events=events,
        deliveries=counters["events_delivered"],
        seconds=seconds,
        forwarded_per_event=counters["events_forwarded"] / events,
        ciphers=_ciphers(statuses) if secure else (),
    )


def _attach(url: str, identity: Path | None) -> AbstractAsyncContextManager[Client]:
    return connect(url, identity=identity, timeout=ATTACH_SECONDS, reattach=False)


async def secure_paths(urls: Sequence[str], identity: Path) -> None:
    """Wait until every broker has all-secure paths to all others, and so takes secure events."""
    for url in urls:
        # A refused event leaves a gap in its publisher's numbers: ask as somebody else each time.
        while True:
            async with _attach(url, identity) as scout:
                try:
                    await scout.publish("demo/scout", link_class=LinkClass.SECURE, confirm=True)
                    break
                except PublishRefused:
                    await trio.sleep(RETRY_SECONDS)


async def _publish(client: Client, topic: str, count: int, link_class: LinkClass) -> None:
    padding = bytes(PAYLOAD_BYTES - NUMBER_BYTES)
    for number in range(count):
        payload = number.to_bytes(NUMBER_BYTES, "big") + padding
        await client.publish(topic, payload, link_class=link_class)
    await client.flush()


class _Receiver:
    """Checks that every publisher's events come exactly once, in order."""

    def __init__(self, url: str, events: Subscription, each: int, publishers: int) -> None:
        self._url = url
        self._events = events
        self._expected = each * publishers
        self._received = 0
        self._following: Counter[str] = Counter()  #: topic, one a publisher -> next number

    async def run(self) -> None:
        while self._received < self._expected:
            batch = await self._events.batch()
            if not batch:
                raise DemoFailed(f"the subscription at {self._url} ended: {self.missing}")
            self._received += len(batch)
            for event in batch:
                number = int.from_bytes(event.payload[:NUMBER_BYTES], "big")
                expected = self._following[event.topic]
                if number != expected:
                    raise DemoFailed(
                        f"the subscriber at {self._url} got event {number} of {event.topic}, "
                        f"expected was {expected}"
                    )
                self._following[event.topic] = expected + 1

    @property
    def missing(self) -> str:
        if self._received == self._expected:
            return ""
        return f"{self._url} received {self._received} of {self._expected} events"


async def _statuses(clients: Sequence[Client]) -> list[Status]:
    return [await client.status() for client in clients]


def _counters(statuses: Sequence[Status]) -> Counter[str]:
    total: Counter[str] = Counter()
    for status in statuses:
        total.update(status.counters)
    return total


def _ciphers(statuses: Sequence[Status]) -> tuple[str, ...]:
    links = (link for status in statuses for link in status.links)
    return tuple(sorted({link.cipher or "none" for link in links if link.link_class.is_secret}))
