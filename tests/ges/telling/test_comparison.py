"""Ring neighbours compare what they hold, with few messages."""

from __future__ import annotations

from ges.telling.comparison import AFTER_CHANGE_NS, LARGER_NS, PERIOD_NS, Comparison
from ges.wire.telling_messages import Held, HeldDigest
from overlay.ids import Nanos
from overlay.machine import Effect, Send

A, B = "a" * 32, "b" * 32


class Thing:
    """Something that is held."""

    def __init__(self, digest: int) -> None:
        self.digest = digest
        self.differed: list[str] = []

    def on_differs(self, uid: str, now: Nanos) -> list[Effect]:
        self.differed.append(uid)
        return []


def sent_in(comparisons: dict[str, Comparison], start: Nanos, span: Nanos) -> list[tuple[str, str]]:
    """Let time pass; return who told whom. What is told arrives at once."""
    told, now = [], start
    while now <= start + span:
        for uid, comparison in comparisons.items():
            for effect in comparison.handle_timers(now):
                assert isinstance(effect, Send)
                assert isinstance(effect.message, Held)
                told.append((uid, effect.uid))
                comparisons[effect.uid].on_held(uid, effect.message, now)
        now = min(due for c in comparisons.values() if (due := c.next_deadline()) is not None)
    return told


def pair() -> tuple[dict[str, Comparison], dict[str, Thing]]:
    comparisons = {uid: Comparison(uid) for uid in (A, B)}
    things = {uid: Thing(5) for uid in (A, B)}
    for uid, other in ((A, B), (B, A)):
        comparisons[uid].register(2, things[uid])
        comparisons[uid].set_neighbours([other], 0)
    return comparisons, things


def test_two_that_hold_the_same_need_one_message_in_ten_seconds() -> None:
    comparisons, things = pair()
    told = sent_in(comparisons, 0, AFTER_CHANGE_NS + 9 * PERIOD_NS)
    assert told == [(A, B)] * 10
    assert things[A].differed == things[B].differed == []


def test_a_difference_is_found_by_both_if_need_be_and_looked_at_again_soon() -> None:
    comparisons, things = pair()
    things[A].digest = 6
    sent_in(comparisons, 0, AFTER_CHANGE_NS)
    assert things[B].differed == [A]
    assert comparisons[B].counters["held_differed"] == 1
    assert comparisons[B].next_deadline() == 2 * AFTER_CHANGE_NS + LARGER_NS


def test_a_change_is_told_within_a_second_and_a_half() -> None:
    comparisons, _ = pair()
    sent_in(comparisons, 0, AFTER_CHANGE_NS)
    changed = 3 * AFTER_CHANGE_NS
    comparisons[B].touch(changed)
    assert comparisons[B].next_deadline() == changed + AFTER_CHANGE_NS + LARGER_NS
    comparisons[B].touch(changed + 5)
    assert comparisons[B].next_deadline() == changed + AFTER_CHANGE_NS + LARGER_NS


def test_what_is_held_elsewhere_alone_is_no_difference() -> None:
    comparisons, things = pair()
    other = Held((HeldDigest(2, 5), HeldDigest(9, 1)))
    assert comparisons[A].on_held(B, other, 0) == []
    assert things[A].differed == []
    assert comparisons[A].counters.total() == 0


def test_who_is_no_neighbour_any_more_is_told_nothing() -> None:
    comparisons, _ = pair()
    comparisons[A].set_neighbours([], 5)
    assert comparisons[A].handle_timers(10 * PERIOD_NS) == []
    assert comparisons[A].next_deadline() is None
