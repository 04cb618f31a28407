"""The window over real sockets: who waits for room goes on when an acknowledgement comes."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from overlay.net.connection import Connection
from overlay.net.turn import Turn
from overlay.queues import resend
from overlay.queues.resend import Ack, Outgoing

ITEM = b"x" * 17_000  #: too long to be gathered with others


async def drain(end: trio.SocketStream) -> None:
    while await end.receive_some(65536):
        pass


async def test_who_waits_for_room_goes_on_once_the_window_opens(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    monkeypatch.setattr(resend, "WINDOW_FRAMES", 10)
    here, there = trio.socket.socketpair()
    turn = Turn()
    connection = Connection(
        trio.SocketStream(here), secure=False, limit_bytes=40 * len(ITEM), turn=turn
    )
    connection.outbox.stream = stream = Outgoing(1, 1, 1)
    nursery.start_soon(connection.write_forever)
    nursery.start_soon(drain, trio.SocketStream(there))
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(32):
        connection.send(ITEM, 1)
    with trio.fail_after(5):
        while stream.next < 10:
            await trio.testing.wait_all_tasks_blocked()
    assert (stream.next, connection.crowded) == (10, True), "the window is full"
    with trio.fail_after(5):
        async with trio.open_nursery() as waiting:
            waiting.start_soon(connection.room)
            await trio.testing.wait_all_tasks_blocked()
            with turn:  # as the reader that meets the acknowledgement
                stream.on_ack(Ack(1, 10))
                connection.go_on()
    assert stream.next == 20
    nursery.cancel_scope.cancel()
    here.close()
    there.close()
