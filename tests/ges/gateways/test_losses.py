"""Lost connections are told apart as brute force over all simple paths tells them apart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.gateways.losses import Loss, Severity, losses
from tests.ges.gateways.networks import Network, Pair, Place, network, node
from tests.helpers.examples import examples

HARMLESS, DEGRADED, PARTITION = Severity.HARMLESS, Severity.DEGRADED, Severity.PARTITION


FEW = 8  #: links that are counted one by one in statements; of more nobody outside needs to know


def found(before: Network, after: Network, at: Place) -> set[Loss]:
    many = set(joined_by_many(before, at))
    told = losses(before.known_at(at), after.known_at(at))
    return {loss for loss in told if (loss.level, loss.a, loss.b) not in many}


def joined_by_many(before: Network, at: Place) -> Iterator[tuple[int, int, int]]:
    """Yield the pairs of units, with their level, of whose links not all losses are told."""
    for level in range(4):
        for a, b in combinations(before.units(level, at[: 3 - level]), 2):
            if before.between(a, b) > FEW:
                yield level, node(a), node(b)


def expected(before: Network, after: Network, at: Place) -> set[Loss]:
    """What a broker is to find, from the network itself."""
    told = set()
    for level in range(4):
        siblings = before.units(level, at[: 3 - level])
        for i, a in enumerate(siblings):
            for b in siblings[i + 1 :]:
                left = after.between(a, b)
                if left < before.between(a, b) <= FEW:
                    told.add(Loss(level, node(a), node(b), after.judge(a, b), left))
    return told


def drawn(rng: random.Random, brokers: int, links: int) -> Network:
    """A network with random addresses, crowded at random levels, and random links."""
    sizes = [rng.choice((1, 1, 2, 3)) for _ in range(3)]
    chosen: set[Place] = set()
    while len(chosen) < brokers:
        chosen.add((*(rng.randrange(size) for size in sizes), rng.randrange(16)))
    all_brokers = tuple(sorted(chosen))
    pairs = {
        tuple(sorted(rng.sample(all_brokers, 2))) for _ in range(links) if len(all_brokers) > 1
    }
    return Network(all_brokers, tuple((a, b) for a, b in sorted(pairs)))


def check(before: Network, lost: list[Pair]) -> set[Loss]:
    after = before.without(*lost)
    told: set[Loss] = set()
    for at in before.brokers:
        here = found(before, after, at)
        assert here == expected(before, after, at), (before, lost, at)
        told |= here
    return told


def check_drawn(rng: random.Random, brokers: int, links: int) -> set[Loss]:
    before = drawn(rng, brokers, links)
    return check(before, rng.sample(before.links, min(rng.randint(1, 4), len(before.links))))


numbers = st.integers(0, 2)
all_places = st.lists(
    st.tuples(numbers, numbers, numbers, numbers), min_size=2, max_size=8, unique=True
)
all_ends = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=11)


@settings(max_examples=examples(150), deadline=None)
@given(
    all_places, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=11), st.data()
)
def test_losses_are_told_apart_as_all_simple_paths_tell_them(
    brokers: list[Place], ends: list[tuple[int, int]], data: st.DataObject
) -> None:
    pairs = {tuple(sorted((brokers[a % len(brokers)], brokers[b % len(brokers)]))) for a, b in ends}
    links = sorted((a, b) for a, b in pairs if a != b)
    lost = data.draw(st.lists(st.sampled_from(links), max_size=4)) if links else []
    check(Network(tuple(sorted(brokers)), tuple(links)), lost)


def test_all_three_kinds_come_up_at_each_level() -> None:
    rng = random.Random(4)
    kinds = {(loss.level, loss.severity) for _ in range(150) for loss in check_drawn(rng, 8, 14)}
    assert kinds == {(level, severity) for level in range(4) for severity in Severity}


@pytest.mark.soak
def test_ten_thousand_random_losses_are_told_apart() -> None:
    rng, judged = random.Random(13), 0
    while judged < 10_000:
        judged += len(check_drawn(rng, rng.randint(2, 9), rng.randint(1, 11)))


# ── the long report on the Grid Event Service, section 9.6 and its figure 10 ──────────────────
# Units A, B, C and D, where D has SC-10 and SC-11. The link A-B is assumed: the text says that the
# network is whole before the losses, and without it B has no other way than [n,x].

D_P = ("0.0.0.0", "2.0.0.0")  #: gateway [d,p], A-C
N_X = ("1.0.0.0", "3.10.0.0")  #: gateway [n,x], B-D.SC-10
U_Z = ("2.0.0.1", "3.11.0.0")  #: gateway [u,z], C-D.SC-11
W_Z = ("3.10.0.1", "3.11.0.0")  #: gateway [w,z], SC-10-SC-11
FIGURE_10 = network(
    [
        *(D_P, N_X, U_Z, W_Z),
        ("0.0.0.1", "1.0.0.1"),  # A-B, assumed
        ("0.0.0.0", "0.0.0.1"),
        ("1.0.0.0", "1.0.0.1"),
        ("2.0.0.0", "2.0.0.1"),
        ("3.10.0.0", "3.10.0.1"),
    ]
)


def lost(*pairs: tuple[str, str], at: str) -> dict[tuple[int, int, int], Severity]:
    """Return what one broker of figure 10 finds when links are lost."""
    one = network(pairs).links
    (place,) = network((), at).brokers
    told = found(FIGURE_10, FIGURE_10.without(*one), place)
    return {(each.level, each.a % 64, each.b % 64): each.severity for each in told}


def test_p2_figure_10_without_d_p_and_n_x_c_and_d_are_cut_off() -> None:
    for at in ("0.0.0.0", "1.0.0.1", "2.0.0.1", "3.10.0.0"):
        assert lost(D_P, N_X, at=at) == {(3, 0, 2): PARTITION, (3, 1, 3): PARTITION}
    after = FIGURE_10.without(*network((D_P, N_X)).links).known_at((0, 0, 0, 0))
    assert not any(b % 64 in (2, 3) and a % 64 in (0, 1) for a, b in after.at_level(3))


def test_p2_figure_10_without_n_x_and_w_z_sc_10_is_cut_off() -> None:
    """D is still reached, by SC-11; nobody outside D is told that SC-10 is not."""
    for at in ("3.10.0.1", "3.11.0.0"):
        assert lost(N_X, W_Z, at=at) == {(2, 10, 11): PARTITION, (3, 1, 3): DEGRADED}
    assert lost(N_X, W_Z, at="0.0.0.0") == {(3, 1, 3): DEGRADED}


def test_p2_figure_10_without_w_z_alone_there_is_no_partition() -> None:
    """[u,z] and [n,x] remain: D is split inside, the network is not."""
    for at in ("3.10.0.1", "3.11.0.0"):
        assert lost(W_Z, at=at) == {(2, 10, 11): DEGRADED}
    assert lost(W_Z, at="2.0.0.0") == {}, "who is outside D is not told"


def test_p2_conjecture_9_1_a_lost_gateway_is_made_good_by_one_of_a_higher_level() -> None:
    """Clusters 0 and 1 lost their link; both have one to another super-cluster."""
    before = network(
        [
            ("0.0.0.0", "0.0.1.0"),
            ("0.0.0.0", "0.1.0.0"),
            ("0.0.1.0", "0.1.0.0"),
        ]
    )
    after = before.without(before.links[0])
    assert found(before, after, (0, 0, 0, 0)) == {Loss(1, 64, 65, DEGRADED, 0)}


def test_p2_conjecture_9_1_never_the_other_way() -> None:
    """Super-clusters 0 and 1 lost their link: links between the clusters of each do not help."""
    before = network(
        [
            ("0.0.0.0", "0.1.0.0"),
            ("0.0.0.0", "0.0.1.0"),
            ("0.1.0.0", "0.1.1.0"),
        ]
    )
    after = before.without(before.links[0])
    assert found(before, after, (0, 0, 0, 0)) == {Loss(2, 128, 129, PARTITION, 0)}


def test_p0_figure_5_without_its_only_cluster_gateway_b_is_reached_by_super_clusters() -> None:
    """At SSC-A.SC-1.c.6: without 4-b, cluster b is reached by 5, SC-2 and SC-3 alone."""
    figure = network(
        [
            *(("0.1.3.6", "0.1.3.4"), ("0.1.3.6", "0.1.3.5"), ("0.1.3.4", "0.1.3.5")),
            *(("0.1.3.5", "0.2.0.0"), ("0.1.3.4", "0.1.2.0"), ("0.3.0.0", "0.2.0.0")),
            *(("0.3.0.0", "0.1.2.0"), ("0.3.7.0", "1.0.0.0"), ("0.1.1.0", "1.0.0.0")),
            *(("1.0.0.0", "3.0.0.0"), ("1.0.0.1", "3.0.0.1"), ("0.1.1.0", "0.1.2.0")),
        ],
    )
    after = figure.without(((0, 1, 3, 4), (0, 1, 2, 0)))
    assert found(figure, after, (0, 1, 3, 6)) == {Loss(1, 64 + 2, 64 + 3, DEGRADED, 0)}


# ── what is told late, or not at all ──────────────────────────────────────────────────────────


def test_a_unit_that_is_cut_off_is_not_believed_in_what_it_said_before() -> None:
    """Cluster 1 is cut off; its last statement says that it has links to all."""
    before = network(
        [
            ("0.0.0.0", "0.0.1.0"),
            ("0.0.0.0", "0.0.2.0"),
            ("0.0.1.0", "0.0.2.0"),
            ("0.0.1.0", "0.1.0.0"),
            ("0.0.0.0", "0.1.0.0"),
        ]
    )
    after = before.without(*(link for link in before.links if (0, 0, 1, 0) in link))
    at = (0, 0, 0, 0)
    here = after.known_at(at, before, (0, 0, 1))
    told = {(each.a, each.b): each.severity for each in losses(before.known_at(at), here)}
    assert told == {(64, 65): PARTITION, (65, 66): PARTITION, (128, 129): DEGRADED}


def test_what_is_gone_has_lost_no_connection() -> None:
    before = network([("0.0.0.0", "0.0.1.0"), ("0.0.0.0", "0.0.0.1")])
    after = network((), "0.0.0.0")
    assert found(before, after, (0, 0, 0, 0)) == set()


def test_one_link_of_two_is_degraded_and_of_three_harmless() -> None:
    links = [("0.0.0.0", "0.0.1.0"), ("0.0.0.0", "0.0.1.1"), ("0.0.0.0", "0.0.1.2")]
    inside = [("0.0.1.0", "0.0.1.1"), ("0.0.1.1", "0.0.1.2"), ("0.0.1.0", "0.0.1.2")]
    three, two, one, none = (network([*links[:n], *inside], "0.0.0.0") for n in (3, 2, 1, 0))
    at = (0, 0, 0, 0)
    assert found(three, two, at) == {Loss(1, 64, 65, HARMLESS, 2)}
    assert found(two, one, at) == {Loss(1, 64, 65, DEGRADED, 1)}
    assert found(one, none, at) == {Loss(1, 64, 65, PARTITION, 0)}
