"""Tokens are proven: a false broker on loopback learns nothing that would let it in anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.greetings import NONCE, client_hello
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from ges.errors import ConnectionLost
from ges.wire.client_messages import CLIENT_CODEC, Attached
from overlay.address import parse_url
from overlay.limits import Limits
from overlay.links.first_message import read_greeting
from overlay.machine import Message, Refused
from overlay.wire.codec import FrameReader
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Challenge, Hello, Refusal, TokenProof
from tests.ges.sessions.test_clients import Raw

DEADLINE_SECONDS = 20
FALSE_UID = "f" * 32


class FalseBroker:
    """Says what it likes, and notes what it hears."""

    def __init__(self, *answers: Callable[[Hello], Message]) -> None:
        self.heard = b""
        self.url = ""
        self._answers = answers

    async def serve(self, stream: trio.SocketStream) -> None:
        reader = FrameReader()
        hello: Hello | None = None
        for answer in self._answers:
            while (found := reader.next_frame()) is None:
                data = await stream.receive_some()
                if not data:
                    return
                self.heard += data
                reader.feed(data)
            message = GREETINGS.decode(found[1])
            hello = message if isinstance(message, Hello) else hello
            assert hello is not None
            await stream.send_all(GREETINGS.encode(answer(hello)))
        while data := await stream.receive_some():
            self.heard += data


@asynccontextmanager
async def standing(*answers: Callable[[Hello], Message]) -> AsyncIterator[FalseBroker]:
    false = FalseBroker(*answers)
    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, false.serve, 0, host="127.0.0.1")
        listeners = await nursery.start(listen)
        false.url = f"chordal://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield false
        nursery.cancel_scope.cancel()


def challenge(hello: Hello) -> Message:
    return Challenge(FALSE_UID, b"2" * 32)


def attached(hello: Hello) -> Message:
    return Attached(FALSE_UID, "chordal://127.0.0.1:1", False, PROTOCOL_VERSION)


def attached_with(proof: bytes) -> Callable[[Hello], Message]:
    return lambda hello: Attached(
        FALSE_UID, "chordal://127.0.0.1:1", False, PROTOCOL_VERSION, token_proof=proof
    )


@pytest.mark.parametrize(
    "answer", [attached, attached_with(b"x" * 32)], ids=["no proof", "a wrong one"]
)
async def test_a_false_broker_gets_no_token_and_no_client(
    token: str, answer: Callable[[Hello], Message]
) -> None:
    async with standing(challenge, answer) as false:
        with (
            trio.fail_after(DEADLINE_SECONDS),
            pytest.raises(ConnectionLost, match="does not know the token that it lets us in for"),
        ):
            async with connect(false.url, token=token):
                pass
        secret = token.rpartition(".")[2]
        assert b"line-1" in false.heard
        assert not any(secret[at : at + 6].encode() in false.heard for at in range(37))


async def test_what_a_false_broker_has_heard_lets_it_in_nowhere(
    brokers: Brokers, book: Path, token: str
) -> None:
    """It says all of it again to a broker that knows the token."""
    broker = await brokers.start(tokens=book)
    async with standing(challenge, attached) as false:
        with pytest.raises(ConnectionLost):
            async with connect(false.url, token=token, timeout=5):
                pass
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(false.heard)
        reader = FrameReader()
        with trio.fail_after(DEADLINE_SECONDS):
            assert await refused(stream, reader) == Refusal(
                Refused.NOT_AUTHENTICATED, "the token is not known to this broker, or has expired"
            )
    assert broker.clients.size == 0


async def refused(stream: trio.abc.Stream, reader: FrameReader) -> object:
    """Pass over the challenge, and return what comes then."""
    while reader.next_frame() is None:
        reader.feed(await stream.receive_some())
    return await read_greeting(stream, reader)


async def test_a_broker_that_asks_nothing_lets_in_anybody_and_learns_nothing(token: str) -> None:
    """As one without ``--tokens`` does."""
    async with standing(attached) as false:
        async with connect(false.url, token=token, timeout=5):
            pass
        assert token.rpartition(".")[2].encode() not in false.heard


async def test_a_client_that_has_named_no_token_proves_none() -> None:
    async with standing(challenge, attached) as false:
        with pytest.raises(ConnectionLost, match="asks for a token that nobody has named"):
            async with connect(false.url, timeout=5):
                pass


async def greet(broker: Broker, hello: Hello) -> trio.SocketStream:
    address = parse_url(broker.url)
    stream = await trio.open_tcp_stream(address.host, address.port)
    await stream.send_all(GREETINGS.encode(hello))
    return stream


@pytest.mark.parametrize(
    "said",
    [
        None,
        GREETINGS.encode(client_hello()),
        CLIENT_CODEC.encode(attached(client_hello())),
        b"\xff" * 40,
    ],
    ids=["nothing", "a greeting", "another message", "noise"],
)
async def test_who_names_a_token_and_gives_no_proof_is_dropped_in_time(
    brokers: Brokers, book: Path, token: str, said: bytes | None
) -> None:
    broker = await brokers.start(tokens=book, limits=Limits(handshake_seconds=0.3))
    async with await greet(broker, client_hello(token_name="line-1")) as stream:
        if said is not None:
            await stream.send_all(said)
        raw = Raw(stream)
        with trio.fail_after(DEADLINE_SECONDS):
            while True:
                try:
                    data = await raw.stream.receive_some()
                except trio.BrokenResourceError:
                    break
                if not data:
                    break
    await until(lambda: broker.driver.counters["protocol_errors"] == 1)
    assert broker.driver.counters["internal_errors"] == 0
    assert broker.clients.size == 0


async def test_those_who_prove_have_their_bounds(brokers: Brokers, book: Path, token: str) -> None:
    limits = Limits(strangers_per_host=2, handshake_seconds=60)
    broker = await brokers.start(tokens=book, limits=limits)
    hello = client_hello(token_name="line-1")
    async with await greet(broker, hello) as one, await greet(broker, hello) as two:
        with trio.fail_after(DEADLINE_SECONDS):
            for stream in (one, two):
                await stream.receive_some()
            async with await greet(broker, hello) as three:
                answer = await read_greeting(three, FrameReader())
        assert isinstance(answer, Refusal)
        assert answer.reason is Refused.BUSY


async def test_a_proof_without_a_greeting_is_none(brokers: Brokers, book: Path, token: str) -> None:
    broker = await brokers.start(tokens=book)
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(GREETINGS.encode(TokenProof(NONCE)))
        with trio.fail_after(DEADLINE_SECONDS):
            assert await stream.receive_some() == b""
    assert broker.driver.counters["strangers_not_chordal"] == 1
