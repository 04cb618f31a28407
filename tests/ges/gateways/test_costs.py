"""What edges cost."""

from __future__ import annotations

import itertools

from ges.gateways.costs import BUCKETS_NS, LAST_BUCKET, LEVEL_NS, bucket_of, edge_ns, matrix
from overlay.multigraph.cost import HOP_NS, MAX_COST_NS


def test_table_1() -> None:
    assert [[matrix(i, j) for j in range(4)] for i in range(4)] == [
        [0, 1, 2, 3],
        [1, 2, 3, 4],
        [2, 3, 4, 5],
        [3, 4, 5, 6],
    ]


def test_a_hop_inside_a_cluster_costs_50_us_at_least() -> None:
    assert edge_ns(0, 0, bucket_of(1)) == HOP_NS == 50_000
    assert edge_ns(0, 1, bucket_of(400_000)) - LEVEL_NS == BUCKETS_NS[6] == 569_530


def test_a_bucket_is_half_as_dear_again_as_the_one_before() -> None:
    assert all(2 * b == 3 * a - a % 2 for a, b in itertools.pairwise(BUCKETS_NS))
    assert BUCKETS_NS[LAST_BUCKET] >= MAX_COST_NS
    assert [bucket_of(cost) for cost in BUCKETS_NS] == list(range(LAST_BUCKET + 1))
    assert bucket_of(BUCKETS_NS[7] + 1) == 8
    assert bucket_of(10 * MAX_COST_NS) == LAST_BUCKET


def test_a_cost_that_wavers_about_a_border_keeps_its_bucket() -> None:
    border = BUCKETS_NS[7]
    held = bucket_of(border)
    for cost in (border * 9 // 10, border * 6 // 5, border - 1, border + 1):
        held = bucket_of(cost, held)
        assert held == 7
    assert bucket_of(border * 13 // 10, held) == 8
    assert bucket_of(BUCKETS_NS[6] * 7 // 10, held) == 6


def test_a_bucket_that_cannot_be_is_not_kept() -> None:
    assert bucket_of(1, 1000) == 0
