"""Probes on every link: what they measure, how many there are, and whose fault a delay is."""

from __future__ import annotations

import random
from collections import Counter

from overlay.ids import NANOS_PER_SECOND, LinkClass, Nanos, nanos
from overlay.machine import Effect, Send
from overlay.multigraph.probes import (
    FIRST_PROBES,
    OWN_FAULT_NS,
    WATCH_NS,
    LinkEcho,
    LinkProbe,
    Pace,
    Probes,
    Reading,
)
from overlay.multigraph.weights import LinkKey, Weights

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
KEY: LinkKey = ("b" * 32, NORMAL)
PACE = Pace()
MS = nanos(0.001)


class Bench:
    """Gauges whose links echo after a time the test sets, or not at all."""

    def __init__(self, *keys: LinkKey) -> None:
        self.probes = Probes(random.Random(1))
        self.now: Nanos = 0
        self.rtt: dict[LinkKey, Nanos | None] = {}
        self.sent: Counter[LinkKey] = Counter()
        self._echoes: list[tuple[Nanos, LinkKey, int]] = []
        for key in keys:
            self.rtt[key] = 2 * MS
            self.probes.on_up(key, self.now)

    def run(self, seconds: float) -> None:
        end = self.now + nanos(seconds)
        while True:
            due = self.probes.next_deadline()
            echo = min(self._echoes, default=None)
            if echo is not None and echo[0] <= min(end, due or end):
                self._echoes.remove(echo)
                self.now, key, token = echo
                assert self.probes.on_message(key, LinkEcho(token), self.now) == []
            elif due is not None and due <= end:
                self.now = due
                self._take(self.probes.handle_timers(due)[0])
            else:
                break
        self.now = end

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Send)
            assert isinstance(effect.message, LinkProbe)
            key = (effect.uid, effect.link_class)
            self.sent[key] += 1
            rtt = self.rtt[key]
            if rtt is not None:
                self._echoes.append((self.now + rtt, key, effect.message.token))

    def weights(self, key: LinkKey = KEY) -> Weights:
        found = self.probes.weights(key, self.now)
        assert found is not None
        return found


def test_each_link_is_measured_on_its_own() -> None:
    express: LinkKey = (KEY[0], EXPRESS)
    bench = Bench(KEY, express)
    bench.rtt[express] = MS
    bench.run(3)
    assert (bench.weights().rtt_ns, bench.weights(express).rtt_ns) == (2 * MS, MS)


def test_nothing_is_known_before_the_first_echo() -> None:
    bench = Bench(KEY)
    bench.rtt[KEY] = None
    bench.run(1)
    assert bench.probes.weights(KEY, bench.now) is None
    assert bench.probes.weights(("c" * 32, NORMAL), bench.now) is None


def test_a_new_link_is_known_soon_and_an_idle_one_probed_seldom() -> None:
    bench = Bench(KEY)
    bench.run(FIRST_PROBES * PACE.first_ns * 5 / 4 / NANOS_PER_SECOND)
    assert bench.sent[KEY] >= FIRST_PROBES
    bench.run(20)
    before = bench.sent[KEY]
    assert before >= 20 * NANOS_PER_SECOND / PACE.longest_ns + FIRST_PROBES, "more at first"
    bench.run(10)
    before = bench.sent[KEY]
    bench.run(1600)
    idle = 1600 * NANOS_PER_SECOND // PACE.longest_ns
    assert 0.8 * idle <= bench.sent[KEY] - before <= 1.25 * idle


def test_an_express_link_promises_a_bound_and_is_looked_at_more_often() -> None:
    bench = Bench(express := (KEY[0], EXPRESS))
    bench.run(400)
    assert bench.sent[express] >= 0.8 * 400 * NANOS_PER_SECOND / PACE.idle_ns


def test_what_changes_is_probed_every_second_until_it_is_steady() -> None:
    bench = Bench(KEY)
    bench.run(200)
    bench.rtt[KEY] = 40 * MS
    before = bench.sent[KEY]
    bench.run(1.25 * PACE.longest_ns / NANOS_PER_SECOND + 1)
    assert bench.sent[KEY] - before >= 1, "it is seen with the next probe"
    bench.run(5)
    assert bench.weights().rtt_ns > 25 * MS, "and followed up at once"
    bench.run(400)
    before = bench.sent[KEY]
    bench.run(400)
    assert bench.sent[KEY] - before <= 1.35 * 400 * NANOS_PER_SECOND / PACE.longest_ns


def test_what_never_ceases_to_vary_is_noise_and_probed_seldom() -> None:
    bench = Bench(KEY)
    noise = random.Random(2)

    def run(seconds: int) -> int:
        before = bench.sent[KEY]
        for _ in range(2 * seconds):
            bench.rtt[KEY] = noise.randrange(1, 20) * MS
            bench.run(0.5)
        return bench.sent[KEY] - before

    assert run(12) >= 0.8 * 12, "at first it may be news"
    run(20)
    assert run(400) <= 1.35 * 400 * NANOS_PER_SECOND / PACE.idle_ns
    bench.probes.on_read([Reading(KEY, 100, 0, events=1)], bench.now)
    probes = bench.sent[KEY]
    bench.run(1)
    assert bench.sent[KEY] == probes + 1, "but it matters where there are events"
    bench.rtt[KEY] = 2 * MS
    bench.probes.on_read([Reading(KEY, 100, 0, events=1)], bench.now)
    bench.run(120)
    before = bench.sent[KEY]
    bench.run(400)
    assert bench.sent[KEY] - before <= 1.35 * 400 * NANOS_PER_SECOND / PACE.longest_ns
    bench.rtt[KEY] = 40 * MS
    bench.run(1.25 * PACE.longest_ns / NANOS_PER_SECOND + 6)
    assert bench.weights().rtt_ns > 25 * MS, "and once it is steady, what changes is followed up"


