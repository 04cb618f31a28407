"""Plain sockets: what a turn has queued is with the kernel when the turn is over."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from trio import socket

from overlay.net.connection import BROKEN, Connection
from overlay.net.turn import Turn
from overlay.wire.codec import FrameReader
from overlay.wire.frames import EVENT, frame

LIMIT = 64 * 1024 * 1024
DEADLINE_SECONDS = 20


@asynccontextmanager
async def pair(turn: Turn) -> AsyncIterator[tuple[Connection, trio.SocketStream]]:
    """A connection whose writer is parked, and the other end."""
    here, there = socket.socketpair()
    near, far = trio.SocketStream(here), trio.SocketStream(there)
    connection = Connection(near, secure=False, limit_bytes=LIMIT, turn=turn)
    async with near, far, trio.open_nursery() as nursery:
        nursery.start_soon(connection.write_forever)
        await trio.testing.wait_all_tasks_blocked()
        yield connection, far
        nursery.cancel_scope.cancel()


async def test_at_the_end_of_a_turn_all_of_it_is_written_without_a_task_switch() -> None:
    turn = Turn()
    async with pair(turn) as (connection, far):
        with turn:
            for _ in range(3):
                connection.send(frame(EVENT, b"1"), 1)
            with pytest.raises(BlockingIOError):
                far.socket._sock.recv(1)  # type: ignore[attr-defined]
        # Not a checkpoint has passed since.
        assert far.socket._sock.recv(100) == 3 * frame(EVENT, b"1")  # type: ignore[attr-defined]
        assert connection.queued_bytes == 0


async def test_who_has_express_events_is_written_to_first(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Turn()
    order: list[str] = []
    async with pair(turn) as (normal, _), pair(turn) as (express, _):
        for name, connection in (("normal", normal), ("express", express)):
            monkeypatch.setattr(connection, "write_now", partial(order.append, name))
        with turn:
            normal.send(frame(EVENT, b"1"), 1)
            express.send_express(bytearray(frame(EVENT, bytes(4))), 6)
    assert order == ["express", "normal"]


async def test_outside_a_turn_the_writer_does_it() -> None:
    async with pair(Turn()) as (connection, far):
        connection.send(frame(EVENT, b"1"), 1)
        with trio.fail_after(DEADLINE_SECONDS):
            assert await far.receive_some() == frame(EVENT, b"1")


async def test_what_the_kernel_does_not_take_follows_in_order() -> None:
    turn = Turn()
    rng = random.Random(7)
    bodies = [rng.randbytes(rng.choice([0, 10, 3_000, 300_000])) for _ in range(200)]
    async with pair(turn) as (connection, far), trio.open_nursery() as nursery:
        reader = FrameReader()
        found: list[bytes] = []

        async def read() -> None:
            while len(found) < len(bodies):
                reader.feed(await far.receive_some(rng.randrange(1, 100_000)))
                found.extend(body for _, body in reader.frames())

        with trio.fail_after(DEADLINE_SECONDS):
            for index, body in enumerate(bodies):
                with turn:
                    connection.send(frame(EVENT, body), 1)
                if index == 100:
                    assert connection.queued_bytes > 1_000_000, "nobody has read yet"
                    nursery.start_soon(read)
                await trio.lowlevel.checkpoint()
            await connection.room()
            while len(found) < len(bodies):
                await trio.testing.wait_all_tasks_blocked()
        assert found == bodies
        assert connection.queued_bytes == 0
        assert connection.sent_bytes >= sum(map(len, bodies))


async def test_one_that_is_broken_breaks_nobody_elses_turn() -> None:
    turn = Turn()
    async with pair(turn) as (fine, far):
        here, there = socket.socketpair()
        near = trio.SocketStream(here)
        connection = Connection(near, secure=False, limit_bytes=LIMIT, turn=turn)
        ended = trio.Event()

        async def write() -> None:
            with pytest.raises(BROKEN):
                await connection.write_forever()
            ended.set()

        async with near, trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked()
            there.close()
            with turn:
                connection.send(frame(EVENT, b"lost"), 1)
                fine.send(frame(EVENT, b"1"), 1)
            with trio.fail_after(DEADLINE_SECONDS):
                await ended.wait()
                assert await far.receive_some() == frame(EVENT, b"1")


async def test_bytes_are_received_as_they_come_and_the_end_is_told() -> None:
    async with pair(Turn()) as (connection, far):
        with trio.fail_after(DEADLINE_SECONDS):
            await far.send_all(b"x" * 1000)
            assert await connection.receive(600) == b"x" * 600
            assert await connection.receive(600) == b"x" * 400
            async with trio.open_nursery() as nursery:
                nursery.start_soon(far.send_all, b"later")
                assert await connection.receive(600) == b"later"
            await far.send_eof()
            assert await connection.receive(600) == b""


async def test_the_kernel_knows_how_long_a_connection_takes() -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with listener:
        near = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        far = await listener.accept()
        connection = Connection(near, secure=False, limit_bytes=LIMIT)
        async with near, far:
            await near.send_all(b"1")
            await far.send_all(await far.receive_some())
            await near.receive_some()
            assert 0 < connection.one_way_us < 1_000_000
        assert connection.one_way_us == 0, "closed"


async def test_what_is_no_tcp_says_nothing() -> None:
    async with pair(Turn()) as (connection, _):
        assert connection.one_way_us == 0
