"""Who changes its subscriptions too fast is read more slowly; nothing is refused."""

from __future__ import annotations

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.sessions.change_pace import ChangePace
from ges.wire.asked import Ask
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Resubscribe,
    Resubscription,
    Subscribe,
    Unsubscribe,
)
from overlay.ids import nanos
from overlay.limits import LIMITS, Limits


def test_the_first_thousands_are_free_and_the_rest_has_a_rate() -> None:
    pace = ChangePace(LIMITS)
    assert pace.wait_ns(2 * LIMITS.subscriptions, nanos(1.0)) == 0, "all of a client, twice"
    assert pace.wait_ns(500, nanos(1.0)) == nanos(1.0)
    assert pace.wait_ns(250, nanos(2.0)) == nanos(0.5)
    assert pace.wait_ns(250, nanos(10.0)) == 0


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, nanos(3))), min_size=1, max_size=40))
def test_whatever_a_client_changes_its_rate_holds(bursts: list[tuple[int, int]]) -> None:
    rate = Limits(subscription_changes_at_once=3, subscription_changes_per_second=2.0)
    pace, now = ChangePace(rate), 0
    done: list[int] = []
    for changes, pause in bursts:
        now += pause
        now += pace.wait_ns(changes, now)
        done += [now] * changes
    for first, at in enumerate(done):
        for later in range(first + 1, len(done)):
            # A burst of changes is taken before the client waits for it.
            assert later - first + 1 <= 3 + 5 + (done[later] - at) / nanos(0.5) + 1


async def test_a_client_is_read_at_its_rate_and_others_are_not_held_up(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    """For longer than a client may be silent, and than a frame may take."""
    limits = Limits(subscription_changes_at_once=10, subscription_changes_per_second=2.0)
    broker = await brokers.start(limits=limits)
    async with attach(broker) as client, attach(broker) as other:
        deliveries = broker.stack.deliveries
        moved = tuple(Resubscription(n, Ask(f"b/{n}"), 0) for n in range(30))
        again = Resubscribe((), moved, more=False)
        frames = [CLIENT_CODEC.encode(Subscribe(n, Ask(f"a/{n}"))) for n in range(30)]
        frames += [CLIENT_CODEC.encode(Unsubscribe(n)) for n in range(30)]
        frames += [CLIENT_CODEC.encode(again)]
        begun = trio.current_time()
        client._attachment.send(b"".join(frames))
        await until(lambda: deliveries.subscriptions == 30)
        assert trio.current_time() - begun < 1.0, "what was read together is done together"
        await trio.sleep(0.1)
        client._attachment.send(CLIENT_CODEC.encode(Subscribe(99, Ask("c"))))
        async with other.subscribe("d"):
            assert deliveries.subscriptions == 31
            await until(lambda: deliveries.subscriptions == 32, timeout=60)
        assert 39.0 < trio.current_time() - begun < 42.0
        assert broker.driver.counters["subscriptions_too_fast"] == 2
        assert broker.driver.counters["clients_silent"] == 0
        assert client._attachment.state.broker_uid == broker.node.peer.uid
        assert (await client.status()).clients == 2, "it has not left"
