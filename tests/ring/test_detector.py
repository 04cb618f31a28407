"""Heartbeats and silence; and a slow observer, who must doubt itself first."""

from __future__ import annotations

import pytest

from overlay.machine import Closed
from ring.config import LAN
from ring.facts import Suspected
from ring.messages import Heartbeat
from tests.helpers.bench import Bench, closed, member, opened, sent, told, uid, view_of

RING = [100, 200, 300, 400, 500, 600, 700]
AROUND = [100, 200, 400, 500]
SILENCE_S = LAN.silence_ns / 1e9


def bench() -> Bench:
    return Bench.on_ring(RING, 300)


def test_every_neighbour_hears_from_us_in_every_interval() -> None:
    node, everybody = bench(), [member(i) for i in AROUND]
    for _ in range(5):
        beats = sent(node.wait(LAN.heartbeat_ns / 1e9, alive=everybody), Heartbeat)
        assert sorted(to for to, _ in beats) == [uid(i) for i in AROUND]


def test_a_heartbeat_carries_the_version_of_our_view() -> None:
    node = bench()
    [(_, beat), *_] = sent(node.wait(LAN.heartbeat_ns / 1e9), Heartbeat)
    assert beat.version == node.node._hood.version


@pytest.mark.parametrize("silent", AROUND)
def test_a_neighbour_silent_for_too_long_is_suspected(silent: int) -> None:
    node = bench()
    others = [member(i) for i in AROUND if i != silent]
    assert told(node.wait(0.99 * SILENCE_S, alive=others), Suspected) == []
    found = told(node.wait(0.02 * SILENCE_S, alive=others), Suspected)
    assert found == [Suspected(member(silent), "silent")]


def test_a_silent_link_to_one_that_never_took_its_place_is_made_anew() -> None:
    """Its machine lost power and is back, and nothing tells us that our link leads nowhere."""
    node, others = bench(), [member(i) for i in AROUND]
    node.up(member(350))
    node.receive(member(400), view_of(400, [*RING, 350], version=2))
    effects = node.wait(1.1 * SILENCE_S, alive=others)
    assert (told(effects, Suspected), closed(effects)) == ([], [(uid(350), Closed.LOST)])
    assert opened(effects) == [member(350).peer.url]


def test_anything_heard_is_a_sign_of_life() -> None:
    node = bench()
    for _ in range(10):
        effects = node.wait(0.5 * SILENCE_S)
        assert told(effects, Suspected) == []
        for ring_id in AROUND:
            node.node.heard(uid(ring_id), node.now)


@pytest.mark.parametrize("pause_s", [2 * LAN.heartbeat_ns / 1e9, 60.0, 86_400.0])
def test_who_stood_still_accuses_nobody(pause_s: float) -> None:
    """After SIGSTOP it is the observer who did not listen; all deadlines move by the pause."""
    node = bench()
    node.wait(0.5 * SILENCE_S)
    assert told(node.oversleep(pause_s), Suspected) == []
    assert told(node.wait(0.1 * SILENCE_S), Suspected) == []


def test_a_pause_does_not_make_us_deaf_to_a_death_after_it() -> None:
    """What waited in the sockets is read before the timers run."""
    node = bench()
    node.now += 3600 * 10**9
    for ring_id in AROUND:
        node.receive(member(ring_id), Heartbeat(1))
    node.oversleep(0)
    others = [member(i) for i in AROUND if i != 400]
    found = told(node.wait(1.5 * SILENCE_S, alive=others), Suspected)
    assert found == [Suspected(member(400), "silent")]


def test_who_stood_still_does_notice_a_death_afterwards() -> None:
    node = bench()
    node.oversleep(60.0)
    others = [member(i) for i in AROUND if i != 400]
    found = told(node.wait(1.5 * SILENCE_S, alive=others), Suspected)
    assert found == [Suspected(member(400), "silent")]


def test_a_timer_a_little_late_is_no_pause() -> None:
    node = bench()
    others = [member(i) for i in AROUND if i != 400]
    node.wait(SILENCE_S - 0.001, alive=others)
    for other in others:
        node.node.heard(other.uid, node.now)
    late_s = 0.001 + 0.5 * LAN.heartbeat_ns / 1e9
    assert told(node.oversleep(late_s), Suspected) == [Suspected(member(400), "silent")]
