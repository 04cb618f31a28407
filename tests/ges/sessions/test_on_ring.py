"""Who waits until a broker is on the ring, and what becomes of a broker that the ring rejects."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from ges.sessions.on_ring import OnRing


@pytest.fixture
def on_ring() -> OnRing:
    return OnRing()


async def arrivals_of(on_ring: OnRing, nursery: trio.Nursery) -> list[str]:
    """Let somebody wait for the ring, and somebody for the first decision; say who has come."""
    came: list[str] = []

    async def member() -> None:
        await on_ring.wait()
        came.append("member")

    async def decided() -> None:
        await on_ring.decided()
        came.append("decided")

    nursery.start_soon(member)
    nursery.start_soon(decided)
    await trio.testing.wait_all_tasks_blocked()
    return came


async def test_all_go_on_once_it_has_joined(on_ring: OnRing, nursery: trio.Nursery) -> None:
    came = await arrivals_of(on_ring, nursery)
    assert came == []
    on_ring.joined()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(came) == ["decided", "member"]
    assert on_ring.is_set()
    assert on_ring.rejection is None


async def test_who_waits_while_it_joins_anew_goes_on_when_it_has(
    on_ring: OnRing, nursery: trio.Nursery
) -> None:
    on_ring.joined()
    on_ring.rejoining()
    assert not on_ring.is_set()
    came = await arrivals_of(on_ring, nursery)
    on_ring.rejoining()  # once more, before it has joined
    on_ring.joined()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(came) == ["decided", "member"]


async def test_a_rejection_ends_the_wait_for_a_decision_and_makes_nobody_a_member(
    on_ring: OnRing, nursery: trio.Nursery
) -> None:
    came = await arrivals_of(on_ring, nursery)
    on_ring.rejected("another overlay")
    await trio.testing.wait_all_tasks_blocked()
    assert came == ["decided"]
    assert not on_ring.is_set()
    assert on_ring.rejection == "another overlay"
    nursery.cancel_scope.cancel()


def test_who_has_been_a_member_is_rejected_in_vain(on_ring: OnRing) -> None:
    on_ring.joined()
    on_ring.rejoining()
    on_ring.rejected("too soon")
    assert on_ring.rejection is None
