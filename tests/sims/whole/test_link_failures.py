"""Links that fail while both their brokers live (paper 004, section 3.4.2)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from overlay.ids import Nanos, nanos
from overlay.rng import rng_for
from overlay.trace_schema import Verdict
from ring.config import LAN
from ring.facts import (
    ChordLost,
    Confirmed,
    LinkFailed,
    NeighboursChanged,
    Rejoining,
)
from ring.wire.messages import Relay
from sims.experiments.cluster import KILL, POWER, Cluster
from sims.world.cuts import OF_LINKS, Cut
from sims.world.world import CrashMode

SILENCE_S = LAN.silence_ns / 1e9
MINUTES_S = 180.0
#: A direct link is tried again that often at the least, and takes a time-out to fail.
BACK_S = 1.5 * LAN.retry_max_ns / 1e9 + 2.5

MODES = pytest.mark.parametrize("mode", OF_LINKS)
STEPS = pytest.mark.parametrize("step", [1, 2], ids=["neighbour", "second neighbour"])


def beside(cluster: Cluster, step: int = 1) -> tuple[str, str]:
    """Return two brokers that stand ``step`` places from each other."""
    order = cluster.in_order
    return order[3], order[(3 + step) % len(order)]


def relays(cluster: Cluster) -> list[tuple[str, Relay]]:
    """Note every relay that arrives from now on, and where."""
    seen: list[tuple[str, Relay]] = []
    for uid, host in cluster.world.hosts.items():
        machine = host.machine
        handle = machine.handle

        def noting(event: object, now: Nanos, uid: str = uid, handle: object = handle) -> object:
            message = getattr(event, "message", None)
            if isinstance(message, Relay):
                seen.append((uid, message))
            return handle(event, now)  # type: ignore[operator]

        machine.handle = noting  # type: ignore[method-assign, assignment]
    return seen


def unharmed(cluster: Cluster) -> bool:
    """Nobody was taken for dead, and no pointer has moved."""
    bad = (Confirmed, NeighboursChanged, Rejoining)
    return cluster.findings() == [] and not any(cluster.told(kind) for kind in bad)


# Ring links


@MODES
def test_both_ends_conclude_that_the_link_failed_and_name_their_witness(mode: Cut) -> None:
    cluster = Cluster.ring_of(12)
    a, b = beside(cluster)
    cluster.cut(a, b, mode)
    cluster.run(2 * SILENCE_S)
    for here, there in ((a, b), (b, a)):
        [(_, fact)] = [(uid, f) for uid, f in cluster.told(LinkFailed) if uid == here]
        assert isinstance(fact, LinkFailed)
        assert fact.subject.uid == there
        [ruling] = cluster.nodes[here].verdicts
        assert (ruling.uid, ruling.verdict) == (there, Verdict.LINK_FAILED)
        assert ruling.witnesses == (fact.witness,)
        assert fact.witness in cluster.nodes[there].linked
        assert ruling.path == cluster.nodes[here].detours[there]
    rows = {row.subject: row for row in cluster.ledger.incidents("run")}
    assert {uid: row.verdict for uid, row in rows.items()} == dict.fromkeys(
        (a, b), Verdict.LINK_FAILED
    )
    assert all(row.witnesses for row in rows.values())


def test_what_they_say_goes_through_the_neighbours_neighbour() -> None:
    """Section 3.4.2: traffic for B goes through C."""
    cluster = Cluster.ring_of(12)
    a, b = beside(cluster)
    cluster.cut(a, b)
    cluster.run(5.0)
    [third] = cluster.nodes[a].detours[b][1:-1]
    assert third in {m.uid for m in (cluster.nodes[a].right[1], cluster.nodes[a].left[0])}
    seen = relays(cluster)
    cluster.run(20.0)  # to b, which hears no heartbeats, something goes every 12 to 18 s
    beats = 20.0 / (LAN.heartbeat_ns / 1e9)
    ways = [(relay.path[0], uid) for uid, relay in seen if relay.path[-1] == uid]
    assert {*ways} == {(a, b), (b, a)}
    assert len(ways) >= beats - 1, "heartbeats go at least one way"
    assert {len(relay.path) for _, relay in seen} == {3}


@pytest.mark.parametrize("crash", [KILL, POWER])
def test_if_the_broker_in_between_dies_another_way_is_found(crash: CrashMode) -> None:
    cluster = Cluster.ring_of(12)
    a, b = beside(cluster)
    cluster.cut(a, b)
    cluster.run(10.0)
    between = cluster.nodes[a].detours[b][1]
    cluster.crash(between, crash)
    cluster.rest()
    dead = {f.subject.uid for _, f in cluster.told(Confirmed) if isinstance(f, Confirmed)}
    assert dead == {between}
    assert between not in cluster.nodes[a].detours[b]
    assert between not in cluster.nodes[b].detours[a]


@pytest.mark.parametrize("turned", [False, True])
@STEPS
def test_a_link_that_fails_one_way_is_gone_round_both_ways(step: int, turned: bool) -> None:
    cluster = Cluster.ring_of(12)
    a, b = beside(cluster, step)
    cluster.cut(*((b, a) if turned else (a, b)), one_way=True)
    cluster.run(MINUTES_S)
    assert unharmed(cluster)
    assert (b in cluster.nodes[a].detours, a in cluster.nodes[b].detours) == (True, True)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (3, 4))]
)
def test_pairs_that_can_never_reach_each_other_form_a_whole_ring(seed: int) -> None:
    """Non-transitive reachability: every fifth pair is cut from the start."""
    cluster = Cluster(seed)
    n = 16
    rng = rng_for(seed, "pairs")
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    for i, j in rng.sample(pairs, len(pairs) // 5):
        cluster.cut(cluster.name(i), cluster.name(j))
    cluster.found()
    while len(cluster.nodes) < n:
        cluster.start(list(cluster.nodes)[:6])
        cluster.run(1.0)
    cluster.rest(120.0)
    cut = [
        (uid, other)
        for uid, node in cluster.nodes.items()
        for other in (m.uid for m in (*node.left, *node.right))
        if cluster.world.is_cut(uid, other)
    ]
    assert cut, "a seed whose ring has no cut neighbours shows nothing"
    assert all(other in cluster.nodes[uid].detours for uid, other in cut)
    cluster.facts.clear()
    cluster.run(MINUTES_S)
    assert unharmed(cluster)


# Links that flap


def test_a_link_that_flaps_is_used_again_after_pauses_that_grow() -> None:
    cluster = Cluster.ring_of(12)
    a, b = beside(cluster)
    pauses = []
    for _ in range(6):
        cluster.cut(a, b, Cut.BROKEN)
        cluster.run(1.0)
        assert b in cluster.nodes[a].detours
        cluster.mend(a, b)
        since = cluster.world.now
        while b in cluster.nodes[a].detours:
            cluster.run(0.5)
            assert cluster.world.now - since < nanos(400)
        pauses.append((cluster.world.now - since) / 1e9)
        cluster.run(1.0)
    assert unharmed(cluster)
    assert max(pauses[:2]) < BACK_S
    grown = pauses[2:]
    assert all(later > 1.5 * earlier for earlier, later in pairwise(grown))


# Chords


def chord_of(cluster: Cluster, level: int = 3) -> tuple[str, str]:
    """Return a broker and its chord of a level, which is no ring neighbour."""
    a = cluster.in_order[4]
    return a, cluster.nodes[a].chords[level].uid


@MODES
@pytest.mark.parametrize(
    ("n", "seed"),
    [
        (24, 1),
        pytest.param(24, 2, marks=pytest.mark.soak),
        *(pytest.param(40, seed, marks=pytest.mark.soak) for seed in (1, 2, 3)),
    ],
)
def test_a_chord_is_gone_round_by_the_path_of_a_query(mode: Cut, n: int, seed: int) -> None:
    cluster = Cluster.ring_of(n, seed)
    cluster.run(120.0)  # chords stay as they are now
    cluster.facts.clear()
    a, b = chord_of(cluster)
    cluster.cut(a, b, mode)
    cluster.run(60.0)
    assert cluster.findings() == []
    by_its_path = []
    for here, there in ((a, b), (b, a)):
        assert there in cluster.nodes[here].detours
        [ruling] = cluster.nodes[here].verdicts
        assert (ruling.uid, ruling.verdict) == (there, Verdict.LINK_FAILED)
        by_its_path.append(ruling.witnesses == (cluster.nodes[here].detours[there][-2],))
    assert any(by_its_path), "both may query at one moment, and one detour stands"
    assert cluster.told(ChordLost) == []
    cluster.mend(a, b)
    cluster.run(BACK_S)
    assert cluster.nodes[a].detours == cluster.nodes[b].detours == {}


@pytest.mark.parametrize("crash", [KILL, POWER])
def test_a_chord_whose_broker_died_is_not_taken_for_a_failed_link(crash: CrashMode) -> None:
    cluster = Cluster.ring_of(24)
    cluster.run(30.0)
    cluster.facts.clear()
    a, b = chord_of(cluster)
    cluster.crash(b, crash)
    cluster.run(60.0)
    assert cluster.findings() == []
    assert cluster.told(LinkFailed) == []
    assert b not in {member.uid for member in cluster.nodes[a].chords}
