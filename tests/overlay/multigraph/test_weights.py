"""What is measured of one link: round trips, traffic, capacity and resets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.ids import NANOS_PER_SECOND, LinkClass, nanos
from overlay.multigraph.weights import (
    MAX_HISTORIES,
    Flow,
    LinkKey,
    Resets,
    RoundTrip,
    Weights,
    agreed,
    worse,
)

MIB = 1024 * 1024
KEY: LinkKey = ("b" * 32, LinkClass.NORMAL)


def test_the_first_round_trip_counts_in_full() -> None:
    trip = RoundTrip()
    trip.on_sample(nanos(0.010))
    assert (trip.rtt_ns, trip.jitter_ns) == (nanos(0.010), 0)


def test_a_slower_link_shows_within_a_few_round_trips_and_certainty_grows() -> None:
    trip = RoundTrip()
    for _ in range(20):
        trip.on_sample(nanos(0.010))
    assert trip.rtt_ns == nanos(0.010)
    assert trip.jitter_ns < nanos(0.0001)
    for _ in range(3):
        trip.on_sample(nanos(0.110))
    assert nanos(0.060) < trip.rtt_ns < nanos(0.110)
    assert trip.jitter_ns > nanos(0.040)


def test_a_link_that_has_recovered_shows_it_after_a_few_round_trips() -> None:
    trip = RoundTrip()
    for _ in range(20):
        trip.on_sample(nanos(0.2))
    for _ in range(3):
        trip.on_sample(nanos(0.002))
    assert trip.rtt_ns > nanos(0.05), "that may be luck"
    trip.on_sample(nanos(0.002))
    assert (trip.rtt_ns, trip.jitter_ns) == (nanos(0.002), 0)


@given(st.lists(st.integers(min_value=1, max_value=10**10), min_size=1, max_size=50))
def test_the_smoothed_round_trip_stays_among_the_samples(samples: list[int]) -> None:
    trip = RoundTrip()
    for sample in samples:
        trip.on_sample(sample)
    assert min(samples) - 4 <= trip.rtt_ns <= max(samples)
    assert trip.jitter_ns >= 0


def test_what_one_late_measurement_says_is_not_agreed_on() -> None:
    weights = Weights(60, 40, 1, 2, 3, 4)
    for recent in ((10, 10, 210), (210, 10, 10), (10,), (10, 10)):
        assert agreed(weights, recent) == Weights(10, 0, 1, 2, 3, 4)
    assert agreed(weights, (10, 210, 210)) == Weights(10, 40, 1, 2, 3, 4), "two show that it varies"
    assert agreed(weights, (10, 20, 210)) == Weights(10, 10, 1, 2, 3, 4)


def test_what_three_measurements_say_is_agreed_on() -> None:
    assert agreed(Weights(60, 40), (210, 210, 210)) == Weights(210, 0)
    assert agreed(Weights(60, 40), (30, 210, 210)) == Weights(30, 40)
    assert agreed(Weights(8, 3), (9, 10, 11)) == Weights(9, 1)


def read(flow: Flow, seconds: int, rate: int, queued: int) -> int:
    """Read once a second a link that sends ``rate`` bytes a second."""
    for second in range(1, seconds + 1):
        flow.on_reading(rate * second, queued, second * NANOS_PER_SECOND)
    return seconds


def test_traffic_follows_what_is_sent_and_forgets_it() -> None:
    flow = Flow(0)
    seconds = read(flow, 10, MIB, 0)
    assert 0.98 * MIB < flow.traffic < 1.01 * MIB
    for more in range(1, 11):
        flow.on_reading(MIB * seconds, 0, (seconds + more) * NANOS_PER_SECOND)
    assert flow.traffic < 0.01 * MIB


def test_capacity_is_what_a_queue_that_stays_full_drains() -> None:
    flow = Flow(0)
    read(flow, 5, MIB, 4 * MIB)
    assert flow.capacity == MIB
    assert flow.queued_ns == 4 * NANOS_PER_SECOND


def test_a_link_that_was_never_backed_up_has_no_capacity_to_tell() -> None:
    flow = Flow(0)
    read(flow, 5, MIB, 1000)
    assert flow.capacity == 0
    assert flow.queued_ns == 0


def test_a_few_bytes_that_have_just_come_back_nothing_up() -> None:
    flow = Flow(0)
    read(flow, 5, 100, 60)
    assert flow.capacity == 0


def test_a_link_that_stands_still_keeps_its_capacity() -> None:
    flow = Flow(0)
    seconds = read(flow, 5, MIB, 4 * MIB)
    flow.on_reading(MIB * seconds, 4 * MIB, (seconds + 1) * NANOS_PER_SECOND)
    assert flow.capacity == MIB


def test_a_slow_link_that_takes_large_batches_is_measured_over_several_readings() -> None:
    flow = Flow(0)
    for second in range(1, 13):
        flow.on_reading(300_000 * (second // 3), 400_000, second * NANOS_PER_SECOND)
    assert 90_000 < flow.capacity < 130_000


def test_a_second_reading_at_one_moment_changes_nothing() -> None:
    flow = Flow(0)
    flow.on_reading(MIB, 0, 0)
    assert flow.traffic == 0


def test_resets_are_counted_and_fade() -> None:
    resets = Resets()
    assert resets.milli(KEY, 0) == 0
    resets.note(KEY, 0)
    resets.note(KEY, 0)
    assert resets.milli(KEY, 0) == 2000
    assert resets.milli(KEY, nanos(60)) == 1000
    resets.note(KEY, nanos(60))
    assert resets.milli(KEY, nanos(180)) == 500


def test_histories_are_bounded_and_the_oldest_goes() -> None:
    resets = Resets()
    for number in range(MAX_HISTORIES + 1):
        resets.note((f"{number:032x}", LinkClass.NORMAL), 0)
    assert resets.milli((f"{0:032x}", LinkClass.NORMAL), 0) == 0
    assert resets.milli((f"{1:032x}", LinkClass.NORMAL), 0) == 1000


def test_of_two_ends_the_worse_counts() -> None:
    one = Weights(10, 5, 0, 3, 7, 0)
    other = Weights(20, 1, 9, 2, 0, 500)
    assert worse(one, other) == worse(other, one) == Weights(20, 5, 9, 3, 7, 500)
