"""Who waits for which queue, and for how long."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from overlay.net.holding_back import hold_back
from overlay.net.turn import Turn
from overlay.queues.pace import WAIT_SECONDS, Allowance, Pace, Standing

FAST, NEW, SLOW = Standing.FAST, Standing.NEW, Standing.SLOW
LIMIT = 16 * 1024 * 1024
SECONDS = 0.1  #: until a queue has room that gets some


class Queue:
    """A crowded queue: of a subscriber of that standing, or of a link (None)."""

    def __init__(
        self, standing: Standing | None, *, room_in: float = 1000.0, pressed: bool = True
    ) -> None:
        self.crowded = True
        self.pressed = pressed
        self.has_express = False
        self.pace: Pace | None = None if standing is None else pace_of(standing)
        self.may_hold = True
        self._room_in = room_in

    def write_now(self) -> None:
        raise AssertionError

    async def hold(self) -> None:
        await self.room()

    async def room(self) -> None:
        await trio.sleep(self._room_in)
        self.crowded = False


def pace_of(standing: Standing) -> Pace:
    """Return the pace of a reader that has stood so for a second."""
    pace, now = Pace(LIMIT), trio.current_time()
    if standing is not NEW:
        pace.took(0, 0, LIMIT, now - 1.0, is_full=True)
        pace.took(LIMIT if standing is FAST else 0, 0, LIMIT, now, is_full=True)
    assert pace.standing(now) is standing
    return pace


async def waited(*crowded: Queue, fed: bool = False, allowance: Allowance | None = None) -> float:
    """Return for how long a publisher waits that has fed these, and one that has room."""
    turn = Turn()
    turn.crowded.update(crowded)
    if fed:
        with_room = Queue(NEW)
        with_room.crowded = False
        turn.fed.add(with_room)
    began = trio.current_time()
    await hold_back(turn, allowance or Allowance())
    assert not turn.crowded
    assert not turn.fed
    return trio.current_time() - began


async def test_nobody_waits_for_a_slow_one(autojump_clock: MockClock) -> None:
    assert await waited(Queue(SLOW)) == 0
    assert await waited(Queue(SLOW), fed=True) == 0
    assert await waited(*(Queue(SLOW) for _ in range(10))) == 0


async def test_beside_slow_ones_a_fast_one_is_waited_for(autojump_clock: MockClock) -> None:
    slow = [Queue(SLOW) for _ in range(10)]
    assert await waited(*slow, Queue(FAST, room_in=SECONDS)) == pytest.approx(SECONDS)


async def test_a_fast_one_is_waited_for_as_long_as_it_has_earned(autojump_clock: MockClock) -> None:
    queue = Queue(FAST)
    assert queue.pace is not None
    earned = queue.pace.left(trio.current_time())
    allowance = Allowance()
    allowance.spend(WAIT_SECONDS)
    assert await waited(queue, allowance=allowance) == pytest.approx(earned, abs=0.2)


async def test_of_fast_ones_the_fastest_is_waited_for_and_the_others_within_the_allowance(
    autojump_clock: MockClock,
) -> None:
    queues = Queue(FAST, room_in=SECONDS), Queue(FAST)
    allowance = Allowance()
    assert await waited(*queues, allowance=allowance) == pytest.approx(SECONDS + WAIT_SECONDS)
    queues = Queue(FAST, room_in=SECONDS), Queue(FAST)
    short = await waited(*queues, allowance=allowance)
    assert short == pytest.approx(SECONDS, abs=WAIT_SECONDS / 4), "the allowance is used up"


async def test_where_another_has_room_a_fast_one_is_waited_for_within_the_allowance(
    autojump_clock: MockClock,
) -> None:
    allowance = Allowance()
    assert await waited(Queue(FAST), fed=True, allowance=allowance) == pytest.approx(WAIT_SECONDS)
    assert await waited(Queue(FAST), fed=True, allowance=allowance) < WAIT_SECONDS / 4


async def test_beside_one_with_room_a_fast_one_is_not_waited_for_before_its_queue_is_a_quarter_full(
    autojump_clock: MockClock,
) -> None:
    assert await waited(Queue(FAST, pressed=False), fed=True) == 0
    first, other = Queue(FAST, room_in=SECONDS), Queue(FAST, pressed=False)
    assert await waited(first, other) == pytest.approx(SECONDS)


async def test_a_new_one_is_waited_for_within_the_allowance_and_not_where_another_has_room(
    autojump_clock: MockClock,
) -> None:
    assert await waited(Queue(NEW)) == pytest.approx(WAIT_SECONDS)
    assert await waited(Queue(NEW), Queue(NEW, room_in=SECONDS)) == pytest.approx(SECONDS)
    assert await waited(Queue(NEW), fed=True) == 0
    assert await waited(Queue(NEW), Queue(NEW, pressed=False)) == 0
    assert await waited(Queue(NEW), Queue(FAST, room_in=SECONDS)) == pytest.approx(SECONDS)


async def test_a_link_is_waited_for_whatever_subscribers_do(autojump_clock: MockClock) -> None:
    slow = [Queue(SLOW) for _ in range(3)]
    assert await waited(*slow, Queue(None, room_in=SECONDS), fed=True) == pytest.approx(SECONDS)


async def test_a_link_that_has_earned_nothing_is_not(autojump_clock: MockClock) -> None:
    queue = Queue(None)
    queue.may_hold = False
    assert await waited(queue) == 0


async def test_a_queue_that_has_room_again_is_not_waited_for(autojump_clock: MockClock) -> None:
    queue = Queue(FAST)
    queue.crowded = False
    assert await waited(queue, Queue(NEW)) == 0


async def test_that_a_link_has_room_takes_nothing_from_subscribers_here(
    autojump_clock: MockClock,
) -> None:
    relieved = Queue(None)
    relieved.crowded = False
    allowance = Allowance()
    allowance.spend(WAIT_SECONDS)
    assert await waited(relieved, Queue(FAST, room_in=SECONDS), allowance=allowance) > 0.9 * SECONDS
