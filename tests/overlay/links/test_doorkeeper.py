"""Rates of connections for each address, in a table that does not grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.address import site_of
from overlay.ids import nanos
from overlay.limits import Limits
from overlay.links.doorkeeper import Doorkeeper, of_links

LIMITS = Limits(connections_per_second=2, connections_at_once=5, hosts=3)


def test_a_burst_then_the_rate() -> None:
    door = Doorkeeper(LIMITS)
    assert [door.admit("10.0.0.1", 0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [door.admit("10.0.0.1", nanos(1)) for _ in range(3)] == [True, True, False]
    assert [door.admit("10.0.0.1", nanos(1000)) for _ in range(6)] == [True] * 5 + [False]


def test_links_have_a_rate_of_their_own() -> None:
    limits = Limits(links_per_second=2, links_of_one=5, hosts=3)
    door = Doorkeeper(limits, of_links)
    assert [door.admit("certificate cccccccc", 0) for _ in range(6)] == [True] * 5 + [False]
    assert door.admit("certificate dddddddd", 0)
    assert [door.admit("certificate cccccccc", nanos(1)) for _ in range(3)] == [True, True, False]


def test_who_floods_keeps_nobody_else_out() -> None:
    door = Doorkeeper(LIMITS)
    for _ in range(100):
        door.admit("10.0.0.1", 0)
    assert door.admit("10.0.0.2", 0)
    assert not door.admit("10.0.0.1", 0)


def test_no_rate_means_no_limit() -> None:
    door = Doorkeeper(Limits(connections_per_second=0))
    assert all(door.admit("10.0.0.1", 0) for _ in range(10_000))
    assert len(door) == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**9)), max_size=200))
def test_within_any_time_no_more_than_burst_and_rate(calls: list[tuple[int, int]]) -> None:
    door = Doorkeeper(LIMITS)
    now = 0
    let_in: list[int] = []
    for address, pause in calls:
        now += pause
        if door.admit(f"10.0.0.{address}", now) and address == 0:
            let_in.append(now)
        assert len(door) <= LIMITS.hosts
    if len({address for address, _ in calls}) <= LIMITS.hosts:  # else it may be forgotten
        for first in range(len(let_in)):
            for last in range(first, len(let_in)):
                allowed = 5 + 2 * (let_in[last] - let_in[first]) / nanos(1)
                assert last - first + 1 <= allowed + 1e-6


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("no address", "no address"),
    ],
)
def test_a_v6_site_is_one_address(host: str, site: str) -> None:
    assert site_of(host) == site
