"""Express connections are read first, whatever order the scheduler has in mind."""

from __future__ import annotations

import socket

import trio
from trio.testing import MockClock

from overlay.net.precedence import LONGEST_SECONDS, PASSES, Precedence


async def test_a_normal_reader_waits_until_express_ones_have_read(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    order: list[str] = []

    async def express() -> None:
        await trio.lowlevel.wait_readable(here)
        here.recv(10)
        order.append("express")

    async def normal() -> None:
        await precedence.give_way()
        order.append("normal")

    for _ in range(20):  # trio's order of tasks is random
        order.clear()
        there.send(b"1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(normal)
            nursery.start_soon(express)
            nursery.start_soon(normal)
        assert order[0] == "express"
    assert precedence.given_way > 0


async def test_nobody_waits_for_express_connections_that_are_quiet(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    precedence = Precedence()
    precedence.enter(sockets[0].fileno())
    await precedence.give_way()
    assert precedence.given_way == 0


async def test_nobody_waits_for_ever(
    sockets: tuple[socket.socket, socket.socket], mock_clock: MockClock
) -> None:
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    there.send(b"1")
    await precedence.give_way()
    assert precedence.given_way == PASSES


async def test_where_rounds_take_long_fewer_are_waited_for(
    sockets: tuple[socket.socket, socket.socket], mock_clock: MockClock
) -> None:
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    there.send(b"1")

    async def busy() -> None:
        while True:
            mock_clock.jump(LONGEST_SECONDS / 4)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy)
        begun = trio.current_time()
        await precedence.give_way()
        assert trio.current_time() - begun <= 1.5 * LONGEST_SECONDS
        nursery.cancel_scope.cancel()
    assert 0 < precedence.given_way < PASSES


async def test_one_that_has_left_is_like_any_other(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    precedence.enter(here.fileno())
    precedence.leave(here.fileno())
    precedence.leave(here.fileno())
    there.send(b"1")
    await precedence.give_way()
    assert precedence.given_way == 0


async def test_a_socket_that_was_closed_holds_nobody_up(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    there.close()
    here.close()
    await precedence.give_way()
    assert precedence.given_way == 0
