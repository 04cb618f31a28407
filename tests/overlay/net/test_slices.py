"""Work in slices: others have their turn in between, and what is express has it at once."""

from __future__ import annotations

import socket
from collections.abc import Generator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from overlay.net.precedence import Precedence
from overlay.net.slices import LOOK_SECONDS, SLICE_SECONDS, Sliced
from overlay.net.turn import Turn

STEPS = 1000
STEP_SECONDS = LOOK_SECONDS / 5


class Work:
    """Steps that take a while each, and what happened in between."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self.done = 0
        self.turns = 0

    def steps(self) -> Generator[None, None, str]:
        for _ in range(STEPS):
            self._clock.jump(STEP_SECONDS)
            self.done += 1
            yield
        return "all"

    def end_turn(self) -> None:
        self.turns += 1


async def test_long_work_is_cut_into_turns(mock_clock: MockClock) -> None:
    work = Work(mock_clock)
    seen: list[int] = []

    async def other() -> None:
        while work.done < STEPS:
            seen.append(work.done)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await Sliced(work.steps(), Precedence()).finish(Turn(), work.end_turn) == "all"
    slices = STEPS * STEP_SECONDS / SLICE_SECONDS
    assert slices <= work.turns <= slices + 2
    assert len(seen) >= slices - 2  # trio's order of tasks is random


@pytest.mark.parametrize("is_express", [True, False])
async def test_a_normal_turn_ends_when_something_express_comes(
    is_express: bool, mock_clock: MockClock, sockets: tuple[socket.socket, socket.socket]
) -> None:
    work = Work(mock_clock)
    here, there = sockets
    precedence = Precedence()
    precedence.enter(here.fileno())
    read_after = 0

    def steps() -> Generator[None, None, str]:
        for step in work.steps():
            if work.done == STEPS // 50:
                there.send(b"1")
            yield step
        return "all"

    async def express() -> None:
        nonlocal read_after
        await trio.lowlevel.wait_readable(here)
        here.recv(10)
        read_after = work.done

    async with trio.open_nursery() as nursery:
        nursery.start_soon(express)
        await wait_all_tasks_blocked()
        who = None if is_express else precedence  # express readers give way to nobody
        await Sliced(steps(), who).finish(Turn(), work.end_turn)
    waited = (read_after - STEPS // 50) * STEP_SECONDS
    if is_express:
        assert waited > SLICE_SECONDS / 2
    else:
        assert waited <= LOOK_SECONDS + 2 * STEP_SECONDS


async def test_what_the_work_raises_ends_it() -> None:
    def steps() -> Generator[None, None, None]:
        yield
        raise ValueError("no")

    turn = Turn()
    with pytest.raises(ValueError, match="no"):
        await Sliced(steps(), None).finish(turn, lambda: None)
    assert not turn.is_open