def test_what_varies_under_load_is_no_noise_when_the_load_ends() -> None:
    bench = Bench(KEY)
    load = random.Random(3)
    for events in range(1, 61):
        bench.rtt[KEY] = load.randrange(20, 400) * MS
        bench.probes.on_read([Reading(KEY, events, 0, events=events)], bench.now)
        bench.run(0.5)
    bench.probes.on_read([Reading(KEY, 60, 0, events=60)], bench.now)
    bench.rtt[KEY] = 2 * MS
    bench.run(7)
    assert bench.weights().rtt_ns < 10 * MS, "its recovery is followed every second"


def test_the_first_event_on_an_idle_link_has_it_probed_within_a_second() -> None:
    bench = Bench(KEY)
    bench.run(200)
    probes = bench.sent[KEY]
    bench.probes.on_read([Reading(KEY, 100, 0, events=1)], bench.now)
    bench.run(1)
    assert bench.sent[KEY] == probes + 1
    for events in range(2, 32):
        bench.probes.on_read([Reading(KEY, 100 * events, 0, events=events)], bench.now)
        bench.run(1)
    assert bench.sent[KEY] - probes >= 24, "a trickle is no less than a flood"


def test_control_messages_alone_leave_a_link_idle() -> None:
    bench = Bench(KEY)
    bench.run(200)
    probes = bench.sent[KEY]
    for seconds in range(1, 101):
        bench.probes.on_read([Reading(KEY, 10_000 * seconds, 0)], bench.now)
        bench.run(1)
    assert bench.sent[KEY] - probes <= 100 / 16 * 4 / 3 + 1


def test_a_probe_is_answered_over_the_link_it_came_by() -> None:
    probes = Probes(random.Random(1))
    answer = probes.on_message((KEY[0], SECURE), LinkProbe(7), 0)
    assert answer == [Send(KEY[0], LinkEcho(7), link_class=SECURE)]


def test_a_link_that_stalls_becomes_dear_before_it_answers() -> None:
    bench = Bench(KEY)
    bench.run(10)
    bench.rtt[KEY] = None
    bench.run(8)
    assert bench.weights().rtt_ns > nanos(2)
    probes = bench.sent[KEY]
    bench.run(60)
    assert bench.sent[KEY] == probes, "one probe at most is under way"


def test_a_stall_is_agreed_on_when_it_has_lasted_for_three_measurements() -> None:
    bench = Bench(KEY)
    assert bench.probes.agreed(KEY, bench.now) is None
    bench.run(3)
    assert bench.probes.agreed(KEY, bench.now) == bench.weights()
    bench.rtt[KEY] = None
    sent = bench.sent[KEY]
    while bench.sent[KEY] == sent:
        bench.run(0.001)
    for _ in range(2):
        bench.run(1)
        found = bench.probes.agreed(KEY, bench.now)
        assert found is not None
        assert found.rtt_ns == 2 * MS
        assert bench.weights().rtt_ns >= nanos(1) - MS
    bench.run(1)
    found = bench.probes.agreed(KEY, bench.now)
    assert found is not None
    assert found.rtt_ns >= nanos(3) - MS


def test_an_echo_nobody_waits_for_is_no_measurement() -> None:
    bench = Bench(KEY)
    bench.run(1)
    bench.probes.on_message(KEY, LinkEcho(10**9), bench.now + nanos(5))
    bench.probes.on_message(("c" * 32, NORMAL), LinkEcho(1), bench.now)
    assert bench.weights().rtt_ns == 2 * MS


def test_where_this_process_stood_still_the_link_is_not_blamed() -> None:
    bench = Bench(KEY, ("c" * 32, NORMAL))
    bench.run(30)
    while not bench._echoes:  # a probe is under way ...
        due = bench.probes.next_deadline()
        assert due is not None
        bench.now = due
        bench._take(bench.probes.handle_timers(due)[0])
    due = bench.probes.next_deadline()
    assert due is not None
    assert due <= bench.now + WATCH_NS, "it is seen whether this process runs"
    bench.now = due + nanos(5)  # ... and nothing runs for five seconds
    _, key, token = bench._echoes.pop()
    bench.probes.handle_timers(bench.now)
    bench.probes.on_message(key, LinkEcho(token), bench.now + 2 * MS)
    found = bench.probes.weights(key, bench.now + 2 * MS)
    assert found is not None
    assert found.rtt_ns < nanos(1.1)
    assert nanos(5) > OWN_FAULT_NS


def test_a_link_that_breaks_remembers_it_and_one_given_up_does_not() -> None:
    bench = Bench(KEY)
    bench.run(1)
    bench.probes.on_down(KEY, bench.now, is_reset=True)
    assert KEY not in bench.probes
    assert bench.probes.next_deadline() is None
    bench.probes.on_up(KEY, bench.now)
    bench.run(1)
    assert 980 <= bench.weights().resets_milli <= 1000
    bench.probes.on_down(KEY, bench.now, is_reset=False)
    bench.probes.on_up(KEY, bench.now)
    bench.run(1)
    assert bench.weights().resets_milli < 1000
    assert bench.probes.links == (KEY,)


def test_a_new_connection_counts_what_it_sends_from_the_start() -> None:
    bench = Bench(KEY)
    bench.run(1)
    bench.probes.on_read([Reading(KEY, 10**9, 0)], bench.now)
    bench.probes.on_up(KEY, bench.now)
    bench.run(1)
    bench.probes.on_read([Reading(KEY, 1000, 0)], bench.now)
    assert 0 < bench.weights().traffic <= 1000
