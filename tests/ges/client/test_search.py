"""How a client looks for a broker: by turns, with pauses that grow and differ between clients."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from ges.client.search import BrokerSearch, Wish
from ges.errors import ConnectionLost
from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.ids import NANOS_PER_SECOND
from overlay.net.transport import TcpTransport, Wire
from overlay.rng import rng_for

BROKERS = (Address("a.test", 1), Address("b.test", 1))


class Nowhere(TcpTransport):
    """Notes the calls; all are refused at once."""

    def __init__(self) -> None:
        super().__init__(None)
        self.calls: list[tuple[str, float]] = []  #: whom and when, in seconds

    async def connect(self, address: Address) -> Wire:
        self.calls.append((address.host, trio.current_time()))
        raise ConnectionFailed(address.url, "connection refused")


async def search(seed: int, seconds: float) -> list[tuple[str, float]]:
    """Return the calls of a client that finds nobody."""
    wish = Wish(
        addresses=BROKERS,
        identity=None,
        overlay="chordal",
        uid="c" * 32,
        incarnation=1,
        timeout=seconds,
        reattach=True,
    )
    transport = Nowhere()
    with pytest.raises(ConnectionLost, match="connection refused"):
        await BrokerSearch(wish, transport, rng_for(seed)).find(lambda: BROKERS)
    return transport.calls


async def pauses(seed: int) -> list[int]:
    """Return how long a client waits after each round, in nanoseconds."""
    times = [time for host, time in await search(seed, 20) if host == BROKERS[0].host]
    return [round((later - earlier) * NANOS_PER_SECOND) for earlier, later in pairwise(times)]


async def test_all_brokers_known_are_tried_before_each_pause(autojump_clock: MockClock) -> None:
    calls = await search(1, 2)
    assert [host for host, _ in calls] == ["a.test", "b.test"] * (len(calls) // 2)
    assert [time for _, time in calls[::2]] == [time for _, time in calls[1::2]]


@pytest.mark.parametrize(
    ("number", "mean"), [(0, 0.05), (1, 0.1), (2, 0.2), (4, 0.8), (5, 1), (12, 1)]
)
async def test_clients_that_lose_their_broker_together_do_not_look_for_one_together(
    autojump_clock: MockClock, number: int, mean: float
) -> None:
    waited = [(await pauses(seed))[number] / NANOS_PER_SECOND for seed in range(20)]
    assert len(set(waited)) == 20
    assert 0.5 * mean <= min(waited) < 0.8 * mean
    assert 1.2 * mean < max(waited) <= 1.5 * mean
