"""Heartbeats and silence; and a slow observer, who must doubt itself first.

The broker 300 is heard by its left neighbour 200 and watches its right neighbour 400.
"""

from __future__ import annotations

import dataclasses

import pytest

from overlay.ids import nanos
from overlay.machine import Closed, Effect
from ring.config import LAN, RingConfig
from ring.detection.detector import FIRST_SAMPLES, IDLE_PERIODS, IDLE_SPREAD, SUPPRESSED
from ring.detection.local_health import MAX_SCORE
from ring.facts import Suspected
from ring.wire.messages import Failed, Heartbeat, Ping, Pong, View, ViewRequest
from tests.helpers.bench import Bench, closed, member, opened, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
AROUND = [100, 200, 400, 500]
LEFT, RIGHT = member(200), member(400)
OTHERS = [member(i) for i in AROUND if i != 400]
EVERYBODY = [*OTHERS, RIGHT]
PERIOD_S = LAN.heartbeat_ns / 1e9
SILENCE_S = LAN.silence_ns / 1e9
SILENCE_MAX_S = LAN.silence_max_ns / 1e9
LATE_S, LATE_MAX_S = LAN.lateness_ns / 1e9, LAN.lateness_max_ns / 1e9


def bench(monitors: int = 1) -> Bench:
    return Bench.on_ring(RING, 300, dataclasses.replace(LAN, monitors=monitors))


def beats(effects: list[Effect]) -> list[str]:
    return sorted(to for to, _ in sent(effects, Heartbeat))


def beat(node: Bench, late_s: float = 0.0) -> None:
    """Let one period pass, and ``late_s``, until the right neighbour's heartbeat comes."""
    node.wait(PERIOD_S + late_s, alive=OTHERS)
    node.receive(RIGHT, Heartbeat(1))


def suspected_after(node: Bench) -> float:
    """Return how long the right neighbour must be silent from now on to be suspected."""
    start = node.now
    while node.now - start < nanos(60):
        if told(node.wait(0.01, alive=OTHERS), Suspected):
            return (node.now - start) / 1e9
    raise AssertionError("it is never suspected")


def run_late(node: Bench, times: int) -> None:
    """Let timers run late so many times, but by no pause to move deadlines for."""
    for _ in range(times):
        node.wait(0.2, alive=EVERYBODY)
        due = node.node.next_deadline()
        assert due is not None
        node.now = max(node.now, due)
        node.oversleep(0.6 * LAN.answer_ns / 1e9)
        for other in EVERYBODY:
            node.node.heard(other.uid, node.now)


def measured_first(took_s: float) -> Bench:
    """Return a bench on which the first round trip on a new link to the right took that long."""
    node = bench()
    node.down(RIGHT)
    [ping] = [ping for to, ping in sent(node.up(RIGHT), Ping) if to == RIGHT.uid]
    node.wait(took_s, alive=OTHERS)
    node.receive(RIGHT, Pong(ping.token))
    return node


# What others hear of us


@pytest.mark.parametrize(
    ("monitors", "heard_by"), [(1, [200]), (2, [200, 400]), (4, [100, 200, 400, 500])]
)
def test_every_monitor_hears_from_us_in_every_period(monitors: int, heard_by: list[int]) -> None:
    node = bench(monitors=monitors)
    node.wait(PERIOD_S, alive=EVERYBODY)
    for _ in range(5):
        effects = node.wait(PERIOD_S, alive=EVERYBODY)
        assert beats(effects) == [uid(i) for i in heard_by]


@pytest.mark.parametrize("all_at_once", [False, True])
def test_heartbeats_to_several_monitors_are_spread_over_the_period(all_at_once: bool) -> None:
    """From the first on, and also after something has gone to all of them at once."""
    node = bench(monitors=4)
    if all_at_once:
        node.wait(PERIOD_S, alive=EVERYBODY)
        for other in EVERYBODY:
            node.node.told(other.uid, node.now)
        node.wait(PERIOD_S, alive=EVERYBODY)
    in_parts = [len(beats(node.wait(PERIOD_S / 8, alive=EVERYBODY))) for _ in range(8)]
    assert sum(in_parts) == 4
    assert max(in_parts) < 4


