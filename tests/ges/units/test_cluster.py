"""Whole clusters: at rest all hold one table, and each member has a slot of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.units.planner import UnitsConfig
from ges.wire.telling_messages import TELLING_MESSAGES, Held, Letter
from ges.wire.unit_messages import UNIT_MESSAGES
from overlay.machine import OpenLink, Send
from sims.world.warm import spread_evenly
from sims.world.world import CrashMode
from tests.helpers.examples import examples
from tests.helpers.units_ring import UnitsRing

KILL, POWER = CrashMode.KILL, CrashMode.POWER
DIGESTS_EQUAL_S = 15.0

VERBS = ("join", "join", "join", "leave", "kill", "power", "restart", "part", "heal", "wait")
STEP = st.tuples(
    st.sampled_from(VERBS), st.integers(0, 2**16), st.sampled_from((0.0, 0.05, 0.5, 3.0, 30.0))
)


def play(seed: int, steps: list[tuple[str, int, float]]) -> UnitsRing:
    """Let brokers come and go in any order, at most 24 of them."""
    ring = UnitsRing(seed)
    ring.found()
    is_apart = False
    for verb, drawn, pause in steps:
        alive = ring.alive
        one = alive[drawn % len(alive)]
        if verb == "join" and not is_apart and len(alive) < 24:
            ring.start(alive)
        elif verb == "restart" and not is_apart and len(alive) < len(ring.nodes):
            dead = [uid for uid in ring.nodes if uid not in alive]
            ring.restart(dead[drawn % len(dead)], alive)
        elif verb == "leave" and len(alive) > 4:
            ring.leave(one)
        elif verb in ("kill", "power") and len(alive) > 4:
            ring.crash(one, CrashMode(verb))
        elif verb == "part" and len(alive) > 3 and not is_apart:
            at = 1 + drawn % (len(alive) - 1)
            ring.part([alive[at:], alive[:at]])
            is_apart = True
        elif verb == "heal":
            ring.heal()
            is_apart = False
        ring.run(pause)
    ring.heal()
    ring.rest(200)
    return ring


@settings(max_examples=examples(40))
@given(st.integers(0, 999), st.lists(STEP, max_size=24))
def test_whatever_happens_at_rest_slots_are_unique_and_tables_equal(
    seed: int, steps: list[tuple[str, int, float]]
) -> None:
    play(seed, steps).agree(DIGESTS_EQUAL_S)


@pytest.mark.soak
@settings(max_examples=3000)
@given(st.integers(0, 999), st.lists(STEP, max_size=40))
def test_whatever_happens_for_long(seed: int, steps: list[tuple[str, int, float]]) -> None:
    play(seed, steps).agree(DIGESTS_EQUAL_S)


# The steward


def kill_after(ring: UnitsRing, uid: str, count: int, what: Callable[[UnitsRing], Any]) -> bool:
    """Kill a broker at that message about units, if it sends as many; say whether it was."""
    sent, told = [0], ring.world.on_sent

    def on_sent(sender: str, effect: Send | OpenLink) -> None:
        told(sender, effect)
        if (
            sender == uid
            and isinstance(effect, Send)
            and not isinstance(effect.message, Held | Letter)
        ):
            sent[0] += isinstance(effect.message, (*TELLING_MESSAGES, *UNIT_MESSAGES))
            if sent[0] == count and uid in ring.alive:
                ring.crash(uid, KILL)

    ring.world.on_sent = on_sent
    what(ring)
    ring.run(6)
    ring.world.on_sent = told
    return uid not in ring.alive


def newcomer(ring: UnitsRing) -> None:
    ring.start(ring.alive[1:])


def death(ring: UnitsRing) -> None:
    ring.crash(ring.in_order[3], KILL)


def displaced(ring: UnitsRing) -> None:
    """A broker with a smaller ring id is linked: it was a ring of its own."""
    other = ring.found(5)
    ring.link(other, ring.in_order[-1])


@pytest.mark.parametrize(
    ("what", "messages", "step"),
    [
        (newcomer, 5, 4),
        (death, 5, 3),
        *(
            pytest.param(what, messages, 1, marks=pytest.mark.soak)
            for what, messages in ((newcomer, 5), (death, 5), (displaced, 2))
        ),
    ],
)
def test_a_steward_that_dies_after_any_message_leaves_one_table(
    what: Callable[[UnitsRing], Any], messages: int, step: int
) -> None:
    """It is killed after the first message of a grant, after the second (or third), and so on."""
    has_died, count = True, 1 - step
    while has_died:
        count += step
        ring = UnitsRing(seed=count)
        ring.found(1000)
        for _ in range(6):
            ring.join(ring.alive)
            ring.run(0.1)
        ring.rest()
        ring.agree()
        has_died = kill_after(ring, ring.in_order[0], count, what)
        ring.rest()
        assert ring.agree(5) <= 5
    assert count > messages, "it has sent so many"


def test_a_newcomer_that_stands_first_is_handed_the_table_over() -> None:
    ring = UnitsRing(seed=3)
    ring.found(1000)
    for _ in range(4):
        ring.join(ring.alive)
    ring.rest()
    ring.agree()
    before, steward = ring.addresses(), ring.in_order[0]
    ring.sent.clear()
    other = ring.found(5)
    ring.link(other, steward)
    ring.rest()
    ring.agree()
    assert ring.sent["StewardHandover"] == 1
    assert ring.brokers[steward].units.steward == other
    after = ring.addresses()
    assert {uid: after[uid] for uid in before} == before, "nobody's address has changed"


def test_the_death_of_the_steward_changes_nobodys_address() -> None:
    ring = UnitsRing.ring_of(8, seed=5)
    ring.agree()
    before, steward = ring.addresses(), ring.in_order[0]
    ring.crash(steward, POWER)
    ring.rest()
    ring.agree()
    del before[steward]
    assert ring.addresses() == before


# Slots


def warm(n: int, units: UnitsConfig) -> UnitsRing:
    """Return a ring of brokers all of which founded a cluster of their own."""
    ring = UnitsRing(seed=n, units=units)
    ring.start_warm(spread_evenly(n))
    ring.rest()
    ring.agree()
    return ring


def test_who_is_back_has_its_slot_again_and_no_newcomer_waits_for_one_at_rest() -> None:
    ring = warm(7, UnitsConfig(7))
    before = ring.addresses()
    dead, other = ring.in_order[3], ring.in_order[5]
    ring.crash(dead, KILL)
    ring.crash(other, KILL)
    ring.run(5)
    newcomer = ring.join(ring.alive)
    ring.run(3)
    assert ring.addresses()[newcomer] not in before.values()
    ring.restart(dead, ring.alive)
    ring.run(3)
    assert ring.addresses()[dead] == before[dead]
    assert ring.unit_findings() == []


@pytest.mark.parametrize("pause_s", [3.0, 40.0])
def test_after_a_partition_most_have_the_addresses_of_before(pause_s: float) -> None:
    ring = UnitsRing.ring_of(12, seed=7)
    ring.agree()
    before = ring.addresses()
    order = ring.in_order
    ring.part([order[:5], order[5:]])
    ring.run(pause_s)
    ring.heal()
    ring.rest(200)
    ring.agree(DIGESTS_EQUAL_S)
    assert ring.addresses() == before


@pytest.mark.parametrize(
    ("some", "others"),
    [
        (5, 8),
        pytest.param(8, 12, marks=pytest.mark.soak),
        pytest.param(20, 30, marks=pytest.mark.soak),
        pytest.param(30, 20, marks=pytest.mark.soak),
        pytest.param(40, 60, marks=pytest.mark.soak),
    ],
)
def test_two_rings_become_one(some: int, others: int) -> None:
    ring = UnitsRing(seed=some)
    ring.meet(some, others, 0.05)
    ring.rest(200)
    ring.agree(30)


def test_what_it_costs_at_rest_and_to_join() -> None:
    ring = UnitsRing.ring_of(16, seed=6)
    ring.agree()
    ring.run(30)
    ring.sent.clear()
    ring.run(60)
    assert ring.sent.total() <= 0.2 * 16 * 60
    ring.about_members = 0
    ring.join(ring.alive)
    ring.run(8)
    assert ring.about_members <= 3 * 16 + 60
