"""A death far away: who hears of it, and what it costs a quiet ring as the ring grows.

The story: a quiet ring had exact ranks. So one death, which shifts the ranks of all brokers beyond
it by one, moved chords all round the ring, and each chord that moved changed the lists of links at
two neighbours: 979 of 1000 brokers heard of one death, in 10,400 messages.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.bars.one_death import Cost, cost_of_death
from overlay.ids import nanos
from ring.config import LAN
from sims.world.world import CrashMode

#: Chords are asked for anew four times while messages are counted, and little else is going on.
CONFIG = replace(LAN, chord_refresh_ns=nanos(2), heartbeat_ns=nanos(3))


def death_among(n: int) -> Cost:
    return cost_of_death(n, 1, CONFIG, settle_s=4, watch_s=9)[0]


def silent_death() -> Cost:
    return cost_of_death(60, 1, LAN, settle_s=5, watch_s=4, modes=(CrashMode.POWER,))[0]


def test_those_with_no_part_in_a_death_hear_nothing_and_it_costs_no_more_in_twice_the_ring() -> (
    None
):
    small, large = death_among(50), death_among(100)
    assert small.far == large.far == ()
    assert large.more <= 1.3 * small.more <= 300


def test_who_holds_a_link_to_a_silent_broker_asks_nobody_else_when_told_of_its_death() -> None:
    assert silent_death().far == ()
