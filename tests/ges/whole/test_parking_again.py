"""A client with parked events loses its broker: each still comes once, or is refused in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.flaky import Flaky
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Subscription, connect
from ges.client.outgoing import OutgoingStream
from ges.errors import PublishRefused
from ges.sessions.parked_events import in_doubt
from ges.wire.events import read_head
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.security.identity import Role
from overlay.wire.frames import HEADER as FRAME_HEADER
from tests.ges.conftest import Issue
from tests.ges.sessions.test_parking import break_tls, mend_tls, publish
from tests.ges.whole.test_renewal import started, url
from tests.helpers.secured import unreached

SECURE = LinkClass.SECURE
DEADLINE_SECONDS = 60  #: it takes seconds to find a broker silent
SECOND_NS = 1_000_000_000


@contextmanager
def behind_proxy(broker: Broker) -> Iterator[tuple[Flaky, str]]:
    """Give a way to a broker on which a connection can fall silent, without either end's doing."""
    proxy = Flaky(parse_url(broker.url).port, "parked")
    try:
        yield proxy, f"chordals://127.0.0.1:{proxy.port}"
    finally:
        proxy.close()


async def take(events: Subscription, count: int) -> list[int]:
    return [int((await anext(events)).payload) for _ in range(count)]


async def test_what_two_brokers_have_parked_comes_once(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first does not know that its client is gone, and holds what the second holds too."""
    ring = await started(brokers, [issue(Role.BROKER) for _ in range(3)])
    a, b, c = ring
    me = issue(Role.CLIENT)
    with behind_proxy(a) as (proxy, proxied), trio.fail_after(DEADLINE_SECONDS):
        async with (
            connect(proxied, url(b), identity=me) as client,
            connect(url(c), identity=me) as far,
            connect(url(b), identity=me) as near,
            far.subscribe("a") as at_c,
            near.subscribe("a") as at_b,
        ):
            break_tls(ring, monkeypatch)
            await until(lambda: unreached(a))
            await until(lambda: unreached(b))
            for number in range(3):
                await publish(client, number, park=60)
            await until(lambda: a.status().parked == 3)
            proxy.freeze()
            await until(lambda: b.status().parked == 3)
            assert a.status().parked == 3
            await mend_tls(ring, monkeypatch)
            await client.flush()
            for number in range(3, 6):
                await publish(client, number)
            await client.flush()
            assert await take(at_b, 6) == [*range(6)]
            assert await take(at_c, 6) == [*range(6)]


async def test_what_was_delivered_meanwhile_is_not_refused(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker finds a path and sends it; the second has none, but sees it come."""
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    a, b = ring
    me = issue(Role.CLIENT)
    with behind_proxy(a) as (proxy, proxied), trio.fail_after(DEADLINE_SECONDS):
        async with (
            connect(proxied, url(b), identity=me) as client,
            connect(url(b), identity=me) as other,
            other.subscribe("a") as events,
        ):
            for broker in ring:
                monkeypatch.setattr(broker.stack, "why_not", lambda session, head: "no path")
            await publish(client, 1, park=60)
            await publish(client, 2, park=60)
            await until(lambda: a.status().parked == 2)
            proxy.freeze()
            await until(lambda: b.status().parked == 2)
            monkeypatch.setattr(a.stack, "why_not", lambda session, head: None)
            a.parts.parked.stir()
            assert await take(events, 2) == [1, 2]
            b.parts.parked.stir()  # as any change does, and the end of their time
            await client.flush()
            assert b.driver.counters["events_refused"] == 0
            assert b.driver.counters["events_duplicate"] == 2


async def test_what_has_come_already_is_not_parked(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker has sent it, and could not say so; there is no path from the second."""
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    a, b = ring
    me = issue(Role.CLIENT)
    with behind_proxy(a) as (proxy, proxied), trio.fail_after(DEADLINE_SECONDS):
        async with (
            connect(proxied, url(b), identity=me) as client,
            connect(url(b), identity=me) as other,
            other.subscribe("a") as events,
        ):
            monkeypatch.setattr(a.parts.replies, "acknowledge", lambda session: None)
            await publish(client, 1)
            assert await take(events, 1) == [1]
            monkeypatch.setattr(b.stack, "why_not", lambda session, head: "no path")
            proxy.freeze()
            await client.flush()
            with pytest.raises(PublishRefused, match=r"^no path$"):
                await client.publish("a", b"2", link_class=SECURE, confirm=True)


async def test_a_refusal_says_what_nobody_can_know(
    brokers: Brokers, issue: Issue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second broker has not seen it, but others may."""
    ring = await started(brokers, [issue(Role.BROKER), issue(Role.BROKER)])
    a, b = ring
    with behind_proxy(a) as (proxy, proxied), trio.fail_after(DEADLINE_SECONDS):
        async with connect(proxied, url(b), identity=issue(Role.CLIENT)) as client:
            for broker in ring:
                monkeypatch.setattr(broker.stack, "why_not", lambda session, head: "no path")
            begun = trio.current_time()
            await publish(client, 1, park=8)
            await until(lambda: a.status().parked == 1)
            proxy.freeze()
            with pytest.raises(PublishRefused, match=r"expired.*may have delivered it"):
                await client.flush()
            # The time at both brokers together is what the publisher has allowed.
            assert 8 <= trio.current_time() - begun < 13


def test_an_event_sent_again_is_parked_for_the_rest_of_its_time() -> None:
    stream = OutgoingStream(SECURE, b"p" * 16, 1)
    for park_ms in (30_000, 0, 1000):
        stream.keep(stream.pack(b"a", b"", b"x", 5 * SECOND_NS, park_ms))

    def parks(now: int) -> list[int]:
        frames = stream.again((), now)
        return [read_head(frame, FRAME_HEADER.size).park_ms for frame in frames]

    assert parks(5 * SECOND_NS) == [30_000, 0, 1000]
    assert parks(15 * SECOND_NS) == [20_000, 0, 1]
    assert parks(99 * SECOND_NS) == [1, 0, 1]
    assert parks(0) == [30_000, 0, 1000]  # the clock was set back


def test_only_an_event_sent_again_is_in_doubt() -> None:
    stream = OutgoingStream(SECURE, b"p" * 16, 1)
    first = stream.pack(b"a", b"", b"x", 0)
    stream.keep(first)
    (again,) = stream.again((), 0)
    assert in_doubt(read_head(first, FRAME_HEADER.size), "no path") == "no path"
    assert "may have" in in_doubt(read_head(again, FRAME_HEADER.size), "no path")