def test_a_heartbeat_carries_the_version_of_our_view() -> None:
    node = bench()
    _, message = sent(node.wait(2 * PERIOD_S, alive=EVERYBODY), Heartbeat)[-1]
    [(_, view)] = sent(node.receive(LEFT, ViewRequest()), View)
    assert message.version == view.version > 0


def test_other_traffic_saves_the_heartbeat() -> None:
    node = bench()
    node.wait(PERIOD_S, alive=EVERYBODY)
    for _ in range(SUPPRESSED - 2):
        node.node.told(LEFT.uid, node.now)
        assert beats(node.wait(0.9 * PERIOD_S, alive=EVERYBODY)) == []
    assert beats(node.wait(0.3 * PERIOD_S, alive=EVERYBODY)) == [LEFT.uid]


def test_what_went_to_somebody_else_does_not() -> None:
    node = bench()
    node.wait(PERIOD_S, alive=EVERYBODY)
    seen = []
    for _ in range(10):
        node.node.told(uid(100), node.now)
        seen += beats(node.wait(0.5 * PERIOD_S, alive=EVERYBODY))
    assert seen == [LEFT.uid] * 5


def test_traffic_cannot_replace_heartbeats_for_ever() -> None:
    """They carry the version of our view, by which a neighbour sees that it has an old one."""
    node = bench()
    node.wait(PERIOD_S, alive=EVERYBODY)
    seen = 0
    for _ in range(4 * SUPPRESSED):
        node.node.told(LEFT.uid, node.now)
        seen += len(beats(node.wait(0.3 * PERIOD_S, alive=EVERYBODY)))
    assert seen >= 1


# What we hear of others


def test_a_monitored_neighbour_silent_for_too_long_is_suspected() -> None:
    node = bench()
    assert told(node.wait(0.99 * SILENCE_S, alive=OTHERS), Suspected) == []
    found = told(node.wait(0.02 * SILENCE_S, alive=OTHERS), Suspected)
    assert found == [Suspected(RIGHT, "silent")]


def test_it_is_pinged_before_it_is_suspected() -> None:
    node = bench()
    overdue_s = (LAN.heartbeat_ns + LAN.lateness_ns) / 1e9
    assert sent(node.wait(0.99 * overdue_s, alive=OTHERS), Ping) == []
    pings = sent(node.wait(0.99 * SILENCE_S - 0.99 * overdue_s, alive=OTHERS), Ping)
    assert [to for to, _ in pings] == [RIGHT.uid] * LAN.probes
    assert len({ping.token for _, ping in pings}) == LAN.probes


