"""Brokers that take a client and hang up: nobody waits for them longer than for one not there."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.in_process import chordal_here
from ges.client import Client, aio, connect, sync
from ges.client.hang_ups import FEWEST, PART, HangUps
from ges.errors import ConnectionLost
from tests.helpers.hanging_up import hanging_up

DEADLINE_SECONDS = 20
TIMEOUT = 0.6
URL = "chordal://127.0.0.1:1"
HANGS_UP = "takes clients, and hangs up before it answers anything"


@pytest.fixture(params=[(True, True), (False, False)], ids=["in good order", "by a reset"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where somebody listens that hangs up."""
    reads, names_itself = request.param
    with hanging_up(reads=reads, names_itself=names_itself) as found:
        yield found


async def publish(client: Client) -> None:
    await client.publish("t", b"x", confirm=True)


async def subscribe(client: Client) -> None:
    async with client.subscribe("t"):
        pass


async def request(client: Client) -> None:
    await client.request("t", timeout=DEADLINE_SECONDS)


async def ask(client: Client) -> None:
    await client.status()


Doing = Callable[[Client], Coroutine[Any, Any, None]]
EACH = pytest.mark.parametrize("do", [publish, subscribe, request, ask])


@EACH
async def test_on_trio(url: str, do: Doing) -> None:
    with trio.fail_after(DEADLINE_SECONDS):
        with pytest.raises(ConnectionLost, match=HANGS_UP):
            async with connect(url, timeout=TIMEOUT) as client:
                await do(client)


@EACH
def test_on_asyncio(url: str, do: Doing) -> None:
    async def run() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), aio.connect(url, timeout=TIMEOUT) as client:
            await do(client)

    with pytest.raises(ConnectionLost, match=HANGS_UP):
        asyncio.run(run())


def test_without_await(url: str) -> None:
    with (
        pytest.raises(ConnectionLost, match=HANGS_UP),
        sync.connect(url, timeout=TIMEOUT) as client,
    ):
        client.publish("t", b"x", confirm=True)


async def test_where_there_is_another_broker_it_serves(brokers: Brokers, url: str) -> None:
    broker = await brokers.start()
    with trio.fail_after(DEADLINE_SECONDS):
        async with connect(url, broker.url, timeout=TIMEOUT) as client:
            await client.publish("t", b"x", confirm=True)
            assert client.broker_url == broker.url


async def test_who_waits_for_ever_is_told_for_whom(url: str) -> None:
    told: list[str] = []
    with trio.CancelScope() as scope:

        def on_waiting(words: str) -> None:
            told.append(words)
            scope.cancel()

        with trio.fail_after(DEADLINE_SECONDS):
            async with connect(url, on_waiting=on_waiting) as client:
                await client.publish("t", b"x", confirm=True)
    assert told == [f"waiting for a broker: {url} {HANGS_UP}; trying until one answers"]


@pytest.mark.parametrize(
    "command",
    [
        *("pub t x", "sub t", "sub t --wait 1", "request t x", "reply t --payload x"),
        *("status", "ping", "clients", "ring", "why t", "metrics"),
    ],
)
def test_each_command_ends_and_says_what_happened(command: str) -> None:
    with hanging_up() as url:
        done = chordal_here(*command.split(), "--timeout", "1", "--broker", url)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("chordal: error:")]
    assert url in line
    assert HANGS_UP in line or "the broker is gone" in line


# ── the rule ──────────────────────────────────────────────────────────────────────────────────


def test_one_that_has_answered_begins_anew() -> None:
    told: list[str] = []
    found = HangUps(3.0, random.Random(1), told.append)
    for row in range(3):
        begin = 100.0 * row
        assert found.lost(URL, has_answered=True, since=begin, now=begin + 50) == 0
        assert found.lost(URL, has_answered=False, since=begin + 50, now=begin + 52) > 0
    assert len(told) == 3


def test_pauses_grow_and_it_ends_after_a_part_of_the_time() -> None:
    found = HangUps(30.0, random.Random(1), lambda words: None)
    now, pauses = 0.0, []
    while now + 0.01 < PART * 30:
        pauses.append(found.lost(URL, has_answered=False, since=now, now=now + 0.01))
        now += 0.01 + pauses[-1]
    with pytest.raises(ConnectionLost, match=r"127.0.0.1:1: .* 1\d times in 1\d"):
        found.lost(URL, has_answered=False, since=now, now=now + 0.01)
    assert max(pauses[:2]) < 0.2
    assert max(pauses) < 1.6


def test_a_broker_may_die_once_and_for_ever_is_for_ever() -> None:
    found = HangUps(0.1, random.Random(1), lambda words: None)
    for _ in range(FEWEST - 1):
        found.lost(URL, has_answered=False, since=0.0, now=50.0)
    patient = HangUps(math.inf, random.Random(1), lambda words: None)
    for at in range(5000):
        assert patient.lost(URL, has_answered=False, since=float(at), now=at + 0.5) <= 1.5
