"""Events that flow through whole brokers while links and brokers fail; all seeds: ``make soak``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlay.ids import LinkClass
from overlay.trace_schema import Fate
from sims.experiments.forgers import Claim, Forger
from sims.experiments.service import Service
from sims.stories.events import (
    event_flaps,
    event_forgeries,
    event_freezes,
    event_halves,
    event_isolations,
    event_kills,
    event_roams,
    event_topics,
    forge,
)
from sims.stories.stories import Story
from sims.workloads.traffic import Flowing

ROOT = Path(__file__).parent.parent.parent.parent
STORIES = (
    event_flaps,
    event_forgeries,
    event_freezes,
    event_halves,
    event_isolations,
    event_kills,
    event_roams,
    event_topics,
)
#: A link of an earlier life took events that nobody got; an end was lost with bytes that were late.
FOUND = [pytest.param(event_kills, 5, marks=pytest.mark.soak), (event_flaps, 119)]
PER_RUN = 25  #: seeds
RUNS = range(10, 260, PER_RUN)


@pytest.mark.parametrize(
    ("story", "seed"),
    [
        pytest.param(
            story,
            seed,
            # Those that have found something are played below, with the seed that did.
            marks=[pytest.mark.soak] * (seed == 3 or story in (event_kills, event_flaps)),
            id=f"{story.__name__}-{seed}",
        )
        for story in STORIES
        for seed in (2, 3)
    ],
)
def test_nothing_is_lost_without_a_reason(story: Story, seed: int) -> None:
    assert story(seed) == []


@pytest.mark.parametrize(("story", "seed"), FOUND)
def test_what_was_lost_once_is_not_lost_again(story: Story, seed: int) -> None:
    assert story(seed) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", RUNS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_nothing_is_lost_in_many_runs(story: Story, first: int) -> None:
    found = {seed: story(seed) for seed in range(first, first + PER_RUN)}
    assert {seed: findings for seed, findings in found.items() if findings} == {}


@pytest.mark.parametrize("claim", [Claim.NOWHERE, Claim.BESIDE])
@pytest.mark.soak  # the story ``event_forgeries`` is shorter
def test_six_false_brokers_keep_nobody_off_a_ring_of_sixteen(claim: Claim) -> None:
    service = Service.ring_of(16, seed=1)
    service.subscribe_everywhere()
    for at in (0, 5, 9):
        service.publish(service.uids[at], Flowing(rate=10))
    service.run(1)
    assert forge(service, service.uids[3], 60, claim) == []
    verdict = service.finish()
    assert (verdict.findings, verdict.lost) == ([], {})


@pytest.mark.parametrize("at_victim", [True, False])
def test_one_false_broker_beside_a_healthy_one_costs_it_neither_a_life_nor_an_event(
    *, at_victim: bool
) -> None:
    """It has one plain connection, to the victim or to the victim's left neighbour."""
    service = Service.ring_of(6, seed=1)
    service.subscribe_everywhere()
    victim = service.uids[3]
    service.publish(service.uids[0], Flowing(rate=20))
    service.run(1)
    left = service.brokers[victim].node.ring.left[0].uid
    liar = Forger(service, 0, victim if at_victim else left, victim, Claim.BESIDE)
    liar.holds_dead = False
    liar.go_on(6)
    service.run(6)
    assert liar.told > 5
    assert service.brokers[victim].node.peer.incarnation == 1
    verdict = service.finish()
    assert (verdict.findings, verdict.lost) == ([], {})
    assert service.is_whole


def test_clients_are_told_that_their_broker_was_off_the_ring() -> None:
    """It stands still, is held for dead, and comes back; its clients stay with it."""
    service = Service(1, keeps_alive=False)
    service.start(())
    while len(service.brokers) < 5:
        service.start(service.uids)
        service.run(0.1)
    service.rest()
    victim = service.uids[2]
    client, other = service.subscribe(victim), service.subscribe(service.uids[3])
    service.run(0.5)
    service.pause(victim, 5)
    service.run(10)
    assert service.is_whole
    assert len(client.gaps) == 1
    assert 1 < client.gaps[0] < 10
    assert other.gaps == []


@pytest.mark.parametrize("link_class", list(LinkClass))
def test_while_nothing_fails_each_event_comes_once_to_everybody(link_class: LinkClass) -> None:
    service = Service.ring_of(5, seed=1, secure=link_class is LinkClass.SECURE)
    service.subscribe_everywhere()
    service.publish(service.uids[1], Flowing(rate=50, link_class=link_class, park_ms=1000))
    service.run(2)
    verdict = service.finish(settle_s=1)
    assert (verdict.findings, verdict.lost) == ([], {})
    assert verdict.fates[Fate.ONCE] >= 5 * 90


@pytest.mark.parametrize(
    ("broken", "story", "seed"),
    [
        ("overlay.queues.resend.Outgoing.take_back", event_flaps, 2),
        ("ges.delivery.replays.Replays.take", event_kills, 2),
    ],
)
def test_a_broken_way_of_events_is_noticed(
    broken: str, story: Story, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, lambda *args: [])
    assert story(seed) != []


PROGRAM = """
from sims.experiments.service import Service
from sims.stories import events
from overlay.rng import rng_for
service = events.flowing(rng_for(4, "test"), 4, size=5, publishers=3)
service.run(1)
service.crash(service.uids[2], "power")
service.run(2)
verdict = service.finish()
print(verdict, service.network.bytes, service.timeline.events, sorted(service.counters.items()))
"""


def played(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    assert played("1") == played("2") != ""
