"""Direct link or relay: when the way changes, and how rarely."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos
from overlay.multigraph.path_choice import (
    HOLD_NS,
    MAX_DOUBLINGS,
    SETTLE_NS,
    STEADY_NS,
    SUSTAIN_NS,
    Offer,
    Path,
    PathChoice,
)
from overlay.multigraph.relay_gain import DEFAULT_SHARE, DEFAULT_TIME_NS, RelayGain

KEY = ("b", LinkClass.NORMAL)
DIRECT: Path = ("a", "b")
VIA_C: Path = ("a", "c", "b")
VIA_D: Path = ("a", "d", "b")
MS = nanos(0.001)


class Bench:
    """The ways from ``a`` to ``b``: direct, over ``c``, over ``d``; None: gone. Costs in ms."""

    def __init__(self, gain: RelayGain | None = None) -> None:
        self.choice = PathChoice(gain)
        self.now: Nanos = nanos(100)
        self.decide(1)
        self.now += SETTLE_NS

    def decide(
        self, direct: float | None, via_c: float | None = None, via_d: float | None = None
    ) -> Nanos | None:
        costs = {
            path: round(cost * MS)
            for path, cost in ((DIRECT, direct), (VIA_C, via_c), (VIA_D, via_d))
            if cost is not None
        }
        best = min(costs, key=lambda path: costs[path], default=None)
        offer = Offer(
            DIRECT in costs,
            costs.get(DIRECT),
            best,
            costs[best] if best is not None else None,
            costs.get(self.way) if self.way != DIRECT else None,
        )
        return self.choice.decide(KEY, offer, self.now)

    @property
    def way(self) -> tuple[str, ...]:
        return self.choice.relay(KEY) or DIRECT

    def last(self, seconds: float, *costs: float | None) -> tuple[str, ...]:
        """Let these costs last; return the way in use at the end."""
        end = self.now + nanos(seconds)
        for _ in range(1000):
            due = self.decide(*costs)
            if due is None or due > end:
                break
            assert due > self.now
            self.now = due
        else:
            raise AssertionError("it comes to no end")
        self.now = end
        return self.way


def test_a_relay_that_is_really_faster_is_taken_after_a_while() -> None:
    bench = Bench()
    assert bench.decide(100, 10) == bench.now + SUSTAIN_NS
    assert bench.way == DIRECT
    assert bench.last(1, 100, 10) == VIA_C
    assert bench.choice.relays == {KEY: VIA_C}


def test_a_new_link_is_used_for_a_while_whatever_its_first_measurements_say() -> None:
    choice = PathChoice()
    now = nanos(100)
    offer = Offer(True, 100 * MS, VIA_C, 10 * MS, None)
    while (due := choice.decide(KEY, offer, now)) is not None and choice.relay(KEY) is None:
        now = due
    assert choice.relay(KEY) == VIA_C
    assert now == nanos(100) + SETTLE_NS


def test_a_relay_that_is_hardly_faster_is_not_taken() -> None:
    bench = Bench()
    assert bench.last(100, 10, 8.1) == DIRECT, "less than a fifth saved"
    assert bench.last(100, 1.05, 0.1) == DIRECT, "less than a millisecond saved"
    assert bench.decide(10, 8.1) is None
    assert bench.last(100, 5, 4) == VIA_C, "a fifth, and a millisecond"


def test_the_direct_link_is_taken_again_when_half_of_the_gain_is_lost() -> None:
    bench = Bench()
    bench.last(1, 100, 10)
    assert bench.last(100, 12, 10) == VIA_C, "a sixth and 2 ms are saved"
    assert bench.last(4, 11, 10) == DIRECT, "less than a tenth"
    bench.last(1.1, 100, 1)
    assert bench.last(100, 1.6, 1) == VIA_C, "0.6 ms"
    assert bench.last(7, 1.4, 1) == DIRECT, "0.4 ms"


def test_a_gain_that_wavers_between_half_and_whole_changes_nothing() -> None:
    for first, way in ((10.0, DIRECT), (100.0, VIA_C)):
        bench = Bench()
        bench.last(2, first, 10)
        before = bench.choice.changes
        for second in range(200):
            assert bench.last(1, 11.2 + second % 2, 10) == way
        assert bench.choice.changes == before


def test_the_gain_may_be_set() -> None:
    bench = Bench(RelayGain(0, 0))
    assert bench.last(100, 1, 1) == DIRECT
    assert bench.last(1, 1, 0.999) == VIA_C
    bench = Bench(RelayGain(0.5, 20 * MS))
    assert bench.last(100, 100, 51) == DIRECT
    assert bench.last(100, 30, 11) == DIRECT
    assert bench.last(1, 100, 50) == VIA_C


def test_a_relay_faster_for_a_moment_is_not_taken() -> None:
    bench = Bench()
    bench.decide(100, 10)
    bench.now += SUSTAIN_NS // 2
    bench.decide(10, 10)
    bench.now += SUSTAIN_NS // 2
    assert bench.decide(100, 10) is not None
    assert bench.way == DIRECT


def test_the_direct_link_is_taken_again_when_no_dearer_but_not_at_once() -> None:
    bench = Bench()
    bench.last(1, 100, 10)
    assert bench.last(1, 11, 10) == VIA_C
    assert bench.last(1, 9, 10) == VIA_C, "held"
    assert bench.last(3, 9, 10) == DIRECT
    assert bench.choice.relays == {}


def test_what_is_gone_is_left_at_once() -> None:
    bench = Bench()
    bench.decide(10, 30)
    bench.decide(None, 30)
    assert bench.way == VIA_C
    bench.decide(None, None, 40)
    assert bench.way == VIA_D
    bench.decide(None, 20, 40)
    assert bench.last(10, None, 20, 40) == VIA_C
    bench.decide(None, None, None)
    assert bench.way == DIRECT


def test_a_link_that_was_gone_is_taken_again_when_it_is_back() -> None:
    bench = Bench()
    bench.decide(None, 5)
    assert bench.way == VIA_C
    bench.decide(6, 5)
    assert bench.way == DIRECT, "a sixth saved is no real gain"
    bench.decide(None, 5)
    bench.decide(100, 5)
    assert bench.way == VIA_C, "a relay that is really faster is kept"
    assert bench.last(1, 6, 5) == VIA_C


def test_where_nothing_leads_there_is_no_relay() -> None:
    bench = Bench()
    assert bench.decide(None) is None
    assert bench.choice.relay(KEY) is None
    assert bench.choice.relays == {}


def test_a_link_not_measured_yet_is_used() -> None:
    choice = PathChoice()
    choice.decide(KEY, Offer(True, None, VIA_C, 10 * MS, None), 0)
    choice.decide(KEY, Offer(True, None, VIA_C, 10 * MS, None), SUSTAIN_NS)
    assert choice.relay(KEY) is None


def test_another_relay_must_be_really_faster_too() -> None:
    bench = Bench()
    bench.last(1, 100, 20, 90)
    assert bench.last(100, 100, 20, 18) == VIA_C
    assert bench.last(10, 100, 20, 5) == VIA_D


def test_each_return_that_does_not_last_makes_the_next_wait_longer() -> None:
    bench = Bench()
    waits = []
    for _ in range(8):
        bench.last(1.1, 100, 10)
        assert bench.way == VIA_C
        start = bench.now
        while bench.way == VIA_C:
            bench.last(0.5, 5, 10)
        waits.append(round((bench.now - start) / HOLD_NS))
    assert waits == [1, 2, 4, 8, 16, 32, 32, 32]
    bench.last(STEADY_NS / NANOS_PER_SECOND, 5, 10)
    bench.last(1.1, 100, 10)
    assert bench.last(4, 5, 10) == DIRECT, "a direct link that lasted starts anew"


COSTS = st.floats(min_value=0.1, max_value=500)


@given(st.lists(st.tuples(COSTS, COSTS), min_size=1, max_size=600))
def test_whatever_the_costs_the_way_seldom_changes(costs: list[tuple[float, float]]) -> None:
    """Every half second other costs, but none gone: 300 s at most."""
    bench = Bench()
    for direct, via in costs:
        bench.last(0.5, direct, via)
    # Out and back with holds of 3, 6, ... 96 s, and 96 s each from then on.
    seconds = len(costs) / 2
    rounds, spent = 0, 0.0
    while spent < seconds:
        spent += (HOLD_NS << min(rounds, MAX_DOUBLINGS)) / NANOS_PER_SECOND + 1
        rounds += 1
    assert bench.choice.changes <= 2 * rounds


@given(
    st.lists(st.floats(min_value=0.85, max_value=1.15), min_size=1, max_size=200),
    st.floats(min_value=2, max_value=400),
)
def test_noise_on_equal_ways_changes_nothing(noise: list[float], cost: float) -> None:
    bench = Bench()
    for factor in noise:
        bench.last(0.5, cost, cost * factor)
    assert bench.choice.changes == 0


@given(st.lists(st.tuples(COSTS, COSTS, COSTS), min_size=1, max_size=40))
def test_in_the_end_the_way_is_near_the_best(costs: list[tuple[float, float, float]]) -> None:
    bench = Bench()
    for each in costs:
        bench.last(0.5, *each)
    way = bench.last(300, *costs[-1])
    last = dict(zip((DIRECT, VIA_C, VIA_D), costs[-1], strict=True))
    assert (1 - DEFAULT_SHARE) * last[way] - DEFAULT_TIME_NS / MS <= min(last.values()) + 1e-6


def test_a_broker_nothing_goes_to_is_forgotten() -> None:
    bench = Bench()
    bench.last(1, 100, 10)
    bench.choice.forget(KEY)
    assert bench.choice.decided == ()
    assert bench.choice.relays == {}
