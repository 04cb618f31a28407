"""What a unit says of its links counts if the others say so too: it may have died since."""

from __future__ import annotations

import pytest

from ges.gateways.next_hops import NextHops
from tests.ges.gateways.networks import Network, graph_at, network, node, places

#: Three clusters of one super-cluster, each linked with each, and one beyond, linked with two.
LINKS = [
    ("0.0.0.0", "0.0.1.0"),
    ("0.0.0.0", "0.0.2.0"),
    ("0.0.1.0", "0.0.2.0"),
    ("0.0.0.0", "0.1.0.0"),
    ("0.0.2.0", "0.1.0.0"),
]
ALL = network(LINKS)
DEAD = "0.0.2.0"


def reached(now: Network, broker: str) -> set[int]:
    """The nodes to which a broker knows a way; the third cluster has told last before ``now``."""
    (place, dead) = places(broker, DEAD)
    table = NextHops(place[-1])
    table.update(graph_at(now, place, ALL, dead[:3]))
    return {at for at in range(256) if table.next_hop(at) >= 0}


def third() -> int:
    return node(places(DEAD)[0][:3])


@pytest.mark.parametrize("broker", ["0.0.0.0", "0.0.1.0"])
def test_no_way_leads_to_a_cluster_that_has_died_and_is_still_stated(broker: str) -> None:
    left = network([pair for pair in LINKS if DEAD not in pair], DEAD)
    assert third() in reached(ALL, broker)
    assert third() not in reached(left, broker)


def test_a_way_that_others_confirm_is_taken() -> None:
    left = network([pair for pair in LINKS if pair != ("0.0.0.0", DEAD)])
    assert third() in reached(left, "0.0.0.0")
