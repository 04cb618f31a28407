"""Order and once in a network whose paths change and whose brokers die.

Three publishers send to random sets of brokers. Nobody may miss, double or misplace anything.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

from overlay.ids import nanos
from tests.ges.order.network_model import FLOWS, MS, Network

SOURCES = (0, 3, 5)
EVENTS = 151
GAP_MS = 12


def story(
    seed: int,
    *,
    deaths: int = 0,
    at_ms: int | None = None,
    change_ms: int = 50,
    renews: bool = True,
    renews_after: bool = True,
    retains: bool = True,
) -> Network:
    """Let three publishers publish for 1.8 s while costs change and brokers die.

    ``at_ms``: when brokers die; then nothing is published afterwards.
    """
    n = 10 if deaths else 8
    net, rng = (
        Network(n, seed, renews=renews, renews_after=renews_after, retains=retains),
        random.Random(seed + 1000),
    )
    for broker in net.brokers:
        broker.order.doubt(0)
    end_ms = EVENTS * GAP_MS if at_ms is None else at_ms
    for flow, source in zip(FLOWS, SOURCES, strict=True):
        for at_event in range(0, end_ms, GAP_MS):
            when = (at_event + rng.randrange(GAP_MS)) * MS
            net.at(when, partial(net.publish, flow, source, rng.getrandbits(n)))
    if change_ms and at_ms is None:
        for at_change in range(100, end_ms, change_ms):
            net.at(at_change * MS, net.change_cost)
    start_ms = rng.randrange(300, 1500) if at_ms is None else at_ms
    for dead in rng.sample([slot for slot in range(n) if slot not in SOURCES], deaths):
        net.at((start_ms + rng.randrange(60)) * MS, partial(net.kill, dead))
    return net


def late_share(net: Network) -> tuple[int, int]:
    """Return how many events were held too long, and how many were held."""
    waits = [wait for broker in net.brokers if broker.lives for wait in broker.waits]
    return sum(waited > 4 * way + nanos(0.05) for waited, way in waits), len(waits)


SEEDS = pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(15), marks=pytest.mark.soak)], ids=["few", "many"]
)


@SEEDS
@pytest.mark.parametrize("deaths", [0, 2, 3])
def test_nobody_misses_doubles_or_misplaces_anything(deaths: int, seeds: range) -> None:
    """Nor waits longer than two round trips and 50 ms, in 99 of 100 cases."""
    late = held = 0
    for seed in seeds:
        net = story(seed, deaths=deaths)
        net.run()
        assert net.wrong() == [], seed
        assert all(broker.order.holds == 0 for broker in net.brokers if broker.lives)
        more_late, more = late_share(net)
        late, held = late + more_late, held + more
    assert held > 30 * len(seeds)
    assert late <= 0.01 * held


@SEEDS
@pytest.mark.parametrize("deaths", [0, 2])
def test_without_renewed_tokens_events_are_missed(deaths: int, seeds: range) -> None:
    wrong = 0
    for seed in seeds:
        net = story(seed, deaths=deaths, renews=False)
        net.run()
        wrong += len(net.wrong())
    assert wrong > len(seeds) // 2


@pytest.mark.parametrize("seed", [111, 149])
def test_the_first_new_event_after_what_was_given_away_has_a_way_of_its_own(seed: int) -> None:
    """Else a third event, which went elsewhere between the two, would be taken for another's."""
    for renews_after in (True, False):
        net = story(seed, deaths=2, renews_after=renews_after)
        net.run()
        assert (net.wrong() == []) is renews_after


@pytest.mark.parametrize("retains", [True, False])
def test_what_brokers_keep_covers_the_tail(retains: bool) -> None:
    """Two brokers die when the last event has been published: nothing later raises a doubt."""
    missed = 0
    for seed in range(15):
        net = story(seed, deaths=2, at_ms=700, retains=retains)
        net.run()
        wrong = net.wrong()
        if retains:
            assert wrong == [], seed
        missed += sum(fewer for _, _, fewer in wrong)
    assert (missed == 0) is retains


def test_there_are_no_questions_in_a_steady_state() -> None:
    for seed in range(10):
        net = story(seed, change_ms=0)
        net.run(until=600 * MS)
        early = net.batches
        assert early <= len(net.brokers) * len(FLOWS)  # first contacts
        net.run()
        assert (net.batches, net.wrong()) == (early, [])
        assert net.frames > 500
