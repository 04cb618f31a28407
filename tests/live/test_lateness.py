"""Real brokers, whose link becomes slow behind a proxy, so that the kernel sees nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import trio

from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.proxy import free_port
from benchmarks.stage.waiting import eventually
from ges.client import Subscription, connect
from ges.wire.delivered import Event
from overlay.ids import LinkClass
from tests.helpers.slow_proxy import SlowProxy

pytestmark = pytest.mark.live

BUDGET_SECONDS = 0.05
SLOW_SECONDS = 0.15
DEADLINE_SECONDS = 20  #: for a link to be known as it is; it takes two, but processes have to run
EVENTS = 10


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def late(broker: Broker) -> dict[str, int]:
    return {link["link_class"]: link["late"] for link in broker.status()["links"] if link["late"]}


@pytest.mark.parametrize(("express_range", "link_class"), [("5s", "express"), ("0", "normal")])
def test_events_over_a_link_that_has_become_slow_are_late(
    brokers: Fleet, stack: ExitStack, express_range: str, link_class: str
) -> None:
    fronts, urls = [], []
    for _ in range(2):
        port = free_port()
        front = stack.enter_context(closing(SlowProxy(port)))
        join = ("--join", brokers.brokers[0].url) if brokers.brokers else ()
        place = ("--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{front.port}")
        assert brokers.broker(*place, *join, "--express-range", express_range).ready
        fronts.append(front)
        urls.append(f"chordal://127.0.0.1:{port}")
    a, b = brokers.brokers
    whole(a.url, 2)
    for front in fronts:
        front.slow |= {a.uid, b.uid}

    def is_up() -> bool:
        links = [link for link in b.status()["links"] if not link["demoted"]]
        return {link["link_class"] for link in links if link["rtt_ms"]} >= {link_class}

    eventually(is_up, what=f"an {link_class} link")

    async def flow(events: Subscription, is_known: Callable[[Event], bool]) -> list[Event]:
        """Return some events, from the first on that shows how slow the link is now."""
        came: list[Event] = []
        async with connect(urls[0]) as here:
            with trio.fail_after(DEADLINE_SECONDS):
                while len(came) < EVENTS:
                    await here.publish("t", link_class=LinkClass.EXPRESS, budget=BUDGET_SECONDS)
                    event = await anext(events)
                    came += [event] if came or is_known(event) else []
                    await trio.sleep(0.05)
        return came

    async def measure() -> tuple[list[Event], list[Event], list[Event]]:
        async with connect(urls[1]) as there, there.subscribe("t") as events:
            quick = await flow(events, lambda event: not event.late)
            for front in fronts:
                front.seconds = SLOW_SECONDS
            slow = await flow(events, lambda event: event.spent_us / 1e6 >= SLOW_SECONDS)
            for front in fronts:
                front.seconds = 0.0
            return quick, slow, await flow(events, lambda event: not event.late)

    quick, slow, again = trio.run(measure)
    assert [event.late for event in slow] == [True] * EVENTS
    for event in slow:
        assert SLOW_SECONDS <= event.spent_us / 1e6 < 2 * SLOW_SECONDS
        assert event.express_path == (link_class == "express")
    assert sum(event.late for event in quick + again) <= 2, "a busy machine may be late itself"
    assert late(b).keys() == {link_class}
    assert late(b)[link_class] >= EVENTS
