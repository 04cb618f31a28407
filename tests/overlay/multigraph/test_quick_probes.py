"""Quick probes on links that express events come over: how many, and what they say."""

from __future__ import annotations

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos
from overlay.machine import Send
from overlay.multigraph.quick_probes import (
    FORGET_NS,
    MOST_UNDER_WAY,
    QuickEcho,
    QuickProbe,
    QuickProbes,
)
from overlay.multigraph.weights import LinkKey

KEY: LinkKey = ("b" * 32, LinkClass.NORMAL)
MS = nanos(0.001)


class Bench:
    """A link that echoes after a time the test sets, or not at all."""

    def __init__(self) -> None:
        self.quick_probes = QuickProbes()
        self.now: Nanos = 0
        self.rtt: Nanos | None = 2 * MS
        self.probes = 0
        self._echoes: list[tuple[Nanos, int]] = []

    def run(self, seconds: float, *, event_every: float | None = None) -> None:
        """Let time pass, with an express event now, and every so many seconds."""
        end = self.now + nanos(seconds)
        event: Nanos | None = self.now if event_every is not None else None
        while True:
            deadline = self.quick_probes.next_deadline()
            due = deadline if deadline is not None else end + 1
            echo = min(self._echoes, default=(end + 1, 0))
            if event is not None and event <= min(end, due, echo[0]):
                self.now = event
                self.quick_probes.on_event(KEY, event)
                event += nanos(event_every or 0)
            elif echo[0] <= min(end, due):
                self._echoes.remove(echo)
                self.now = echo[0]
                assert self.quick_probes.on_message(KEY, QuickEcho(echo[1]), self.now) == []
            elif due <= end:
                self.now = due
                for effect in self.quick_probes.handle_timers(due):
                    self._take(effect)
            else:
                break
        self.now = end

    def _take(self, effect: object) -> None:
        assert isinstance(effect, Send)
        assert (effect.uid, effect.link_class) == KEY
        assert isinstance(effect.message, QuickProbe)
        self.probes += 1
        if self.rtt is not None:
            self._echoes.append((self.now + self.rtt, effect.message.token))

    @property
    def floor_ms(self) -> float:
        return self.quick_probes.floor_ns(KEY) / MS


def test_a_link_without_express_events_is_not_probed_quickly() -> None:
    bench = Bench()
    bench.run(60)
    assert bench.quick_probes.next_deadline() is None
    assert (bench.probes, bench.floor_ms) == (0, 0)


def test_a_link_that_carries_events_is_known_within_a_second_and_its_changes_within_two() -> None:
    for every in (0.01, 0.3, 1.0):
        bench = Bench()
        bench.run(1, event_every=every)
        assert bench.floor_ms == 2
        bench.run(5, event_every=every)
        bench.rtt = 120 * MS
        bench.run(2, event_every=every)
        assert bench.floor_ms == 120
        bench.rtt = 2 * MS
        bench.run(0.6, event_every=every)
        assert bench.floor_ms == 2, "one fast answer shows that it is fast again"


def test_a_probe_that_met_a_busy_process_makes_nothing_slow() -> None:
    bench = Bench()
    bench.rtt = 50 * MS
    bench.run(0.5, event_every=0.01)
    assert bench.floor_ms == 0, "two say nothing yet"
    bench.rtt = 2 * MS
    bench.run(1, event_every=0.01)
    for _ in range(10):
        bench.rtt = 50 * MS
        bench.run(0.9, event_every=0.01)
        assert bench.floor_ms == 2
        bench.rtt = 2 * MS
        bench.run(0.3, event_every=0.01)


def test_events_that_come_seldom_find_what_became_of_the_link_between_them() -> None:
    bench = Bench()
    bench.run(0, event_every=9)
    bench.run(2)
    bench.rtt = 120 * MS
    bench.run(7)
    assert bench.floor_ms == 120
    bench.rtt = 2 * MS
    bench.run(1.2)
    assert bench.floor_ms == 2


def test_the_number_of_probes_is_bounded_and_ends() -> None:
    bench = Bench()
    bench.run(10, event_every=0.001)
    assert 25 <= bench.probes <= 35, "whatever the number of events"
    bench.run(FORGET_NS / NANOS_PER_SECOND + 2)
    assert bench.probes <= 35 + 5 + 31
    assert bench.quick_probes.next_deadline() is None
    assert bench.floor_ms == 0, "it may be another by now"


def test_a_link_that_answers_nothing_gets_few_and_one_that_answers_again_is_measured() -> None:
    bench = Bench()
    bench.rtt = None
    bench.run(9, event_every=0.01)
    assert bench.probes == MOST_UNDER_WAY
    bench.rtt = 4 * MS
    bench.run(3, event_every=0.01)
    assert bench.floor_ms == 4


def test_round_trips_of_seconds_are_measured() -> None:
    bench = Bench()
    bench.rtt = nanos(2)
    bench.run(4, event_every=0.01)
    assert bench.floor_ms == 2000


def test_a_probe_is_answered_over_the_link_it_came_by_and_before_all_that_waits() -> None:
    key: LinkKey = (KEY[0], LinkClass.EXPRESS)
    answer = QuickProbes().on_message(key, QuickProbe(7), 0)
    assert answer == [Send(KEY[0], QuickEcho(7), link_class=LinkClass.EXPRESS)]
    assert QuickProbe.is_quick
    assert QuickEcho.is_quick


def test_an_echo_nobody_waits_for_is_no_measurement() -> None:
    bench = Bench()
    bench.run(2, event_every=0.01)
    for token in range(1, 100):
        bench.quick_probes.on_message(KEY, QuickEcho(token), bench.now + nanos(5))
        bench.quick_probes.on_message(("c" * 32, KEY[1]), QuickEcho(token), bench.now)
    assert bench.floor_ms == 2


def test_a_new_connection_is_measured_anew() -> None:
    bench = Bench()
    bench.run(2, event_every=0.01)
    bench.quick_probes.forget(KEY)
    assert bench.floor_ms == 0
    assert bench.quick_probes.next_deadline() is None


def test_it_need_not_be_told_of_each_event() -> None:
    quick_probes = QuickProbes()
    assert quick_probes.wants(KEY, 0)
    quick_probes.on_event(KEY, 0)
    assert not quick_probes.wants(KEY, nanos(0.1))
    assert quick_probes.wants(KEY, nanos(0.5))