@pytest.mark.parametrize(("asked", "answered"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_an_answer_to_any_of_the_pings_will_do(asked: int, answered: int) -> None:
    """To the latest as to one before it: whoever answers lives."""
    node = bench()
    overdue_s = (LAN.heartbeat_ns + LAN.lateness_ns) / 1e9 + 0.001
    effects = node.wait(overdue_s + (asked - 1) * LAN.answer_ns / 2e9, alive=OTHERS)
    pings = [ping for to, ping in sent(effects, Ping) if to == RIGHT.uid]
    assert len(pings) == asked
    node.receive(RIGHT, Pong(pings[answered].token))
    assert told(node.wait(0.9 * SILENCE_S, alive=OTHERS), Suspected) == []


@pytest.mark.parametrize("silent", [100, 200, 500])
def test_a_neighbour_that_others_monitor_is_looked_after_now_and_then(silent: int) -> None:
    node = bench()
    others = [member(i) for i in AROUND if i != silent]
    assert told(node.wait(IDLE_PERIODS * PERIOD_S, alive=others), Suspected) == []
    longest_s = IDLE_SPREAD * PERIOD_S + LAN.test_min_ns / 1e9
    found = told(node.wait(longest_s, alive=others), Suspected)
    assert found == [Suspected(member(silent), "silent")]


def test_a_new_neighbour_is_probed_at_once() -> None:
    """In a run of dead brokers, the next is found after a few round trips."""
    node = bench()
    node.down(RIGHT)
    effects = node.receive(LEFT, Failed(RIGHT, ("0" * 32,), None))
    assert uid(500) in [to for to, _ in sent(effects, Ping)]
    found = told(node.wait(LAN.test_min_ns / 1e9, alive=[member(100), LEFT]), Suspected)
    assert found == [Suspected(member(500), "silent")]


def test_a_silent_link_to_one_that_never_took_its_place_is_made_anew() -> None:
    """Its machine lost power and is back, and nothing tells us that our link leads nowhere."""
    node = bench()
    node.up(member(350))
    node.receive(RIGHT, view_of(400, [*RING, 350], version=2))
    effects = node.wait(LAN.test_ns / 1e9, alive=EVERYBODY)
    assert (told(effects, Suspected), closed(effects)) == ([], [(uid(350), Closed.LOST)])
    assert opened(effects) == [member(350).peer.url]


def test_anything_heard_is_a_sign_of_life() -> None:
    node = bench()
    for _ in range(10):
        effects = node.wait(0.5 * SILENCE_S, alive=OTHERS)
        assert told(effects, Suspected) == []
        node.node.heard(RIGHT.uid, node.now)


# The waits follow what is measured


def test_a_link_whose_heartbeats_come_late_is_given_more_time() -> None:
    node = bench()
    for late_s in [0.0, 0.3] * 10:
        beat(node, late_s)
    assert SILENCE_S + 0.05 < suspected_after(node) <= SILENCE_MAX_S + 0.01


def test_but_never_more_than_was_promised() -> None:
    node = bench()
    for late_s in [0.0, LATE_MAX_S] * 10 + [0.0, 1.7 * LATE_MAX_S] * 10:
        beat(node, late_s)
    assert suspected_after(node) == pytest.approx(SILENCE_S + LATE_MAX_S - LATE_S, abs=0.02)


def test_a_link_that_calms_down_is_given_less_time_again() -> None:
    node = bench()
    for late_s in [0.0, 0.4] * 5 + [0.0] * 60:
        beat(node, late_s)
    assert suspected_after(node) == pytest.approx(SILENCE_S, abs=0.02)


def test_one_long_gap_is_forgotten_as_soon_as_one_of_the_longest_that_is_waited_for() -> None:
    node = bench()
    for late_s in [0.0] * 5 + [LATE_MAX_S + 0.7 * LAN.test_ns / 1e9] + [0.0] * 10:
        beat(node, late_s)
    assert suspected_after(node) == pytest.approx(SILENCE_S, abs=0.02)


def test_a_long_round_trip_is_given_more_time() -> None:
    longest_s = PERIOD_S + LATE_S + LAN.test_ns / 1e9
    assert SILENCE_S + 0.1 < suspected_after(measured_first(0.19)) < longest_s
    assert suspected_after(measured_first(0.39)) == pytest.approx(longest_s, abs=0.02)


def test_an_answer_to_a_ping_before_the_latest_is_no_measure_of_the_round_trip() -> None:
    """It would seem to have come at once, and every other would be expected as soon."""
    node = bench()
    node.down(RIGHT)
    [first] = [ping for to, ping in sent(node.up(RIGHT), Ping) if to == RIGHT.uid]
    later = sent(node.wait(1.1 * LAN.answer_max_ns / 1e9, alive=OTHERS), Ping)
    assert RIGHT.uid in [to for to, _ in later]
    node.receive(RIGHT, Pong(first.token))
    for _ in range(MAX_SCORE):  # that its link was lost has made us doubt ourselves
        beat(node)
    longest_s = PERIOD_S + LATE_S + LAN.test_ns / 1e9
    assert suspected_after(node) == pytest.approx(longest_s, abs=0.02)


def test_an_answer_to_a_ping_that_measures_nothing_is_no_measure_of_the_round_trip() -> None:
    """A witness's pings all have the token 0, and tell only whether somebody lives."""
    node = bench()
    for _ in range(FIRST_SAMPLES):
        node.wait(0.9 * PERIOD_S, alive=EVERYBODY)
        node.receive(RIGHT, Pong(0))
    assert suspected_after(node) == pytest.approx(SILENCE_S, abs=0.02)


def test_a_round_trip_that_was_first_measured_in_a_busy_moment_is_measured_again() -> None:
    """Brokers that start together measure each other's start."""
    assert suspected_after(measured_first(0.19)) > SILENCE_S + 0.1
    node = measured_first(0.19)
    for _ in range(200):
        for to, ping in sent(node.wait(0.01, alive=EVERYBODY), Ping):
            assert to == RIGHT.uid
            node.receive(RIGHT, Pong(ping.token))
    node.receive(RIGHT, Heartbeat(1))
    assert suspected_after(node) == pytest.approx(SILENCE_S, abs=0.02)


def test_a_way_that_is_long_is_not_measured_for_ever() -> None:
    node = bench()
    node.down(RIGHT)
    pings = sent(node.up(RIGHT), Ping)
    count = 0
    for _ in range(200):
        node.wait(0.3, alive=OTHERS)
        for _, ping in pings:
            node.receive(RIGHT, Pong(ping.token))
        pings = [
            (to, p) for to, p in sent(node.wait(0.2, alive=EVERYBODY), Ping) if to == RIGHT.uid
        ]
        count += len(pings)
    assert 0 < count <= FIRST_SAMPLES


# A slow observer


@pytest.mark.parametrize("pause_s", [2 * PERIOD_S, 60.0, 86_400.0])
def test_who_stood_still_accuses_nobody(pause_s: float) -> None:
    """After SIGSTOP it is the observer who did not listen; all deadlines move by the pause."""
    node = bench()
    node.wait(0.5 * SILENCE_S, alive=EVERYBODY)
    assert told(node.oversleep(pause_s), Suspected) == []
    assert told(node.wait(0.9 * SILENCE_S), Suspected) == []


def test_who_stood_still_is_heard_again_at_once() -> None:
    """By all its monitors, not only by the one whose turn comes first."""
    node = bench(monitors=4)
    node.wait(PERIOD_S, alive=EVERYBODY)
    assert beats(node.oversleep(60.0)) == [uid(i) for i in AROUND]


def test_a_pause_does_not_make_us_deaf_to_a_death_after_it() -> None:
    """What waited in the sockets is read before the timers run."""
    node = bench()
    node.now += 3600 * 10**9
    for ring_id in AROUND:
        node.receive(member(ring_id), Heartbeat(1))
    node.oversleep(0)
    found = told(node.wait(3 * SILENCE_S, alive=OTHERS), Suspected)
    assert found == [Suspected(RIGHT, "silent")]


def test_who_stood_still_does_notice_a_death_afterwards() -> None:
    node = bench()
    node.oversleep(60.0)
    found = told(node.wait(2 * SILENCE_S, alive=OTHERS), Suspected)
    assert found == [Suspected(RIGHT, "silent")]


def test_who_runs_late_waits_longer_for_others() -> None:
    node, healthy = bench(), suspected_after(bench())
    run_late(node, 3)
    assert suspected_after(node) > 1.5 * healthy


def test_who_runs_on_time_again_trusts_itself_again() -> None:
    node = bench()
    run_late(node, MAX_SCORE)
    for _ in range(MAX_SCORE + 1):
        beat(node)
    assert suspected_after(node) == pytest.approx(SILENCE_S, abs=0.02)


def test_a_config_can_have_the_classic_detector() -> None:
    """k periods without a word: here T = 1 s, k = 3."""
    classic = RingConfig(
        heartbeat_ns=nanos(1.0),
        lateness_ns=nanos(1.0),
        lateness_max_ns=nanos(1.0),
        answer_ns=nanos(0.5),
        answer_max_ns=nanos(0.5),
        monitors=4,
    )
    assert classic.silence_ns == classic.silence_max_ns == 3 * classic.heartbeat_ns
