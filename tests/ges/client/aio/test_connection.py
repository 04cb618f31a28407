"""A connection under asyncio: its queue is bounded both ways, and express goes first."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ges.client.aio import connection as module
from ges.client.aio.calling import call
from ges.client.aio.connection import HOLD_BYTES, UNREAD_BYTES, Connection
from ges.client.aio.races import first_of
from ges.client.core import QUEUE_BYTES
from overlay.address import Address
from overlay.errors import ConnectionFailed
from overlay.net.call_failures import not_reached
from overlay.queues.lanes import STAMP
from overlay.queues.outbox import WRITE_BYTES
from overlay.security.credentials import Credentials
from overlay.security.identity import Role, load_identity
from overlay.security.tls_handshake import ALPN
from tests.ges.client.conftest import Run
from tests.ges.conftest import Issue

MEBIBYTE = bytes(2**20)
DROP = struct.pack("ii", 1, 0)  #: as a socket's linger: closing it breaks the connection


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection, and the socket at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = await call(Address("127.0.0.1", server.getsockname()[1]), credentials=None)
        peer, _ = server.accept()
    with peer:
        peer.setblocking(False)
        try:
            yield connection, peer
        finally:
            await connection.aclose()


async def take(peer: socket.socket, size: int) -> bytes:
    """Read so many bytes at the other end."""
    got = bytearray()
    while len(got) < size:
        got += await asyncio.get_running_loop().sock_recv(peer, size - len(got))
    return bytes(got)


def test_what_the_other_end_does_not_take_stays_in_the_queue(run: Run) -> None:
    """And whoever can holds back meanwhile."""

    async def program() -> None:
        async with connected() as (connection, peer):
            sent = 0
            while not connection.crowded:
                connection.send(MEBIBYTE, 1)
                sent += len(MEBIBYTE)
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(connection.room())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            assert connection.queued_bytes > HOLD_BYTES
            await take(peer, sent // 2)
            await take(peer, sent - sent // 2 - HOLD_BYTES // 2)
            await waiting
            await take(peer, HOLD_BYTES // 2)
            while connection.queued_bytes:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.001)

    run(program())


def test_beyond_the_limit_the_connection_is_given_up(run: Run) -> None:
    async def program() -> None:
        async with connected() as (connection, _):
            for _ in range(QUEUE_BYTES // len(MEBIBYTE) + 1):
                connection.send(MEBIBYTE, 1)
            assert connection.outbox.size == 0
            assert await connection.receive() == b""
            await connection.room()
            connection.send(b"nothing more")
            connection.send_express(bytearray(STAMP.size), 0)
            assert connection.outbox.size == 0

    run(program())


def test_express_goes_before_what_waits_and_says_how_long_it_has_waited(run: Run) -> None:
    async def program() -> None:
        async with connected() as (connection, peer):
            connection.send(b"normal", 1)
            connection.send_express(bytearray(b"fast" + bytes(STAMP.size)), 4)
            connection.send(b"last", 1)
            said = await take(peer, 18)
        assert (said[:4], said[8:]) == (b"fast", b"normallast")
        assert STAMP.unpack_from(said, 4)[0] < 1_000_000

    run(program())


def test_express_overtakes_what_the_other_end_has_not_taken(run: Run) -> None:
    async def program() -> None:
        async with connected() as (connection, peer):
            item, sent = bytes(WRITE_BYTES // 4), 0
            while not connection.crowded:
                for _ in range(8):
                    connection.send(item, 1)
                    sent += len(item)
                await asyncio.sleep(0)
            waits = connection.outbox.normal.size
            assert connection.queued_bytes - connection.outbox.size <= WRITE_BYTES
            connection.send_express(bytearray(b"fast" + bytes(STAMP.size)), 4)
            said = await take(peer, sent + 8)
            assert said.index(b"fast") <= sent - waits

    run(program())


def test_what_is_not_read_is_not_fetched_without_an_end(run: Run) -> None:
    async def program() -> None:
        async with connected() as (connection, peer):
            loop = asyncio.get_running_loop()
            flooding = asyncio.create_task(loop.sock_sendall(peer, MEBIBYTE * 64))
            fetched = -1
            while connection._come_bytes != fetched:  # until it stands still
                fetched = connection._come_bytes
                await asyncio.sleep(0.05)
            assert fetched < 2 * UNREAD_BYTES
            assert not flooding.done()
            got = 0
            while got < 64 * len(MEBIBYTE):
                got += len(await connection.receive())
            await flooding

    run(program())


def test_one_that_breaks_says_so_and_one_that_ends_just_ends(run: Run) -> None:
    async def program() -> None:
        async with connected() as (connection, peer):
            peer.send(b"last")
            peer.close()
            assert await connection.receive() == b"last"
            assert await connection.receive() == b""
        async with connected() as (connection, peer):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DROP)
            peer.close()
            with pytest.raises(ConnectionResetError):
                await connection.receive()
            connection.send(b"is dropped")

    run(program())


def test_a_farewell_takes_no_longer_than_it_may(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)

    async def program() -> None:
        async with connected() as (connection, _):
            for _ in range(8):
                connection.send(MEBIBYTE, 1)
            await asyncio.sleep(0.01)
            assert connection.queued_bytes
            async with asyncio.timeout(1):
                await connection.aclose()
            assert connection.queued_bytes == 0

    run(program())


def test_who_parts_says_so_and_reads_until_the_other_end_has_closed(run: Run) -> None:
    """Were it closed with something unread, what is under way to the other end would be lost."""

    async def program() -> None:
        async with connected() as (connection, peer):
            connection.send(b"last")
            await asyncio.sleep(0)
            parting = asyncio.create_task(connection.part())
            reading = asyncio.create_task(connection.receive())
            assert await take(peer, 4) == b"last"
            assert await asyncio.get_running_loop().sock_recv(peer, 1) == b"", "nothing more comes"
            peer.send(b"unread")
            assert await reading == b"unread"
            assert not parting.done()
            peer.close()
            await parting

    run(program())


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", "connection refused"),
        ("localhost", "connection refused"),
        ("nobody.invalid", "no such host"),
    ],
)
def test_a_call_that_fails_says_why_in_the_words_of_the_other_faces(
    run: Run, host: str, words: str
) -> None:
    async def program() -> None:
        with pytest.raises(ConnectionFailed, match=f"{host}:1: {words}"):
            await call(Address(host, 1), credentials=None)

    run(program())


def test_of_a_host_with_several_addresses_one_reason_is_told() -> None:
    refused = (
        f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] Connect call failed ('::1', 1, 0, 0), "
        f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.1', 1)"
    )
    assert not_reached(Address("localhost", 1), OSError(refused)).reason == "connection refused"
    assert not_reached(Address("localhost", 1), OSError("odd")).reason == "odd"


@pytest.mark.parametrize("role", [Role.BROKER, Role.CLIENT])
def test_only_a_broker_is_talked_to(run: Run, issue: Issue, role: Role) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([ALPN])
    there, me = load_identity(issue(role)), load_identity(issue(Role.CLIENT))
    context.load_verify_locations(cafile=there.authority)
    context.load_cert_chain(there.certificate, there.key)

    async def program() -> None:
        server = await asyncio.start_server(_end, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            calling = call(Address("127.0.0.1", port, tls=True), Credentials(me))
            if role is Role.BROKER:
                connection = await calling
                assert connection.identity is not None
                assert connection.identity.uid == there.uid
                assert await connection.receive() == b"hello"
                assert await connection.receive() == b""
                await connection.aclose()
            else:
                with pytest.raises(
                    ConnectionFailed, match="unsuitable certificate purpose"
                ) as caught:
                    await calling
                assert caught.value.is_final
            await asyncio.sleep(0.05)  # for the server's end to close

    run(program())


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize(("remote", "is_exposed"), [("127.0.0.1", False), ("192.0.2.1", True)])
def test_a_plain_connection_to_another_host_is_exposed(
    run: Run, monkeypatch: pytest.MonkeyPatch, remote: str, is_exposed: bool
) -> None:
    async def program() -> None:
        async with connected() as (connection, _):
            assert not connection.is_exposed
            below = connection._transport
            monkeypatch.setattr(connection, "_transport", _Elsewhere(remote))
            assert connection.is_exposed is is_exposed
            monkeypatch.setattr(connection, "_transport", below)

    run(program())


class _Elsewhere:
    """The transport of a connection to another host."""

    def __init__(self, remote: str) -> None:
        self._remote = remote

    def get_extra_info(self, name: str) -> tuple[str, int]:
        assert name == "peername"
        return self._remote, 9470


def test_the_first_to_end_ends_all_and_its_error_comes_out(run: Run) -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")

    async def fail() -> None:
        raise LookupError("of mine")

    async def finish() -> None:
        ended.append("finish")

    async def program() -> None:
        await first_of(wait(), finish())
        assert ended == ["finish", "wait"]
        with pytest.raises(LookupError, match="of mine"):
            await first_of(wait(), fail())
        assert ended == ["finish", "wait", "wait"]

    run(program())
