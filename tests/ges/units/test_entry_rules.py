"""Whom a broker lets into its cluster."""

from __future__ import annotations

import pytest

from ges.units.entry_rules import EVERYBODY, parse_rules
from overlay.errors import ConfigError
from overlay.ids import Peer
from ring.facts import JoinRejected
from tests.helpers.named_ring import NamedRing

ONE = "7f" * 16


def peer(host: str, uid: str = "00" * 16) -> Peer:
    return Peer(uid, 1, f"chordal://{host}:9470")


def test_without_rules_everybody_comes_in() -> None:
    assert EVERYBODY.why_not(peer("192.0.2.1")) is None
    assert not EVERYBODY.is_at_threshold(0, {0: 1000})


def test_an_address_in_a_range_or_a_uid_comes_in() -> None:
    rules = parse_rules(["10.1.0.0/16", "2001:db8::/32", "192.0.2.7", f"uid:{ONE}"])
    for host in ("10.1.255.3", "[2001:db8::1]", "192.0.2.7", "[::ffff:10.1.0.1]"):
        assert rules.why_not(peer(host)) is None, host
    assert rules.why_not(peer("192.0.2.8", ONE)) is None
    for host in ("10.2.0.1", "[2001:db9::1]", "192.0.2.8", "b.example"):
        assert rules.why_not(peer(host)) == f"it does not admit 00000000 at {host.strip('[]')}"


@pytest.mark.parametrize(
    "entry", ["10.1.0.0/33", "10.1.2.3/16", "b.example", "uid:7f", "UID:" + ONE]
)
def test_what_is_neither_is_refused_with_an_example(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"such as 10\.1\.0\.0/16"):
        parse_rules([entry])


@pytest.mark.parametrize("gateways", [(64,), (64, 16, 8, 8, 8), (0, 1, 1, 1), (65, 1, 1, 1)])
def test_thresholds_are_four_numbers(gateways: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="such as 64,16,8,8"):
        parse_rules([], gateways)


def test_a_threshold_is_reached_by_as_many_links() -> None:
    rules = parse_rules([], (64, 16, 8, 8))
    assert not rules.is_at_threshold(2, {2: 7})
    assert rules.is_at_threshold(2, {2: 8})
    assert not rules.is_at_threshold(3, {2: 8})


# In a ring


def reasons(ring: NamedRing) -> list[str]:
    return [fact.reason for _, _, fact in ring.facts if isinstance(fact, JoinRejected)]


def admit(ring: NamedRing, uids: list[str], *admitted: str) -> None:
    """Let some brokers let only these brokers in from now on."""
    for uid in uids:
        rules = parse_rules([f"uid:{each}" for each in admitted])
        ring.brokers[uid].units.placement.entry = rules


def test_a_named_cluster_takes_whom_its_steward_admits_and_says_so_to_others() -> None:
    ring = NamedRing()
    ring.unit = "eu/fra/a"
    first = ring.found()
    admit(ring, [first], known := ring.name(1))
    ring.start_in("eu/fra/a", [first])
    ring.run(5)
    assert ring.brokers[known].units.names == ("eu", "fra", "a")
    ring.start_in("eu/fra/a", [first])
    ring.run(5)
    [why] = reasons(ring)
    assert why.startswith(f"cluster eu/fra/a: it does not admit {ring.name(2)[:8]} at ")
    ring.start_in("eu/fra/b", [first])
    ring.run(12)
    assert ring.brokers[ring.name(3)].units.names == ("eu", "fra", "b"), "that one has no rules"


def test_a_broker_that_is_not_admitted_goes_to_another_cluster_if_it_names_none() -> None:
    ring = NamedRing(limit=4)
    ring.found()
    while len(ring.nodes) < 6:
        ring.join(ring.alive)
    ring.rest()
    ring.run(20)
    ring.agree(60)
    closed = [uid for uid in ring.alive if ring.brokers[uid].units.cluster == (0, 0, 0)]
    assert len(closed) < 6
    arc = ring.brokers[closed[0]].units.arc
    rules = parse_rules(["192.0.2.1"])
    for uid in closed:
        ring.brokers[uid].units.placement.entry = rules
    for _ in range(2):
        uid = ring.join(ring.alive)
        member = ring.nodes[uid].member
        assert member is not None
        assert not arc.holds(member.ring_id)
    assert reasons(ring) == []


def test_where_there_is_one_cluster_alone_it_is_refused() -> None:
    ring = NamedRing()
    admit(ring, [ring.found()], ring.name(7))
    ring.start_in("")
    ring.run(5)
    [why] = reasons(ring)
    assert "does not admit" in why
    assert "[units] admit" in why


def test_a_broker_at_its_threshold_passes_newcomers_on_inside_the_cluster() -> None:
    """Grid Event Service protocols, 3.1: who is at its threshold passes the request on."""
    ring = NamedRing()
    first = ring.found()
    while len(ring.nodes) < 4:
        ring.join([first])
    ring.rest()
    ring.agree(60)
    full = parse_rules([], (1, 64, 64, 64))
    ring.brokers[first].units.placement.entry = full
    before = ring.in_order
    taken = [ring.join([first]) for _ in range(4)]
    after = ring.in_order
    assert set(taken) == set(after) - set(before)
    assert after[1] == before[1], "none of them stands right of the broker at its threshold"


def test_where_all_are_at_their_thresholds_newcomers_wait_and_are_told_why() -> None:
    ring = NamedRing()
    first = ring.found()
    ring.join([first])
    ring.join([first])
    ring.rest()
    ring.agree(60)
    for uid in ring.alive:
        ring.brokers[uid].units.placement.entry = parse_rules([], (1, 1, 1, 1))
    late = ring.start_in("", [first])
    ring.run(10)
    assert ring.nodes[late].member is None
    waits = ring.nodes[late].parts.newcomer
    assert "gateways of level 0, as many as it may have" in waits.waits_for
    ring.brokers[first].units.placement.entry = EVERYBODY
    ring.run(20)
    assert ring.nodes[late].member is not None
