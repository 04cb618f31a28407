"""The timer table, against a model of it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from overlay.machine import TimerTable
from tests.helpers.examples import examples

KEYS = st.sampled_from(["a", "b", "c", "d"])
TIMES = st.integers(0, 50)


class Timers(RuleBasedStateMachine):
    """Deadlines expire by (deadline, order in which they were set), one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.table: TimerTable[str] = TimerTable()
        self.armed: dict[str, tuple[int, int]] = {}
        self.count = 0

    @rule(key=KEYS, at=TIMES)
    def set(self, key: str, at: int) -> None:
        self.count += 1
        self.armed[key] = (at, self.count)
        self.table.set(key, at)

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.armed.pop(key, None)
        self.table.cancel(key)

    @precondition(lambda self: self.armed)
    @rule(data=st.data(), later=TIMES)
    def take_and_put_back(self, data: st.DataObject, later: int) -> None:
        """What was taken comes up in the turn it had, even if it is for another time now."""
        key = data.draw(st.sampled_from(sorted(self.armed)))
        taken = self.table.take(key)
        assert taken is not None
        assert taken[0] == self.armed[key][0]
        assert self.table.take(key) is None
        at = taken[0] + later
        self.table.set(key, at, taken[1])
        self.armed[key] = at, self.armed[key][1]

    @rule(now=TIMES)
    def pop(self, now: int) -> None:
        due = sorted((when, key) for key, when in self.armed.items() if when[0] <= now)
        expected = due[0][1] if due else None
        assert self.table.pop_expired(now) == expected
        if expected is not None:
            del self.armed[expected]

    @rule(by=TIMES)
    def shift(self, by: int) -> None:
        self.armed = {key: (at + by, count) for key, (at, count) in self.armed.items()}
        self.table.shift(by)

    @precondition(lambda self: len(self.armed) > 2)
    @rule()
    def clear(self) -> None:
        self.armed.clear()
        self.table.clear()

    @invariant()
    def agrees(self) -> None:
        deadlines = [at for at, _ in self.armed.values()]
        assert self.table.next_deadline() == min(deadlines, default=None)
        first = min(self.armed, key=lambda key: self.armed[key], default=None)
        assert self.table.first() == first
        assert all(self.table.deadline(key) == at for key, (at, _) in self.armed.items())
        assert [key for key in "abcd" if key in self.table] == sorted(self.armed)


TestTimers = Timers.TestCase
TestTimers.settings = settings(max_examples=examples(60), stateful_step_count=40)


def test_equal_deadlines_expire_in_the_order_they_were_set() -> None:
    table: TimerTable[str] = TimerTable()
    for key in "dacb":
        table.set(key, 5)
    table.set("a", 5)  # set again: now the last
    assert [table.pop_expired(5) for _ in range(5)] == ["d", "c", "b", "a", None]


def test_a_turn_is_that_of_the_moment_at_which_it_was_taken() -> None:
    table: TimerTable[str] = TimerTable()
    table.set("a", 5)
    turn = table.turn()
    table.set("c", 5)
    table.set("b", 5, turn)
    assert [table.pop_expired(5) for _ in range(3)] == ["a", "b", "c"]


def test_a_timer_set_again_does_not_expire_at_its_earlier_deadline() -> None:
    table: TimerTable[str] = TimerTable()
    table.set("a", 1)
    table.set("a", 9)
    assert table.pop_expired(8) is None
    assert table.next_deadline() == 9


def test_a_timer_set_ten_thousand_times_takes_no_room() -> None:
    table: TimerTable[str] = TimerTable()
    for key in "abcde":
        table.set(key, 1)
    for at in range(10_000):
        table.set("a", at)
    assert len(table._heap) < 100
    assert [table.pop_expired(10_000) for _ in range(6)] == ["b", "c", "d", "e", "a", None]
