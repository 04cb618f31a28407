"""Brokers that all start with one list form one ring, in whatever order things happen."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.ids import Nanos, nanos
from ring.config import WAN
from ring.facts import Joined, Rejoining
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.stories.joins import second_founders
from sims.world.cuts import OF_LINKS, Cut
from sims.world.world import CrashMode
from tests.helpers.examples import examples

SOON_S = 5.0  #: "within seconds"
LIMIT_S = 200.0  #: small rings that a cut has parted knock rarely


def listed(cluster: Cluster, n: int) -> list[str]:
    """Return the uids of the first ``n`` brokers to be started: the list of all."""
    return [cluster.name(number) for number in range(n)]


def founders(cluster: Cluster) -> list[str]:
    return [uid for uid, f in cluster.told(Joined) if isinstance(f, Joined) and f.contact is None]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16])
def test_those_that_start_with_one_list_form_one_ring_within_seconds(n: int) -> None:
    for seed in range(3):
        cluster = Cluster(seed)
        for _ in range(n):
            cluster.start(listed(cluster, n))
        assert cluster.rest() < SOON_S
        assert len(founders(cluster)) == 1
        assert len(cluster.in_order) == n
        assert cluster.told(Rejoining) == []


def test_bootstrap_waits_for_so_many() -> None:
    cluster = Cluster(config=WAN)
    names = listed(cluster, 5)
    for at in range(3):
        cluster.start(names, bootstrap=3)
        if at < 2:
            cluster.run(30)
            assert founders(cluster) == []
    cluster.rest()
    assert len(founders(cluster)) == 1
    assert len(cluster.in_order) == 3


def test_one_that_founded_because_of_a_short_cut_soon_meets_the_others() -> None:
    for seed in range(3):
        cluster = Cluster(seed)
        names = listed(cluster, 4)
        cluster.part([names[:1], names[1:]])
        for _ in names:
            cluster.start(names)
        cluster.run(7)
        assert len(founders(cluster)) == 2
        cluster.heal()
        assert cluster.rest() < 12


# Whatever happens in between


@dataclass(frozen=True)
class Start:
    """What happens to one broker of the list, in seconds from the beginning."""

    at: float
    crash: float | None  #: after the start
    mode: CrashMode
    restart: float  #: after the crash


moments = st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 1.6, 2.5])
starts = st.builds(
    Start,
    at=moments,
    crash=st.none() | moments,
    mode=st.sampled_from([KILL, POWER]),
    restart=moments,
)


@dataclass(frozen=True)
class Parting:
    """A cut between two brokers of the list, or between two parts of it."""

    at: float
    seconds: float
    parts: tuple[frozenset[int], frozenset[int]]
    mode: Cut


Crashes = list[tuple[Nanos, str]]


def partings(n: int) -> st.SearchStrategy[Parting]:
    numbers = st.frozensets(st.integers(0, n - 1), min_size=1)
    return st.builds(
        lambda at, seconds, one, other, mode: Parting(at, seconds, (one, other - one), mode),
        moments,
        st.sampled_from([0.2, 1.0, 3.0, 20.0]),
        numbers,
        numbers,
        st.sampled_from(OF_LINKS),
    )


def play(seed: int, plan: list[Start], cuts: list[Parting]) -> tuple[Cluster, Crashes]:
    """Let all happen in its order; then all that was cut is mended, and all live."""
    # What is said takes as long as brokers on a LAN wait between two looks.
    cluster, crashes = Cluster(seed, distances="wan"), Crashes([])
    names = listed(cluster, len(plan))
    steps: list[tuple[float, int, str, int]] = []
    for number, start in enumerate(plan):
        steps.append((start.at, number, "start", number))
        if start.crash is not None:
            steps.append((start.at + start.crash, number, "crash", number))
            steps.append((start.at + start.crash + start.restart, number, "restart", number))
    for number, cut in enumerate(cuts):
        steps.append((cut.at, number, "cut", number))
        steps.append((cut.at + cut.seconds, number, "mend", number))
    begun = cluster.world.now
    for at, _, verb, number in sorted(steps, key=lambda step: step[:2]):
        cluster.world.run(max(cluster.world.now, begun + nanos(at)))
        if verb == "start":
            cluster.start(names, uid=names[number])
        elif verb == "crash":
            cluster.crash(names[number], plan[number].mode)
            crashes.append((cluster.world.now, names[number]))
        elif verb == "restart":
            cluster.restart(names[number], names)
        else:
            cut = cuts[number]
            for one in cut.parts[0]:
                for other in cut.parts[1]:
                    if verb == "cut":
                        cluster.cut(names[one], names[other], cut.mode)
                    else:
                        cluster.mend(names[one], names[other])
    return cluster, crashes


@settings(max_examples=examples(60))
@given(st.integers(0, 9), st.lists(starts, min_size=2, max_size=6))
def test_without_a_cut_nobody_founds_where_another_lives_on_a_ring(
    seed: int, plan: list[Start]
) -> None:
    cluster, crashes = play(seed, plan, [])
    cluster.rest()
    assert len(cluster.in_order) == len(plan)
    assert second_founders(cluster, crashes, listed(cluster, len(plan))) == []


@settings(max_examples=examples(40))
@given(
    st.integers(0, 9),
    st.lists(starts, min_size=2, max_size=6).flatmap(
        lambda plan: st.tuples(st.just(plan), st.lists(partings(len(plan)), max_size=3))
    ),
)
def test_when_all_cuts_are_mended_all_are_one_ring(
    seed: int, plan: tuple[list[Start], list[Parting]]
) -> None:
    cluster, _ = play(seed, *plan)
    cluster.rest(LIMIT_S)
    assert len(cluster.in_order) == len(plan[0])
