"""An alarm in virtual time: it goes off at each deadline, once, also by a clock that is early."""

from __future__ import annotations

import trio
import trio.testing
from trio.testing import MockClock

from overlay.ids import NANOS_PER_SECOND, Nanos, nanos
from overlay.net.alarm import Alarm

HAIR = 1  #: nanoseconds that a clock may show too little after a sleep


class Kitchen:
    """Things that are due at some time, with a clock that may show a little less than it is."""

    def __init__(self, *deadlines: float, early: Nanos = 0) -> None:
        self.due = [nanos(seconds) for seconds in deadlines]
        self.calls: list[tuple[float, Nanos]] = []  #: when expired in fact, and the time handed in
        self.alarm = Alarm(self.next_deadline, self.expire, now=self.now)
        self._early = early

    def now(self) -> Nanos:
        return round(trio.current_time() * NANOS_PER_SECOND) - self._early

    def next_deadline(self) -> Nanos | None:
        return min(self.due, default=None)

    def expire(self, now: Nanos) -> None:
        self.calls.append((trio.current_time(), now))
        self.due = [deadline for deadline in self.due if deadline > now]

    def put(self, seconds: float) -> None:
        self.due.append(nanos(seconds))
        self.alarm.look()


async def test_it_goes_off_at_each_deadline(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    kitchen = Kitchen(3, 1, 2)
    nursery.start_soon(kitchen.alarm.run)
    await trio.sleep(10)
    assert kitchen.calls == [(1, nanos(1)), (2, nanos(2)), (3, nanos(3))]
    assert not kitchen.due


async def test_it_waits_until_there_is_a_deadline(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    kitchen = Kitchen()
    nursery.start_soon(kitchen.alarm.run)
    await trio.sleep(5)
    kitchen.put(7)
    await trio.sleep(5)
    assert kitchen.calls == [(7, nanos(7))]


async def test_a_deadline_that_is_sooner_is_kept_and_a_later_one_wakes_nobody(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    kitchen = Kitchen(7)
    nursery.start_soon(kitchen.alarm.run)
    await trio.sleep(1)
    kitchen.put(9)
    kitchen.put(3)
    await trio.sleep(3)
    assert kitchen.calls == [(3, nanos(3))]
    await trio.sleep(10)
    assert [when for when, _ in kitchen.calls] == [3, 7, 9]


async def test_a_clock_that_is_early_makes_nothing_late_and_nothing_come_twice(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """What is due is compared with the deadline, not with a clock that shows a hair less."""
    kitchen = Kitchen(early=0)
    nursery.start_soon(kitchen.alarm.run)
    kitchen.put(1)
    await trio.testing.wait_all_tasks_blocked()
    kitchen._early = HAIR  # from now on: the sleep is as long as it should be
    await trio.sleep(2)
    assert kitchen.calls == [(1, nanos(1))]


async def test_what_is_overdue_is_done_at_once_and_others_have_a_turn_in_between(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    await trio.sleep(5)
    kitchen = Kitchen(1)
    turns = 0

    def expire(now: Nanos) -> None:
        kitchen.calls.append((trio.current_time(), now))  # and it stays due

    kitchen.alarm = Alarm(kitchen.next_deadline, expire, now=kitchen.now)
    with trio.move_on_after(1):
        nursery.start_soon(kitchen.alarm.run)
        while len(kitchen.calls) < 10:
            turns += 1
            await trio.lowlevel.checkpoint()
    assert turns >= 10
    assert set(kitchen.calls) == {(5, nanos(5))}
    nursery.cancel_scope.cancel()
