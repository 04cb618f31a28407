"""The queue before a stream: few writes, in order, never more than the limit."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from overlay.net.connection import Connection
from overlay.queues.outbox import FINISH_SECONDS, WRITE_BYTES
from overlay.wire.fragments import SLICE_BYTES
from overlay.wire.frames import CONTROL, frame

DEADLINE_SECONDS = 5


class Gate(trio.abc.Stream):
    """A stream that notes what is written, and lets it pass only while it is open."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.opened = trio.Event()
        self.opened.set()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.opened.wait()
        self.writes.append(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self.opened.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return b""

    async def aclose(self) -> None:
        raise trio.BrokenResourceError

    def shut(self) -> None:
        self.opened = trio.Event()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def connection(gate: Gate) -> Connection:
    return Connection(gate, secure=False, limit_bytes=1000)


async def test_many_sends_become_one_write(
    gate: Gate, connection: Connection, nursery: trio.Nursery
) -> None:
    nursery.start_soon(connection.write_forever)
    await trio.testing.wait_all_tasks_blocked()
    parts = [bytes([n]) for n in range(200)]
    for part in parts:
        connection.send(part + b".")
    assert connection.queued_bytes == 400
    await trio.testing.wait_all_tasks_blocked()
    assert gate.writes == [b"".join(part + b"." for part in parts)]
    assert connection.queued_bytes == 0
    connection.finish()


async def test_what_is_sent_while_a_write_is_under_way_goes_with_the_next(
    gate: Gate, connection: Connection, nursery: trio.Nursery
) -> None:
    nursery.start_soon(connection.write_forever)
    gate.shut()
    connection.send(b"first")
    await trio.testing.wait_all_tasks_blocked()
    connection.send(b"second")
    connection.send(b"third")
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert gate.writes == [b"first", b"secondthird"]
    connection.finish()


async def test_a_write_is_not_larger_than_it_must_be(gate: Gate) -> None:
    connection = Connection(gate, secure=False, limit_bytes=10 * WRITE_BYTES)
    part = b"x" * (WRITE_BYTES // 4)
    for _ in range(10):
        connection.send(part)
    connection.finish()
    await connection.write_forever()
    assert [len(write) for write in gate.writes] == [WRITE_BYTES, WRITE_BYTES, WRITE_BYTES // 2]


async def test_the_queue_is_bounded(gate: Gate, connection: Connection) -> None:
    connection.send(b"x" * 1000)
    assert not connection.overflowed
    connection.send(b"y")
    assert connection.overflowed
    assert connection.queued_bytes == 0
    connection.send(b"z" * 10)
    assert connection.queued_bytes == 0
    await connection.write_forever()
    assert gate.writes == [], "what was lost must not leave a hole in the stream"


async def test_finish_sends_what_is_queued_and_takes_no_more(
    gate: Gate, connection: Connection
) -> None:
    connection.send(b"last")
    connection.finish()
    connection.send(b"too late")
    await connection.write_forever()
    assert gate.writes == [b"last"]


async def test_finish_does_not_wait_forever(
    gate: Gate, connection: Connection, autojump_clock: trio.testing.MockClock
) -> None:
    gate.shut()
    connection.send(b"stuck")
    connection.finish()
    start = trio.current_time()
    with trio.fail_after(60):
        await connection.write_forever()
    assert trio.current_time() - start == FINISH_SECONDS


async def test_abort_ends_a_write_that_is_stuck(
    gate: Gate, connection: Connection, autojump_clock: trio.testing.MockClock
) -> None:
    gate.shut()
    connection.send(b"stuck")
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.write_forever)
        await trio.testing.wait_all_tasks_blocked()
        connection.abort()
    assert trio.current_time() == start
    assert gate.writes == []
    assert connection.queued_bytes == 0
    assert connection.is_torn


async def test_abort_between_frames_leaves_something_to_say(
    gate: Gate, connection: Connection, nursery: trio.Nursery
) -> None:
    nursery.start_soon(connection.write_forever)
    connection.send(b"whole")
    await trio.testing.wait_all_tasks_blocked()
    connection.send(b"not begun")
    connection.abort()
    assert not connection.is_torn
    connection.abort()
    assert gate.writes == [b"whole"]


async def test_abort_between_slices_does_not() -> None:
    connection = Connection(Gate(), secure=False, limit_bytes=10**6)
    connection.send(frame(CONTROL, b"x" * 2 * SLICE_BYTES))
    connection.outbox.take(0)  # as for a write that the kernel took whole
    connection.abort()
    assert connection.is_torn


async def test_room_comes_when_the_queue_is_half_empty(
    gate: Gate, connection: Connection, nursery: trio.Nursery
) -> None:
    gate.shut()
    connection.send(b"x" * 501)
    assert connection.crowded
    waited = trio.Event()

    async def wait() -> None:
        await connection.room()
        waited.set()

    nursery.start_soon(wait)
    nursery.start_soon(connection.write_forever)
    await trio.testing.wait_all_tasks_blocked()
    assert not waited.is_set()
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert waited.is_set()
    assert not connection.crowded
    connection.finish()


async def test_all_who_wait_for_room_get_it(
    gate: Gate, connection: Connection, nursery: trio.Nursery
) -> None:
    connection.send(b"x" * 600)
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as waiters:
            for _ in range(3):
                waiters.start_soon(connection.room)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(connection.write_forever)
    connection.finish()


@pytest.mark.parametrize("end", ["finish", "abort", "overflow"])
async def test_nobody_waits_for_room_in_a_connection_that_ends(
    connection: Connection, end: str
) -> None:
    connection.send(b"x" * 600)
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as waiters:
            waiters.start_soon(connection.room)
            await trio.testing.wait_all_tasks_blocked()
            if end == "overflow":
                connection.send(b"x" * 600)
            else:
                getattr(connection, end)()


async def test_a_plain_connection_has_no_cipher(connection: Connection) -> None:
    assert connection.cipher is None
    assert not connection.secure


async def test_many_may_hold_back_for_one_reader_at_a_time(
    gate: Gate, connection: Connection, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Each takes the time it has waited off what the reader has earned: less than none is left."""
    gate.shut()
    nursery.start_soon(connection.write_forever)
    connection.send(bytes(900))
    assert connection.crowded
    for _ in range(3):
        async with trio.open_nursery() as waiting:
            for _ in range(5):
                waiting.start_soon(connection.hold)
    assert not connection.may_hold
    nursery.cancel_scope.cancel()


async def test_who_reads_on_after_it_was_closed_is_told_and_harms_nobody() -> None:
    """The kernel knows no such file any more; that one reader must not keep all others waiting."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with trio.fail_after(DEADLINE_SECONDS):
        for _ in range(2):
            far = await trio.open_tcp_stream("127.0.0.1", port)
            near = await listener.accept()
            connection = Connection(near, secure=False, limit_bytes=1000)
            await far.send_all(b"word")
            assert await connection.receive() == b"word"
            await near.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await connection.receive()
            await far.aclose()
    await listener.aclose()
