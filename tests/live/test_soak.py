"""The soak with real brokers, short; and what it judges by."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from benchmarks.campaigns.live.evidence import Times
from benchmarks.campaigns.live.observing import Watch
from benchmarks.campaigns.live.processes import Fleet
from benchmarks.campaigns.live.rounds import Fault, Round
from benchmarks.campaigns.live.soak import Outcome, Plan, judge, soak
from overlay.ids import nanos
from ring.invariants import Snapshot
from ring.wire.messages import Member
from tests.helpers.bench import member

pytestmark = pytest.mark.live


@pytest.mark.soak
async def test_a_ring_of_eight_heals_from_every_fault(tmp_path: Path) -> None:
    plan = Plan(folder=tmp_path, brokers=8, seed=5, rounds=10, minutes=5)
    outcome = await soak(plan)
    assert outcome.failure == ""
    assert {round_.fault for round_ in outcome.rounds} == set(Fault)
    assert outcome.looks > 0
    assert outcome.published > 100
    assert [str(line) for line in judge(outcome) if not line.is_met] == []


async def test_who_goes_on_pointing_at_a_killed_broker_is_found(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    watch = Watch(Fleet(tmp_path, 1, (), random.Random(1), None), found_out_ns=nanos(2))
    killed, beside = member(30), Snapshot(member(20), (), (member(30), member(40)))
    watch.killed(killed)
    for seconds, ghosts in ((0, 0), (2, 0), (1, 1)):
        await trio.sleep(seconds)
        watch.take(beside, nanos(trio.current_time()))
        assert len(watch.ghosts) == ghosts
    back = Member(replace(killed.peer, incarnation=killed.peer.incarnation + 1), 30)
    watch.take(Snapshot(member(20), (), (back, member(40))), nanos(trio.current_time()))
    watch.take(Snapshot(member(20), (), (member(40),)), nanos(trio.current_time()))
    assert (watch.looks, len(watch.ghosts), watch.findings) == (5, 1, [])


def test_events_lost_between_survivors_miss_the_bar() -> None:
    found = Round(Fault.CUT, ("a" * 32, "b" * 32), 0, pauses_s=[0.1], lost=1)
    traced: dict[Fault, list[Times]] = {Fault.KILL: [], Fault.STOP: []}
    missed = [line.name for line in judge(Outcome([found], traced)) if not line.is_met]
    assert missed == ["events between survivors lost, in all rounds"]
