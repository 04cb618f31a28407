"""A broker tells of its links, and how soon it does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ges.gateways.costs import BUCKETS_NS
from ges.gateways.link_state import LinkStates
from ges.gateways.naming import Naming
from ges.gateways.own_links import COST_NS, GATHER_NS, MUCH_NS, OwnLinks
from overlay.ids import LinkClass, Nanos, Peer
from ring.wire.messages import Member

A, B, C = (name * 32 for name in "abc")
EDGES = {
    uid: Member(Peer(uid, 1, f"chordal://{uid[0]}.test:1"), at) for at, uid in enumerate((B, C))
}


class Bench:
    """The links of broker ``a`` to its ring neighbours ``b`` and ``c``, told at time 0."""

    def __init__(self) -> None:
        self.cost: Nanos = BUCKETS_NS[3]
        self.agreed: Nanos = BUCKETS_NS[3]
        self.failed: set[str] = set()
        members = (EDGES[B],), (EDGES[C],)
        self.ring = SimpleNamespace(
            left=members[0], right=members[1], linked=dict(EDGES), peer=Peer(A, 1, "chordal://a:1")
        )
        survey = SimpleNamespace(
            cost_ns=lambda key: self.cost, agreed_cost_ns=lambda key, now: self.agreed
        )
        declared = SimpleNamespace(named=set(), carries=lambda peer: peer.uid not in self.failed)
        naming = Naming()
        naming.slots = {A: 0, B: 1, C: 2}
        units = SimpleNamespace(is_gone=lambda uid: False)
        parts: Any = (
            self.ring,
            units,
            survey,
            {},
            declared,
            lambda uid: False,
            naming,
            LinkStates(A),
        )
        self.links = cast("Any", OwnLinks)(*parts, level_costs=False)
        assert self.told(0) == {B: 3, C: 3}

    def told(self, now: Nanos) -> dict[str, int] | None:
        """Return what is told now, as buckets by uid; None: nothing."""
        self.links.look(now)
        state = self.links.news(0, now)
        if state is None:
            return None
        assert {link.link_class for link in state.links} == {LinkClass.NORMAL}
        return {link.uid: link.bucket for link in state.links}

    @property
    def look_at(self) -> Nanos:
        return cast("Nanos", self.links.look_at)


def test_a_small_change_of_cost_waits_for_eight_seconds() -> None:
    bench = Bench()
    bench.cost = bench.agreed = BUCKETS_NS[5]
    assert bench.told(COST_NS - 1) is None
    assert bench.look_at == COST_NS
    assert bench.told(COST_NS) == {B: 5, C: 5}


def test_a_large_one_is_told_after_a_second() -> None:
    bench = Bench()
    bench.cost = bench.agreed = BUCKETS_NS[6]
    assert bench.told(MUCH_NS - 1) is None
    assert bench.look_at == MUCH_NS
    assert bench.told(MUCH_NS) == {B: 6, C: 6}
    bench.cost = BUCKETS_NS[3]
    assert bench.told(2 * MUCH_NS) == {B: 3, C: 3}, (
        "a cost that counts as lower has been so for 3 s"
    )


def test_a_rise_that_the_latest_measurements_do_not_agree_on_is_looked_at_again() -> None:
    bench = Bench()
    bench.cost = BUCKETS_NS[9]
    assert bench.told(MUCH_NS) is None, "one measurement may have met a late process"
    assert MUCH_NS < bench.look_at < 2 * MUCH_NS
    assert bench.told(bench.look_at) is None
    bench.agreed = BUCKETS_NS[9]
    assert bench.told(bench.look_at) == {B: 9, C: 9}


def test_a_link_that_has_failed_is_told_of_no_more_though_the_ring_goes_round_it() -> None:
    bench = Bench()
    bench.failed.add(B)
    assert bench.told(GATHER_NS) == {C: 3}


def test_a_link_that_is_lost_counts_for_a_moment() -> None:
    bench = Bench()
    del bench.ring.linked[B]
    assert bench.told(GATHER_NS) is None
    assert bench.told(20 * GATHER_NS) == {C: 3}
