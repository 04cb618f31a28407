"""What comes behind CONNECT counts, however the bytes are cut, and though the client closes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from benchmarks.stage.brokers import Brokers, attach, running
from benchmarks.stage.virtual import Weather
from ges.client import connect
from ges.http.tls import AdminTls
from ges.mqtt.gateway import Gateway
from ges.mqtt.packets import MQTT_3, MQTT_5, Kind
from tests.ges.mqtt.device import (
    PINGREQ,
    Device,
    connect_packet,
    dial,
    disconnect_packet,
    door_of,
    publish_packet,
    subscribe_packet,
)
from tests.helpers.web_certificates import WebAuthority

DEADLINE_SECONDS = 20
LEVELS = pytest.mark.parametrize("level", [MQTT_3, MQTT_5])
ANSWERS = sorted([Kind.CONNACK, Kind.PUBACK, Kind.SUBACK, Kind.PUBLISH, Kind.PINGRESP])
LONGEST = 100  #: of what is said here


def stays(level: int) -> bytes:
    """A client says all that it wants at once, and waits for what comes."""
    return b"".join(
        (
            connect_packet("hasty", level),
            subscribe_packet("hasty/#", level=level),
            publish_packet("hasty/1", b"last word", qos=1, level=level),
            PINGREQ,
        )
    )


def goes(level: int, qos: int = 0) -> bytes:
    """A client says what it has to say, and goes."""
    message = publish_packet("hasty/1", b"last word", qos=qos, level=level)
    return connect_packet("hasty", level) + message + disconnect_packet(level=level)


def cut(said: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the pieces between these places."""
    places = sorted({0, len(said), *(at for at in cuts if at < len(said))})
    return [said[start:end] for start, end in pairwise(places)]


async def play(said: bytes, level: int, cuts: Sequence[int]) -> tuple[list[Kind], list[bytes]]:
    """Say it in pieces; return the answers that came, and what a subscriber has got of it."""
    kinds: list[Kind] = []
    got: list[bytes] = []
    async with running(Weather().transport) as brokers, trio.open_nursery() as nursery:
        broker = await brokers.start()
        async with (
            door_of(broker) as door,
            attach(broker) as watcher,
            watcher.subscribe("hasty/+") as events,
        ):
            here, there = memory_stream_pair()
            nursery.start_soon(door.converse, there, "192.0.2.7", 40_000)
            client = Device(here, level)
            for piece in cut(said, cuts):
                await client.send(piece)
                await trio.sleep(0.001)
            if said == stays(level):
                while len(kinds) < len(ANSWERS):
                    kinds.append((await client.expect_any()).kind)
            else:
                await here.aclose()
            with trio.move_on_after(1):
                while True:
                    got.append((await anext(events)).payload)
        nursery.cancel_scope.cancel()
    return kinds, got


def played(said: bytes, level: int, cuts: Sequence[int]) -> tuple[list[Kind], list[bytes]]:
    return trio.run(play, said, level, cuts, clock=MockClock(autojump_threshold=0))


def amiss(level: int, cuts: Sequence[int]) -> list[str]:
    """Return what is wrong with a client that says all at once and stays."""
    kinds, got = played(stays(level), level, cuts)
    found = [f"told {kinds}"] if sorted(kinds) != ANSWERS or kinds[0] != Kind.CONNACK else []
    return found + ([f"got {got}"] if got != [b"last word"] else [])


@LEVELS
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, LONGEST)))
@example(cuts=[])
@example(cuts=range(LONGEST))
def test_all_is_answered_however_it_is_cut(level: int, cuts: Sequence[int]) -> None:
    assert amiss(level, cuts) == []


@pytest.mark.parametrize("qos", [0, 1])
@LEVELS
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, LONGEST)))
@example(cuts=[])
@example(cuts=range(LONGEST))
def test_the_last_word_of_who_goes_counts(level: int, qos: int, cuts: Sequence[int]) -> None:
    assert played(goes(level, qos), level, cuts)[1] == [b"last word"]


def test_a_gateway_that_waits_for_the_next_bytes_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault that there was, planted: what came behind CONNECT is not looked at."""
    made = Gateway.__init__

    def waiting(self: Gateway, *args: object) -> None:
        made(self, *args)  # type: ignore[arg-type]
        self.is_paused = False

    monkeypatch.setattr(Gateway, "__init__", waiting)
    assert played(goes(MQTT_5), MQTT_5, [])[1] == []


# ── over TCP and TLS ──────────────────────────────────────────────────────────────────────────


@LEVELS
@pytest.mark.parametrize("is_private", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["one segment", "byte by byte"])
async def test_the_last_word_counts_at_a_real_door(
    brokers: Brokers, authority: WebAuthority, level: int, is_private: bool, is_whole: bool
) -> None:
    broker = await brokers.start()
    tls = AdminTls(authority.certificate.parent) if is_private else None
    said = goes(level)
    got: list[bytes] = []
    async with (
        door_of(broker, tls) as door,
        connect(broker.url) as watcher,
        watcher.subscribe("hasty/+") as events,
    ):
        await events.active.wait()
        for _ in range(5):
            client = await dial(door, level)
            stream = client.stream
            if is_private:
                context = authority.client()
                stream = trio.SSLStream(stream, context, server_hostname="127.0.0.1")
            for piece in cut(said, [] if is_whole else range(len(said))):
                await stream.send_all(piece)
            await stream.aclose()
            with trio.fail_after(DEADLINE_SECONDS):
                got.append((await anext(events)).payload)
    assert got == [b"last word"] * 5
