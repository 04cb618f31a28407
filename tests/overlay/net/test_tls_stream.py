"""TLS whose bytes are had without waiting: nothing is lost, changed or sent in the clear."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import trio
import trio.testing

from overlay.authority.authority import create_authority, issue_identity
from overlay.net.connection import BROKEN, Connection
from overlay.net.tls_stream import AT_ONCE_BYTES, RECORD_BYTES, TlsStream
from overlay.net.turn import Turn
from overlay.security.identity import Role
from overlay.security.tls_handshake import client_context, server_context
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame
from tests.helpers.tap import tapped

DAY = timedelta(days=1)
DEADLINE_SECONDS = 20
LIMIT = 64 * 1024 * 1024
SECRET = b"not for others to read"


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the caller and of the one who is called."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = create_authority(folder / "authority", name="test", lifetime=DAY)
    here, there = (
        issue_identity(authority, folder / name, role=Role.BROKER, lifetime=DAY)
        for name in ("here", "there")
    )
    return client_context(here), server_context(there)


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@asynccontextmanager
async def pair(contexts: Contexts) -> AsyncIterator[tuple[TlsStream, TlsStream]]:
    """Both ends, after the handshake."""
    here, there = (trio.SocketStream(trio.socket.from_stdlib_socket(s)) for s in sockets())
    near = TlsStream(here, contexts[0], server_side=False)
    far = TlsStream(there, contexts[1], server_side=True)
    with trio.fail_after(DEADLINE_SECONDS):
        async with near, far:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.do_handshake)
                nursery.start_soon(far.do_handshake)
            yield near, far


def sockets() -> tuple[socket.socket, socket.socket]:
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    return here, there


@asynccontextmanager
async def writing(stream: TlsStream, turn: Turn) -> AsyncIterator[Connection]:
    """A connection over the stream, whose writer is parked."""
    connection = Connection(stream, secure=True, limit_bytes=LIMIT, turn=turn)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.write_forever)
        await trio.testing.wait_all_tasks_blocked()
        yield connection
        nursery.cancel_scope.cancel()


async def test_it_is_a_stream_both_ways(contexts: Contexts) -> None:
    rng = random.Random(3)
    sent = rng.randbytes(1_000_000)
    async with pair(contexts) as (near, far):
        for one, other in ((near, far), (far, near)):
            got = bytearray()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.send_all, sent)
                while len(got) < len(sent):
                    got += await other.receive_some(rng.choice([1, 100, 5_000, 100_000]))
            assert got == sent


@pytest.mark.parametrize("called", [False, True])
async def test_any_other_implementation_understands_it(contexts: Contexts, called: bool) -> None:
    here, there = (trio.SocketStream(trio.socket.from_stdlib_socket(s)) for s in sockets())
    ours = TlsStream(here, contexts[called], server_side=called)
    theirs = trio.SSLStream(there, contexts[not called], server_side=not called)
    async with ours:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.do_handshake)
            nursery.start_soon(theirs.do_handshake)
        await ours.send_all(b"ours")
        assert await theirs.receive_some(100) == b"ours"
        await theirs.send_all(b"theirs")
        assert await ours.receive_some(100) == b"theirs"
        assert ours.session.version() == "TLSv1.3"
        async with trio.open_nursery() as nursery:  # with a farewell, to which nobody answers
            nursery.start_soon(theirs.aclose)
            assert await ours.receive_some(100) == b""
            assert await Connection(ours, secure=True, limit_bytes=LIMIT).receive() == b""
            nursery.cancel_scope.cancel()


async def test_bytes_come_out_however_they_are_cut(contexts: Contexts) -> None:
    rng = random.Random(5)
    sent = [rng.randbytes(rng.choice([1, 300, 20_000, 3 * AT_ONCE_BYTES])) for _ in range(20)]
    async with pair(contexts) as (near, far):
        sealed = b"".join(part for item in sent for part in near.seal(item))
        got = bytearray()
        at = 0
        while at < len(sealed):
            size = rng.choice([1, 7, 1_000, 40_000])
            got += far.unseal(sealed[at : at + size])
            assert not far.has_more or at + size < len(sealed)
            at += size
        assert got == b"".join(sent)


async def test_at_the_end_of_a_turn_all_of_it_is_sealed_and_written(contexts: Contexts) -> None:
    turn = Turn()
    with tapped(SECRET) as tap:
        async with pair(contexts) as (near, far), writing(near, turn) as connection:
            with turn:
                connection.send(frame(EVENT, SECRET), 1)
                connection.send(frame(EVENT, SECRET * 2_000), 1)
            # Not a checkpoint has passed since.
            assert connection.queued_bytes == 0
            there = far.transport_stream.socket._sock  # type: ignore[attr-defined]
            received = b""
            while len(received) < connection.sent_bytes:
                received += there.recv(100_000)
            assert SECRET not in received
            assert far.unseal(received) == frame(EVENT, SECRET) + frame(EVENT, SECRET * 2_000)
    assert not tap.found
    assert tap.bytes > len(SECRET) * 2_000


async def test_what_the_kernel_does_not_take_follows_in_order(contexts: Contexts) -> None:
    turn = Turn()
    rng = random.Random(7)
    bodies = [rng.randbytes(rng.choice([0, 10, 3_000, 300_000])) for _ in range(100)]
    async with pair(contexts) as (near, far), writing(near, turn) as connection:
        other = Connection(far, secure=True, limit_bytes=LIMIT)
        reader = FrameReader()
        found: list[bytes] = []
        for body in bodies:
            with turn:
                connection.send(frame(EVENT, body), 1)
        assert connection.queued_bytes > 1_000_000, "nobody has read yet"
        while len(found) < len(bodies):
            reader.feed(await other.receive(rng.randrange(1, 100_000)))
            found += [body for _, body in reader.frames()]
        assert found == bodies
        assert connection.queued_bytes == 0


async def test_what_follows_a_greeting_at_once_is_read(contexts: Contexts) -> None:
    """A greeting is read in small pieces; the rest of its record, and others, are there by then."""
    sent = random.Random(9).randbytes(3 * RECORD_BYTES)
    async with pair(contexts) as (near, far):
        await near.send_all(b"greeting" + sent)
        assert await far.receive_some(8) == b"greeting"
        connection = Connection(far, secure=True, limit_bytes=LIMIT)
        got = bytearray()
        while len(got) < len(sent):
            got += await connection.receive(1_000_000)
        assert got == sent


async def test_an_end_without_a_farewell_is_one(contexts: Contexts) -> None:
    async with pair(contexts) as (near, far):
        await near.send_all(b"last")
        await near.aclose()
        connection = Connection(far, secure=True, limit_bytes=LIMIT)
        assert await connection.receive() == b"last"
        assert await connection.receive() == b""
    async with pair(contexts) as (near, far):
        await near.aclose()
        assert await far.receive_some() == b""


async def test_bytes_that_were_changed_break_the_connection(contexts: Contexts) -> None:
    async with pair(contexts) as (near, far):
        sealed = bytearray(b"".join(near.seal(b"x" * 100)))
        sealed[50] ^= 1
        await near.transport_stream.send_all(sealed)
        connection = Connection(far, secure=True, limit_bytes=LIMIT)
        with pytest.raises(BROKEN) as caught:
            await connection.receive()
        assert isinstance(caught.value.__cause__, ssl.SSLError)
        assert await connection.receive() == b"", "and nothing more comes of it"


async def test_what_cannot_be_sealed_ends_the_writers_task_and_nothing_goes_out(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn()
    failed = trio.Event()
    async with pair(contexts) as (near, far):
        connection = Connection(near, secure=True, limit_bytes=LIMIT, turn=turn)

        async def write() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await connection.write_forever()
            failed.set()

        def refuse(data: object) -> int:
            raise ssl.SSLError("protocol is shutdown")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(near.session, "write", refuse)
            with turn:
                connection.send(frame(EVENT, SECRET), 1)
            await failed.wait()
        with pytest.raises(BlockingIOError):
            far.transport_stream.socket._sock.recv(1)  # type: ignore[attr-defined]


async def test_ends_that_do_not_agree_say_why(contexts: Contexts) -> None:
    here, there = (trio.SocketStream(trio.socket.from_stdlib_socket(s)) for s in sockets())
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    near = TlsStream(here, nobody, server_side=False)
    far = TlsStream(there, contexts[1], server_side=True)
    async with near, far, trio.open_nursery() as nursery:

        async def called() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await far.do_handshake()

        nursery.start_soon(called)
        with pytest.raises(trio.BrokenResourceError) as caught:
            await near.do_handshake()
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        await near.aclose()


async def test_a_part_of_a_record_is_a_sign_of_life_and_no_end(contexts: Contexts) -> None:
    async with pair(contexts) as (near, far):
        parts: list[int] = []
        connection = Connection(far, secure=True, limit_bytes=LIMIT)
        connection.on_part = lambda: parts.append(len(parts))
        sealed = b"".join(near.seal(SECRET))
        got = b""

        async def receive() -> None:
            nonlocal got
            got = bytes(await connection.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            for at in range(len(sealed)):
                await trio.testing.wait_all_tasks_blocked()
                await near.transport_stream.send_all(sealed[at : at + 1])
        assert got == SECRET
        assert len(parts) > 1
