"""How a client looks for a broker: by turns, with pauses that grow and differ between clients."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from ges.client.search import BrokerSearch
from ges.client.wish import Wish
from ges.errors import ConnectionLost
from ges.wire.client_messages import CLIENT_CODEC, Attached
from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.ids import NANOS_PER_SECOND
from overlay.net.transport import TcpTransport, Wire
from overlay.rng import rng_for
from overlay.wire.versions import DIALECT

BROKERS = (Address("a.test", 1), Address("b.test", 1))
WISH = Wish(
    addresses=BROKERS,
    identity=None,
    overlay="chordal",
    uid="c" * 32,
    incarnation=1,
    timeout=10,
    reattach=True,
    on_waiting=lambda words: None,
)


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
    wish = replace(WISH, timeout=seconds)
    transport = Nowhere()
    with pytest.raises(ConnectionLost, match="connection refused"):
        await BrokerSearch(wish, transport, rng_for(seed)).find(lambda: BROKERS)
    return transport.calls


class Answering(TcpTransport):
    """Fails to connect to each broker in the way given for it."""

    def __init__(self, answers: dict[str, ConnectionFailed | None]) -> None:
        super().__init__(None)
        self._answers = answers

    async def connect(self, address: Address) -> Wire:
        answer = self._answers[address.host]
        if answer is None:
            await trio.sleep_forever()
        assert answer is not None
        raise answer


def refused(host: str, *, is_final: bool = False) -> ConnectionFailed:
    return ConnectionFailed(f"chordal://{host}:1", "it says no", is_final=is_final)


async def told(
    answers: dict[str, ConnectionFailed | None], seconds: float, *, is_first: bool = True
) -> tuple[list[str], float]:
    """Return what a client in vain says while it waits, and for how many seconds it waits."""
    words: list[str] = []
    wish = replace(WISH, timeout=seconds, on_waiting=words.append)
    search = BrokerSearch(wish, Answering(answers), rng_for(1))
    began = trio.current_time()
    with pytest.raises(ConnectionLost, match=r"it says no|no answer"):
        await search.find(lambda: BROKERS, is_first=is_first)
    return words, trio.current_time() - began


class Taken(trio.abc.Stream):
    """A broker at the other end takes the client, which is cancelled in that moment."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self.is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        self._scope.cancel()
        url = BROKERS[0].url
        return CLIENT_CODEC.encode(Attached("b" * 32, url, False, DIALECT.highest))

    async def aclose(self) -> None:
        self.is_closed = True
        await trio.lowlevel.checkpoint()


class Taking(TcpTransport):
    """Connects to whoever it is given."""

    def __init__(self, stream: Taken) -> None:
        super().__init__(None)
        self._stream = stream

    async def connect(self, address: Address) -> Wire:
        return Wire(self._stream, None)


async def test_a_search_that_is_cancelled_as_it_succeeds_leaves_no_connection() -> None:
    with trio.CancelScope() as scope:
        stream = Taken(scope)
        await BrokerSearch(WISH, Taking(stream), rng_for(1)).find(lambda: BROKERS[:1])
        raise AssertionError("it was cancelled")
    assert scope.cancelled_caught
    assert stream.is_closed


async def test_one_line_says_for_whom_a_client_waits(autojump_clock: MockClock) -> None:
    answers = {"a.test": refused("a.test"), "b.test": None}
    words, seconds = await told(answers, 20)
    assert words == [
        "waiting for a broker at chordal://a.test:1 (it says no), chordal://b.test:1 "
        "(no answer yet); trying for 20 s"
    ]
    assert seconds == 20
    words, _ = await told({"a.test": None, "b.test": None}, 20)
    assert words[0].startswith(
        "waiting for a broker at chordal://a.test:1 (no answer yet), "
        "chordal://b.test:1 (not tried yet)"
    )
    assert (await told(answers, 0.4))[0] == [], "who gives up before has nothing to say"


async def test_a_client_may_wait_for_ever(autojump_clock: MockClock) -> None:
    words: list[str] = []
    wish = replace(WISH, timeout=math.inf, on_waiting=words.append)
    with trio.move_on_after(600) as scope:
        await BrokerSearch(wish, Nowhere(), rng_for(1)).find(lambda: BROKERS, is_first=True)
    assert scope.cancelled_caught
    (line,) = words
    assert line.endswith("; trying until one answers")


@pytest.mark.parametrize(
    ("finals", "is_first", "waits"),
    [
        (("a.test", "b.test"), True, False),
        (("a.test",), True, True),
        ((), True, True),
        (("a.test", "b.test"), False, True),
    ],
)
async def test_a_client_does_not_wait_where_that_is_of_no_use(
    autojump_clock: MockClock, finals: tuple[str, ...], is_first: bool, waits: bool
) -> None:
    answers: dict[str, ConnectionFailed | None] = {
        address.host: refused(address.host, is_final=address.host in finals) for address in BROKERS
    }
    words, seconds = await told(answers, 20, is_first=is_first)
    assert (seconds, len(words)) == ((20, 1) if waits else (0, 0))


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
